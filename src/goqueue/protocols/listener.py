"""What the listeners of all protocols have in common: they know the connections that are open, and end them.

A connection is let in by the door, once for all listeners; a front lets nobody in any more once it has begun to end.
How the connections of a protocol are brought to an end is its own story.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from goqueue.broker.broker import Broker
from goqueue.protocols.connection_limiter import Door, Limits
from goqueue.runtime.tasks import Tasks


class Connection(Protocol):
    """What a front has to know of a connection."""

    host: str

    def abort(self) -> None:
        """Close the connection now; what was not sent is lost."""
        ...


C = TypeVar("C", bound=Connection)


class Front(ABC, Generic[C]):
    """Makes connections of one protocol and knows those that are open."""

    def __init__(self, broker: Broker, door: Door) -> None:
        self.broker = broker
        self.door = door
        self.tasks = Tasks(broker.core.sink)
        self.loop = asyncio.get_running_loop()
        self._connections: dict[C, None] = {}
        self._emptied = asyncio.Event()
        self._emptied.set()
        self._is_ending = False

    @property
    def limits(self) -> Limits:
        """What a connection may cost."""
        return self.door.limits

    @property
    def open_connections(self) -> Sequence[C]:
        """The connections that are in, as of now."""
        return list(self._connections)

    @abstractmethod
    def connection(self) -> C:
        """Return the protocol for a new connection."""

    def admit(self, connection: C) -> str:
        """Let a connection in, or return why not."""
        if self._is_ending:
            return "the broker is about to stop"
        refusal = self.door.enter(connection.host)
        if not refusal:
            self._connections[connection] = None
            self._emptied.clear()
        return refusal

    def forget(self, connection: C) -> None:
        """Take note that a connection which was let in is gone."""
        del self._connections[connection]
        self.door.leave(connection.host)
        if not self._connections:
            self._emptied.set()

    async def drain(self) -> None:
        """Answer what is under way and close all connections; the caller sets a deadline."""
        self._is_ending = True
        await self._finish()
        await self._emptied.wait()

    @abstractmethod
    async def _finish(self) -> None:
        """See to it that what is under way is answered, and that every connection ends then."""

    async def close(self) -> None:
        """End everything now, whoever may still be reading."""
        self._is_ending = True
        await self.tasks.close()
        for connection in self.open_connections:
            connection.abort()
