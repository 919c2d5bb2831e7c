"""Connections, as the core sees them: asyncio's transports and protocols, made by an injected `Network`.

The seam lies at the making of connections, not at the bytes: the hot path is an `asyncio.BufferedProtocol`
that reads into its own buffer, and nothing may stand between it and the transport. What travels, and in which
frames, is not known here.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Protocol, TypeVar

Address = tuple[str, int]
ProtocolT = TypeVar("ProtocolT", bound=asyncio.BaseProtocol)

# After a restart every client comes back at once; asyncio's backlog of 100 would leave many of them waiting
# for a retransmitted SYN.
_BACKLOG = 1024


class Listener(Protocol):
    """An open port."""

    @property
    def address(self) -> Address:
        """The host and port that it listens on; the port is the true one where 0 was asked for."""
        ...

    def close(self) -> None:
        """Accept no more connections; those that exist live on. Closing twice is harmless."""
        ...


class Network(Protocol):
    """Opens ports and connections; protocols may be of the plain and of the buffered sort."""

    def host_name(self) -> str:
        """Return the name that this machine has for others; empty if it has none."""
        ...

    async def listen(self, host: str, port: int, protocol_factory: Callable[[], asyncio.BaseProtocol]) -> Listener:
        """Accept connections on a port, each served by a protocol of its own; port 0 takes any free one.

        OSError if the address is in use or not of this host.
        """
        ...

    async def connect(
        self, host: str, port: int, protocol_factory: Callable[[], ProtocolT]
    ) -> tuple[asyncio.Transport, ProtocolT]:
        """Open a connection; its protocol's `connection_made` has been called at return.

        ConnectionRefusedError if the port is closed. For a host that does not answer, the operating system decides how
        long this waits: the caller sets its own deadline.
        """
        ...


class RealListener:
    """A listening socket of the operating system."""

    def __init__(self, server: asyncio.Server) -> None:
        self._server = server
        host, port, *_ = server.sockets[0].getsockname()
        self.address: Address = (host, port)

    def close(self) -> None:
        self._server.close()


class RealNetwork:
    """The operating system's TCP, through the running event loop, which sets TCP_NODELAY everywhere."""

    def host_name(self) -> str:
        return socket.gethostname()

    async def listen(self, host: str, port: int, protocol_factory: Callable[[], asyncio.BaseProtocol]) -> RealListener:
        loop = asyncio.get_running_loop()
        return RealListener(await loop.create_server(protocol_factory, host, port, backlog=_BACKLOG))

    async def connect(
        self, host: str, port: int, protocol_factory: Callable[[], ProtocolT]
    ) -> tuple[asyncio.Transport, ProtocolT]:
        return await asyncio.get_running_loop().create_connection(protocol_factory, host, port)
