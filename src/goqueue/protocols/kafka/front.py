"""The Kafka listener's side of the house: what all its connections share, and how they end."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import ClassVar

from goqueue.broker.broker import Broker
from goqueue.protocols.door import Door, Limits
from goqueue.protocols.kafka.connection import KafkaConnection
from goqueue.protocols.kafka.context import KeptReplies
from goqueue.protocols.kafka.frames import BufferPool
from goqueue.runtime.tasks import Tasks
from goqueue.seams.network import Address
from goqueue.seams.sink import Event, Severity

_WILDCARDS = frozenset({"0.0.0.0", "::", ""})


@dataclass(frozen=True, slots=True)
class RequestFailed(Event):
    """A request met an error that nobody expected; its connection was closed."""

    severity: ClassVar[Severity] = Severity.ERROR
    address: str
    error: str


class KafkaFront:
    """Makes connections and knows those that are open."""

    def __init__(self, broker: Broker, door: Door, *, advertised: Address = ("", 0)) -> None:
        self.broker = broker
        self.door = door
        self.tasks = Tasks(broker.sink)
        self.pool = BufferPool()
        self.kept = KeptReplies()
        self.loop = asyncio.get_running_loop()
        self._advertised = advertised
        self._connections: dict[KafkaConnection, None] = {}
        self._emptied = asyncio.Event()
        self._emptied.set()
        self._is_draining = False

    @property
    def limits(self) -> Limits:
        """What a connection may cost."""
        return self.door.limits

    def connection(self) -> KafkaConnection:
        """Return the protocol for a new connection."""
        return KafkaConnection(self)

    def admit(self, connection: KafkaConnection) -> str:
        """Let a connection in, or return why not."""
        if self._is_draining:
            return "the broker is about to stop"
        refusal = self.door.enter(connection.host)
        if not refusal:
            self._connections[connection] = None
            self._emptied.clear()
        return refusal

    def forget(self, connection: KafkaConnection) -> None:
        """Take note that a connection which was let in is gone."""
        del self._connections[connection]
        self.door.leave(connection.host)
        if not self._connections:
            self._emptied.set()

    def reached_at(self, local: Address) -> Address:
        """Return the address that clients are told, given where one of them has reached us."""
        host, port = self._advertised
        local_host = "127.0.0.1" if local[0] in _WILDCARDS else local[0]
        return host or local_host, port or local[1]

    def failed(self, connection: KafkaConnection, error: Exception) -> None:
        """Report an error that nobody expected."""
        self.broker.sink.emit(RequestFailed(connection.address, repr(error)))

    async def drain(self) -> None:
        """Answer what is under way and close all connections; the caller sets a deadline."""
        self._is_draining = True
        await self.tasks.drain()
        for connection in list(self._connections):
            connection.drain()
        for partition in list(self.broker.partitions):
            await partition.flusher.drain()
        for connection in list(self._connections):
            connection.close()
        await self._emptied.wait()

    async def close(self) -> None:
        """End everything now, whoever may still be reading."""
        self._is_draining = True
        await self.tasks.close()
        for connection in list(self._connections):
            connection.abort()
