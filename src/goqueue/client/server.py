"""Calls about the broker as a whole: which one it is, and how it is."""

from __future__ import annotations

from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple

import msgspec

from goqueue.client.calls import Call, Reply, reading


class Version(msgspec.Struct, frozen=True):
    """Which broker answers, and what it runs on."""

    name: str
    version: str
    python: str = ""
    node_id: int = -1
    cluster_id: str = ""


class Check(msgspec.Struct, frozen=True):
    """One thing that the broker looks at to tell whether it is healthy."""

    name: str
    status: str
    detail: str = ""


class Health(msgspec.Struct, frozen=True):
    """How the broker is, and what it looked at."""

    status: str
    checks: tuple[Check, ...] = ()


class Greeting(NamedTuple):
    """A broker's version, and the time of its clock, to the second, when it replied; None if it told none."""

    version: Version
    time: datetime | None


_read_version = reading(Version)
_read_health = reading(Health)


def version() -> Call[Version]:
    """Ask which broker it is."""
    return Call("GET", "/version", _read_version)


def greet() -> Call[Greeting]:
    """Ask which broker it is and what time it is there."""
    return Call("GET", "/version", _read_greeting)


def health() -> Call[Health]:
    """Ask how the broker is, with what it looked at; also when it is not well."""
    return Call("GET", "/healthz", _read_health, tells_failures=True)


def readiness() -> Call[Health]:
    """Ask whether the broker would take work, and if not, why."""
    return Call("GET", "/readyz", _read_health, tells_failures=True)


def _read_greeting(reply: Reply) -> Greeting:
    try:
        time = parsedate_to_datetime(reply.headers.get("date", ""))
    except ValueError:
        time = None
    return Greeting(_read_version(reply), time)
