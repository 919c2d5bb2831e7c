"""The HTTP listener's side of the house: what all its connections share, and how they end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from email.utils import formatdate

from typing_extensions import override
from uvicorn import Config
from uvicorn.server import ServerState

from goqueue.broker.broker import Broker
from goqueue.broker.messages import Turns
from goqueue.broker.reading import Polls
from goqueue.protocols.door import Door
from goqueue.protocols.front import Front
from goqueue.protocols.http.calls import Health, Services
from goqueue.protocols.http.connection import HttpConnection
from goqueue.protocols.http.routes import application

# Nothing that a browser gets from here is to be kept, or taken for something else than it says.
_HEADERS = [(b"server", b"goqueue"), (b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")]


class HttpFront(Front[HttpConnection]):
    """Makes HTTP connections, and keeps what they share."""

    def __init__(
        self,
        broker: Broker,
        door: Door,
        *,
        health: Callable[[], Awaitable[Health]],
        metrics: Callable[[str], Awaitable[tuple[bytes, str]]],
    ) -> None:
        super().__init__(broker, door)
        self.state = ServerState()
        self.polls = Polls()
        self.config = Config(
            application(Services(broker, health, metrics, self.polls, Turns())),
            interface="asgi3",
            ws="none",
            lifespan="off",
            log_config=None,
            proxy_headers=False,
        )
        self._second = -1

    @override
    def connection(self) -> HttpConnection:
        return HttpConnection(self)

    def refresh_headers(self) -> list[tuple[bytes, bytes]]:
        """Return the headers of every reply; one of them tells the time."""
        second = self.broker.clock.now_ms() // 1000
        if second != self._second:
            self._second = second
            self.state.default_headers = [(b"date", formatdate(second, usegmt=True).encode()), *_HEADERS]
        return self.state.default_headers

    @override
    async def _finish(self) -> None:
        self.polls.close()
        for connection in self.open_connections:
            connection.shutdown()

    @override
    async def close(self) -> None:
        self.polls.close()
        await super().close()
