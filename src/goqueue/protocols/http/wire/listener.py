"""The HTTP listener: the state that its connections share, and how they end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from email.utils import formatdate

from typing_extensions import override

from goqueue.broker.broker import Broker
from goqueue.broker.messages.publish import PartitionTurns
from goqueue.broker.messages.reading import Polls
from goqueue.protocols.connection_limiter import ConnectionLimiter
from goqueue.protocols.http.calls import Health, Services
from goqueue.protocols.http.routes import switch
from goqueue.protocols.http.wire.connection import HttpConnection
from goqueue.protocols.http.wire.hosts import HostPolicy
from goqueue.protocols.http.wire.reply import lines
from goqueue.protocols.listener import ProtocolListener

# Browsers must not cache replies, or guess their media type.
_HEADERS = [(b"server", b"goqueue"), (b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")]


class HttpListener(ProtocolListener[HttpConnection]):
    """Makes HTTP connections, and holds their shared state."""

    def __init__(
        self,
        broker: Broker,
        limiter: ConnectionLimiter,
        *,
        health: Callable[[], Awaitable[Health]],
        metrics: Callable[[str], Awaitable[tuple[bytes, str]]],
        hosts: HostPolicy | None = None,
    ) -> None:
        super().__init__(broker, limiter)
        self.hosts = hosts or HostPolicy()
        self.polls = Polls()
        self.switch = switch(Services(broker, health, metrics, self.polls, PartitionTurns()))
        self._second = -1
        self._common_headers = b""

    @override
    def connection(self) -> HttpConnection:
        return HttpConnection(self)

    def common_headers(self) -> bytes:
        """Return the header lines of every reply, with the current date."""
        second = self.broker.core.clock.now_ms() // 1000
        if second != self._second:
            self._second = second
            self._common_headers = lines([(b"date", formatdate(second, usegmt=True).encode()), *_HEADERS])
        return self._common_headers

    @override
    async def _finish(self) -> None:
        self.polls.close()
        for connection in self.open_connections:
            connection.finish()

    @override
    async def close(self) -> None:
        self.polls.close()
        await super().close()
