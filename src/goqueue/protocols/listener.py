"""The common part of the listeners of all protocols: they know their open connections, and close them.

One limiter admits the connections of all listeners. A listener that is draining refuses new ones. Each protocol
decides how to end its own connections.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from goqueue.broker.broker import Broker
from goqueue.protocols.connection_limiter import ConnectionLimiter, ConnectionLimits
from goqueue.runtime.tasks import Tasks


class Connection(Protocol):
    """A connection, as far as its listener knows it."""

    host: str

    def abort(self) -> None:
        """Close the connection now; unsent bytes are lost."""
        ...


C = TypeVar("C", bound=Connection)


class ProtocolListener(ABC, Generic[C]):
    """Makes connections of one protocol and knows those that are open."""

    def __init__(self, broker: Broker, limiter: ConnectionLimiter) -> None:
        self.broker = broker
        self.limiter = limiter
        self.tasks = Tasks(broker.core.sink)
        self.loop = asyncio.get_running_loop()
        self._connections: dict[C, None] = {}
        self._emptied = asyncio.Event()
        self._emptied.set()
        self._is_ending = False

    @property
    def limits(self) -> ConnectionLimits:
        """The limits of connections."""
        return self.limiter.limits

    @property
    def open_connections(self) -> Sequence[C]:
        """The open connections, as of now."""
        return list(self._connections)

    @abstractmethod
    def connection(self) -> C:
        """Return the protocol for a new connection."""

    def admit(self, connection: C) -> str:
        """Admit a connection, or return why it is refused."""
        if self._is_ending:
            return "the broker is about to stop"
        refusal = self.limiter.acquire(connection.host)
        if not refusal:
            self._connections[connection] = None
            self._emptied.clear()
        return refusal

    def forget(self, connection: C) -> None:
        """Forget an admitted connection that has closed."""
        del self._connections[connection]
        self.limiter.release(connection.host)
        if not self._connections:
            self._emptied.set()

    async def drain(self) -> None:
        """Answer the requests in progress and close all connections; the caller sets a deadline."""
        self._is_ending = True
        await self._finish()
        await self._emptied.wait()

    @abstractmethod
    async def _finish(self) -> None:
        """Let every connection answer its requests in progress, and close after that."""

    async def close(self) -> None:
        """Close all connections now, even if clients still read."""
        self._is_ending = True
        await self.tasks.close()
        for connection in self.open_connections:
            connection.abort()
