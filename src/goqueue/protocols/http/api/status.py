"""The broker itself by HTTP: liveness, readiness, health, version, metrics, and descriptions of the interface."""

from __future__ import annotations

import sys
from typing import Literal

import msgspec

from goqueue import __version__
from goqueue.protocols.http.calls import HTML, Answer, Context, Health
from goqueue.protocols.http.route import route

_PAGE_POLICY = b"default-src 'none'; style-src 'unsafe-inline'"


class Alive(msgspec.Struct):
    """The process runs and answers."""

    status: Literal["ok"] = "ok"


class CheckReply(msgspec.Struct, omit_defaults=True):
    """The result of one check."""

    name: str
    status: Literal["ok", "failed"]
    detail: str = ""


class HealthReply(msgspec.Struct):
    """The health of the broker: degraded if something does not work, down if nothing does."""

    status: Literal["ok", "degraded", "down"]
    checks: list[CheckReply]


class Link(msgspec.Struct):
    """A path of the broker, and what it returns."""

    path: str
    description: str


class Index(msgspec.Struct):
    """Name and version of the broker, and links."""

    name: str
    version: str
    links: list[Link]


class Version(msgspec.Struct):
    """Name, version and identity of the broker."""

    name: str
    version: str
    python: str
    node_id: int
    cluster_id: str


@route("GET", "/", "status.index", is_strict=False)
async def index(context: Context) -> Answer[Index | bytes]:
    """List the main paths; browsers get a page."""
    from goqueue.protocols.http.index_page import LINKS, page

    vary = (b"vary", b"accept")
    if "text/html" in context.header(b"accept").lower():
        policy = (b"content-security-policy", _PAGE_POLICY)
        return Answer(page(context.header(b"host")), media_type=HTML, headers=[policy, vary])
    links = [Link(path, meaning) for path, meaning in LINKS.items()]
    return Answer(Index("goqueue", __version__, links), headers=[vary])


@route("GET", "/livez", "status.livez", is_strict=False)
async def livez(context: Context) -> Alive:
    """Check that the process runs."""
    del context
    return Alive()


@route("GET", "/readyz", "status.readyz", other_statuses=(503,), is_strict=False)
async def readyz(context: Context) -> Answer[HealthReply]:
    """Check that everything works that clients need; 503 if not."""
    health = await context.services.health()
    return Answer(_told(health), 200 if health.status == "ok" else 503)


@route("GET", "/healthz", "status.healthz", other_statuses=(503,), is_strict=False)
async def healthz(context: Context) -> Answer[HealthReply]:
    """Report the health of the broker; 503 only if it serves no clients."""
    health = await context.services.health()
    return Answer(_told(health), 503 if health.status == "down" else 200)


def _told(health: Health) -> HealthReply:
    return HealthReply(health.status, [CheckReply(each.name, each.status, each.detail) for each in health.checks])


@route("GET", "/version", "status.version")
async def version(context: Context) -> Version:
    """Return name and version of the broker."""
    broker = context.broker
    python = ".".join(map(str, sys.version_info[:3]))
    return Version("goqueue", __version__, python, broker.core.options.node_id, str(broker.topics.cluster_id))


@route("GET", "/metrics", "status.metrics", media_type="text/plain", is_strict=False)
async def metrics(context: Context) -> Answer[bytes]:
    """Return metrics for Prometheus."""
    text, media_type = await context.services.metrics(context.header(b"accept"))
    return Answer(text, media_type=media_type)


@route("GET", "/openapi.json", "status.openapi", is_strict=False)
async def openapi(context: Context) -> bytes:
    """Describe this interface for programs."""
    from goqueue.protocols.http.openapi import document

    del context
    return document()


@route("GET", "/docs", "status.docs", media_type=HTML, is_strict=False)
async def docs(context: Context) -> Answer[bytes]:
    """Describe this interface for people."""
    from goqueue.protocols.http.docs_page import page

    del context
    return Answer(page(), media_type=HTML, headers=[(b"content-security-policy", _PAGE_POLICY)])
