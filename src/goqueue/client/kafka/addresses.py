"""Addresses of brokers as text: `host:port,[::1]:9092`; without a port, Kafka's own."""

from __future__ import annotations

import re
from typing import NamedTuple

from typing_extensions import override

from goqueue.errors import Invalid
from goqueue.model.units import quoted

DEFAULT_PORT = 9092
_PORT_MAX = 65_535
_SERVER = re.compile(r"(?:\[([0-9A-Fa-f:.%\w]+)\]|([^\s\[\]:/@]+))(?::([0-9]{1,5}))?")
_HINT = "write HOST:PORT, several of them with commas, and IPv6 as [::1]:9092"


class Address(NamedTuple):
    """A host and a port."""

    host: str
    port: int

    @override
    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_bootstrap(written: str) -> tuple[Address, ...]:
    """Return the addresses in their order, each once; Invalid if there is none, or one is malformed."""
    found = [_address(part.strip()) for part in written.split(",") if part.strip()]
    if not found:
        raise Invalid("no address of a broker is given", hint=_HINT)
    return tuple(dict.fromkeys(found))


def _address(written: str) -> Address:
    match = _SERVER.fullmatch(written)
    port = int(match[3] or DEFAULT_PORT) if match else 0
    if match is None or not 0 < port <= _PORT_MAX:
        raise Invalid(f"{quoted(written)} is no address of a broker", hint=_HINT)
    return Address(match[1] or match[2], port)
