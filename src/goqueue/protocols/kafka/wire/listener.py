"""The Kafka listener: the state that its connections share, and how they end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from goqueue.broker.admission import Caller
from goqueue.broker.broker import Broker
from goqueue.protocols.connection_limiter import ConnectionLimiter
from goqueue.protocols.kafka.api.context import Context, KeptReplies
from goqueue.protocols.kafka.wire.connection import KafkaConnection
from goqueue.protocols.kafka.wire.frames import BufferPool
from goqueue.protocols.listener import ProtocolListener
from goqueue.seams.network import Address
from goqueue.seams.sink import Event, Severity

_WILDCARDS = frozenset({"0.0.0.0", "::", ""})


@dataclass(frozen=True, slots=True)
class RequestFailed(Event):
    """A request failed with an unexpected error; its connection was closed."""

    severity: ClassVar[Severity] = Severity.ERROR
    address: str
    error: str


class KafkaListener(ProtocolListener[KafkaConnection]):
    """Makes Kafka connections, and keeps what they share; `listeners` are all open ports, by protocol."""

    def __init__(
        self,
        broker: Broker,
        limiter: ConnectionLimiter,
        *,
        advertised: Address = ("", 0),
        listeners: Mapping[str, Address] | None = None,
    ) -> None:
        super().__init__(broker, limiter)
        self.pool = BufferPool()
        self.kept = KeptReplies()
        self._advertised = advertised
        self._listeners = {} if listeners is None else listeners

    @override
    def connection(self) -> KafkaConnection:
        return KafkaConnection(self)

    def context(self, caller: Caller, local: Address) -> Context:
        """Return the context of requests of a connection that has reached the broker at an address."""
        return Context(self.broker, caller, self.reached_at(local), self.kept, self._listeners)

    def reached_at(self, local: Address) -> Address:
        """Return the advertised address, given the address at which a client has reached the broker."""
        host, port = self._advertised
        local_host = "127.0.0.1" if local[0] in _WILDCARDS else local[0]
        return host or local_host, port or local[1]

    def http_address(self, context: Context) -> Address | None:
        """Return the HTTP address for a client of a Kafka connection; None if there is no such port."""
        http = self._listeners.get("http")
        return None if http is None else (context.reached_at[0], http[1])

    def failed(self, connection: KafkaConnection, error: Exception) -> None:
        """Report an unexpected error."""
        self.broker.core.sink.emit(RequestFailed(connection.address, repr(error)))

    @override
    async def _finish(self) -> None:
        await self.tasks.drain()
        for connection in self.open_connections:
            connection.drain()
        for partition in list(self.broker.topics.partitions):
            await partition.flusher.drain()
        for connection in self.open_connections:
            connection.close()
