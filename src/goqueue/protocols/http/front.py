"""The HTTP listener's side of the house: what all its connections share, and how they end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from email.utils import formatdate

from uvicorn import Config
from uvicorn.server import ServerState

from goqueue.broker.broker import Broker
from goqueue.broker.messages import Turns
from goqueue.broker.reading import Polls
from goqueue.protocols.door import Door, Limits
from goqueue.protocols.http.calls import Health, Services
from goqueue.protocols.http.connection import HttpConnection
from goqueue.protocols.http.routes import application
from goqueue.runtime.tasks import Tasks

# Nothing that a browser gets from here is to be kept, or taken for something else than it says.
_HEADERS = [(b"server", b"goqueue"), (b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")]


class HttpFront:
    """Makes connections and knows those that are open."""

    def __init__(
        self,
        broker: Broker,
        door: Door,
        *,
        health: Callable[[], Awaitable[Health]],
        metrics: Callable[[str], Awaitable[tuple[bytes, str]]],
    ) -> None:
        self.broker = broker
        self.door = door
        self.tasks = Tasks(broker.sink)
        self.loop = asyncio.get_running_loop()
        self.state = ServerState()
        self.polls = Polls()
        self.config = Config(
            application(Services(broker, health, metrics, self.polls, Turns())),
            interface="asgi3",
            ws="none",
            lifespan="off",
            log_config=None,
            proxy_headers=False,
            # One timer of a second more or less is nothing to an idle connection.
            timeout_keep_alive=-(-door.limits.idle_timeout_ms // 1000),
        )
        self._connections: dict[HttpConnection, None] = {}
        self._emptied = asyncio.Event()
        self._emptied.set()
        self._is_draining = False
        self._second = -1

    @property
    def limits(self) -> Limits:
        """What a connection may cost."""
        return self.door.limits

    def connection(self) -> HttpConnection:
        """Return the protocol for a new connection."""
        return HttpConnection(self)

    def admit(self, connection: HttpConnection) -> str:
        """Let a connection in, or return why not."""
        if self._is_draining:
            return "the broker is about to stop"
        refusal = self.door.enter(connection.host)
        if not refusal:
            self._connections[connection] = None
            self._emptied.clear()
        return refusal

    def forget(self, connection: HttpConnection) -> None:
        """Take note that a connection which was let in is gone."""
        del self._connections[connection]
        self.door.leave(connection.host)
        if not self._connections:
            self._emptied.set()

    def refresh_headers(self) -> list[tuple[bytes, bytes]]:
        """Return the headers of every reply; one of them tells the time."""
        second = self.broker.clock.now_ms() // 1000
        if second != self._second:
            self._second = second
            self.state.default_headers = [(b"date", formatdate(second, usegmt=True).encode()), *_HEADERS]
        return self.state.default_headers

    async def drain(self) -> None:
        """Answer what is under way and close all connections; the caller sets a deadline."""
        self._is_draining = True
        self.polls.close()
        for connection in list(self._connections):
            connection.shutdown()
        await self._emptied.wait()

    async def close(self) -> None:
        """End everything now."""
        self._is_draining = True
        self.polls.close()
        await self.tasks.close()
        for connection in list(self._connections):
            connection.abort()
