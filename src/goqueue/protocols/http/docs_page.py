"""The documentation page of the HTTP interface: one file without external parts, made from the OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from html import escape
from typing import Any

from goqueue import __version__
from goqueue.errors import GoQueueError
from goqueue.protocols.faults import TABLE, UNEXPECTED
from goqueue.protocols.http.openapi import description, first_line
from goqueue.protocols.http.routes import PREFIX
from goqueue.protocols.http.wire.problems import INTERNAL_ERROR

_STYLE = """
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
code, pre { font: 14px/1.4 ui-monospace, monospace }
h3 { margin-bottom: 0 } h3 code { font-size: 15px }
.method { display: inline-block; min-width: 4.5rem; font-weight: bold }
table { border-collapse: collapse; width: 100% } td, th { text-align: left; padding: .25rem .75rem .25rem 0;
vertical-align: top; border-bottom: 1px solid #8884 } :target { background: #fd06 }
"""


@cache
def page() -> bytes:
    """Return the page."""
    return "\n".join(_lines(description())).encode()


def _lines(document: dict[str, Any]) -> Iterator[str]:
    yield "<!doctype html><html lang=en><meta charset=utf-8><title>GoQueue: HTTP interface</title>"
    yield f"<meta name=viewport content='width=device-width'><style>{_STYLE}</style>"
    yield f"<h1>GoQueue {escape(__version__)}: HTTP interface</h1>"
    yield f"<p>Every path is also available below <code>{PREFIX}</code>. The same for programs: "
    yield "<a href=/openapi.json>openapi.json</a>. <a href=#errors>Errors</a> are problem documents (RFC 9457).</p>"
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"<h3 id={operation['operationId']}><code><span class=method>{method.upper()}</span>"
            yield f"{escape(path)}</code></h3><p>{escape(operation['summary'])}.</p>"
            yield from _fields(document, operation)
            statuses = ", ".join(operation["responses"])
            yield f"<p>Statuses: {statuses}</p>"
    yield "<h2 id=errors>Errors</h2><table><tr><th>code<th>status<th>meaning</tr>"
    for code, meaning in sorted(_errors().items()):
        status = TABLE[code].http if code in TABLE else UNEXPECTED.http
        yield f"<tr id={code}><td><code>{code}</code><td>{status}<td>{escape(meaning)}</tr>"
    yield "</table></html>"


def _fields(document: dict[str, Any], operation: dict[str, Any]) -> Iterator[str]:
    rows = [(each["name"], f"in the {each['in']}", each["description"]) for each in operation.get("parameters", ())]
    if "requestBody" in operation:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        shape = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        for name, field in shape["properties"].items():
            need = "required" if name in shape["required"] else "optional"
            rows.append((name, f"in the body, {need}", field.get("description", "")))
    if rows:
        yield "<table>"
        for name, place, meaning in rows:
            yield f"<tr><td><code>{escape(name)}</code><td>{place}<td>{escape(meaning)}</tr>"
        yield "</table>"


def _errors() -> dict[str, str]:
    """Return the meaning of each error code."""
    found = {INTERNAL_ERROR: "The broker met an unexpected error."}
    waiting: list[type[GoQueueError]] = [GoQueueError]
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        if kind.code in TABLE:
            found.setdefault(kind.code, first_line(kind))
    return found
