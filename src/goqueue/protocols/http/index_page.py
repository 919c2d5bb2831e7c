"""The page at `/`, for browsers: links to the main paths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from html import escape

from goqueue import __version__

LINKS: Mapping[str, str] = {
    "/docs": "All paths of the HTTP interface, with fields and errors",
    "/openapi.json": "The same for programs (OpenAPI 3.1)",
    "/topics": "Topics",
    "/groups": "Consumer groups",
    "/queues": "Queue groups and their depth",
    "/transactions": "Transactions",
    "/healthz": "Health, check by check",
    "/metrics": "Metrics for Prometheus",
    "/version": "Version of this broker",
}
"""The paths of the page, and what they return."""

_STYLE = """
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 40rem; margin: 3rem auto; padding: 0 1rem }
code, pre { font: 14px/1.4 ui-monospace, monospace }
pre { overflow-x: auto; padding: .75rem; border: 1px solid #8884 }
td { padding: .25rem 1.5rem .25rem 0; vertical-align: top }
"""
_EXAMPLE = """curl {origin}/topics/greetings/messages --json '{{"messages": [{{"value": "hello"}}]}}'
curl '{origin}/topics/greetings/partitions/0/messages'
goqueue topic list --server {origin}"""


def page(host: str) -> bytes:
    """Return the page; `host` is the `Host` header of the request."""
    return "\n".join([_head(), *_lines(f"http://{host or 'localhost:8080'}")]).encode()


@cache
def _head() -> str:
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>GoQueue</title>"
        f"<meta name=viewport content='width=device-width'><style>{_STYLE}</style>"
        f"<h1>GoQueue {escape(__version__)}</h1><p>This is the HTTP port of a message broker. It is running.</p>"
    )


def _lines(origin: str) -> Iterator[str]:
    yield "<table>"
    for path, meaning in LINKS.items():
        yield f"<tr><td><a href={path}><code>{path}</code></a><td>{escape(meaning)}</tr>"
    yield f"</table><h2>Try it</h2><pre>{escape(_EXAMPLE.format(origin=origin))}</pre></html>"
