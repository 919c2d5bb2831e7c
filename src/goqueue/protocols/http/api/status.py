"""About the broker itself: whether it lives, whether it should get work, how it is, which one it is, its metrics."""

from __future__ import annotations

import sys
from typing import Literal

import msgspec

from goqueue import __version__
from goqueue.protocols.http.calls import HTML, JSON, Answer, Context, Health

_PAGE_POLICY = b"default-src 'none'; style-src 'unsafe-inline'"


class Alive(msgspec.Struct):
    """The process runs and answers."""

    status: Literal["ok"] = "ok"


class CheckReply(msgspec.Struct, omit_defaults=True):
    """One thing that was looked at."""

    name: str
    status: Literal["ok", "failed"]
    detail: str = ""


class HealthReply(msgspec.Struct):
    """How the broker is; degraded means that something does not work, down that nothing does."""

    status: Literal["ok", "degraded", "down"]
    checks: list[CheckReply]


class Link(msgspec.Struct):
    """A path of the broker, and what is there."""

    path: str
    description: str


class Index(msgspec.Struct):
    """Which broker this is, and where to go from here."""

    name: str
    version: str
    links: list[Link]


class Version(msgspec.Struct):
    """Which broker this is."""

    name: str
    version: str
    python: str
    node_id: int
    cluster_id: str


async def index(context: Context, _: None) -> Answer:
    """Lead a browser to what is here, and tell programs the same as JSON."""
    from goqueue.protocols.http.index_page import LINKS, page

    vary = (b"vary", b"accept")
    if "text/html" in context.header(b"accept").lower():
        policy = (b"content-security-policy", _PAGE_POLICY)
        return Answer(page(context.header(b"host")), media_type=HTML, headers=[policy, vary])
    links = [Link(path, meaning) for path, meaning in LINKS.items()]
    return Answer(Index("goqueue", __version__, links), headers=[vary])


async def livez(context: Context, _: None) -> Answer:
    """Tell that the process runs."""
    del context
    return Answer(Alive())


async def readyz(context: Context, _: None) -> Answer:
    """Tell whether everything works that clients need."""
    health = await context.services.health()
    return Answer(_told(health), 200 if health.status == "ok" else 503)


async def healthz(context: Context, _: None) -> Answer:
    """Tell how the broker is; a failure only if it serves nobody."""
    health = await context.services.health()
    return Answer(_told(health), 503 if health.status == "down" else 200)


def _told(health: Health) -> HealthReply:
    return HealthReply(health.status, [CheckReply(each.name, each.status, each.detail) for each in health.checks])


async def version(context: Context, _: None) -> Answer:
    """Tell which broker this is."""
    broker = context.broker
    python = ".".join(map(str, sys.version_info[:3]))
    return Answer(Version("goqueue", __version__, python, broker.options.node_id, str(broker.cluster_id)))


async def metrics(context: Context, _: None) -> Answer:
    """Expose the metrics for Prometheus."""
    text, media_type = await context.services.metrics(context.header(b"accept"))
    return Answer(text, media_type=media_type)


async def openapi(context: Context, _: None) -> Answer:
    """Describe the interface to programs."""
    from goqueue.protocols.http.openapi import document

    del context
    return Answer(document(), media_type=JSON)


async def docs(context: Context, _: None) -> Answer:
    """Describe the interface to people."""
    from goqueue.protocols.http.docs_page import page

    del context
    return Answer(page(), media_type=HTML, headers=[(b"content-security-policy", _PAGE_POLICY)])
