"""A bounded number of threads in which plain functions handle messages, for an event loop that waits for them.

They are daemons: a handler that does not end keeps nobody from ending the process.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from queue import SimpleQueue
from typing import NamedTuple

from goqueue.client.queues import QueueMessage

Handler = Callable[[QueueMessage], object]


class _Order(NamedTuple):
    message: QueueMessage
    loop: asyncio.AbstractEventLoop
    ended: asyncio.Future[Exception | None]


class HandlerThreads:
    """The threads of one worker: as many as are needed, and at most `count`."""

    def __init__(self, handler: Handler, count: int) -> None:
        self._handler = handler
        self._count = count
        self._orders: SimpleQueue[_Order | None] = SimpleQueue()
        self._started = 0
        self._busy = 0

    async def handle(self, message: QueueMessage) -> None:
        """Run the handler in a thread, and wait for its end; raise what it raises."""
        loop = asyncio.get_running_loop()
        order = _Order(message, loop, loop.create_future())
        self._busy += 1
        if self._busy > self._started and self._started < self._count:
            self._started += 1
            threading.Thread(target=self._work, name="goqueue-worker-handler", daemon=True).start()
        self._orders.put(order)
        try:
            error = await order.ended
        finally:
            self._busy -= 1
        if error is not None:
            raise error

    def close(self) -> None:
        """Have each thread end when its handler does."""
        for _ in range(self._started):
            self._orders.put(None)

    def _work(self) -> None:
        while (order := self._orders.get()) is not None:
            error: Exception | None = None
            try:
                _require_done(self._handler(order.message))
            except Exception as raised:  # noqa: BLE001 - the edge of a thread: told to whoever waits for it
                error = raised
            except BaseException as raised:  # noqa: BLE001 - neither the thread nor the loop ends for that
                error = RuntimeError(f"the handler raised {raised!r}")
            with suppress(RuntimeError):
                # Nobody is there any more if the worker has ended meanwhile.
                order.loop.call_soon_threadsafe(_tell, order.ended, error)


def _require_done(returned: object) -> None:
    """Raise TypeError if nothing was done yet: an async function has been taken for a plain one."""
    if isinstance(returned, Coroutine):
        returned.close()
        raise TypeError("the handler is an async function, which is for workers of AsyncClient")


def _tell(ended: asyncio.Future[Exception | None], error: Exception | None) -> None:
    if not ended.done():
        ended.set_result(error)
