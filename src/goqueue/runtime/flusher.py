"""Makes a log durable in the background and tells those who wait for it.

| policy   | a flush begins                                | who waits for it                              |
|----------|-----------------------------------------------|-----------------------------------------------|
| group    | at once after an append, or right behind the  | whoever asked for `durable`; all appends that |
|          | one under way                                 | arrived meanwhile share it                    |
| interval | at most `flush.interval.ms` after an append   | nobody has to                                 |

A flush that fails stops the log: it is never tried again, and all who wait get LogOffline.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial

from goqueue.errors import LogOffline
from goqueue.log.flush import Flush
from goqueue.log.log import Log
from goqueue.model.log_settings import FlushPolicy


class Flusher:
    """Flushes one log; lives on the event loop that owns it. `on_progress` hears of every flush that has ended."""

    def __init__(
        self, log: Log, threads: Executor | None = None, on_progress: Callable[[], None] | None = None
    ) -> None:
        self.log = log
        self._threads = threads
        self._on_progress = on_progress
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.Handle | None = None
        self._is_soon = False
        self._running: asyncio.Future[None] | None = None
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._ends: list[asyncio.Future[None]] = []
        # When the oldest change that the flush under way does not cover must be durable, by the interval policy.
        self._due_at: float | None = None

    def note_append(self) -> None:
        """See to it that what has changed becomes durable as the log's policy says; call it after every change."""
        if self.log.settings.flush is FlushPolicy.GROUP or self._waiting or self._ends:
            self._hurry()
            return
        if self._due_at is None:
            self._due_at = self._loop.time() + self.log.settings.flush_interval_ms / 1000
        if self._timer is None and self._running is None:
            self._timer = self._loop.call_at(self._due_at, self._begin)

    async def durable(self, offset: int) -> None:
        """Wait until all records before an offset are durable; LogOffline if that cannot be any more."""
        if offset <= self.log.durable_end:
            return
        self._refuse_offline()
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append((offset, waiter))
        self._hurry()
        await waiter

    async def drain(self) -> None:
        """Wait until no flush is under way and none is due."""
        while self._timer is not None or self._running is not None:
            end: asyncio.Future[None] = self._loop.create_future()
            self._ends.append(end)
            self._hurry()
            await end

    async def truncate(self, offset: int) -> None:
        """Cut the log back, once nothing is under way and nobody waits for what will be cut; blocks the loop."""
        await self.drain()
        self.log.truncate(offset)

    def _hurry(self) -> None:
        """Begin the next flush as soon as all callbacks that are ready have run, so that they share it."""
        if self._running is not None or self._is_soon:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_soon(self._begin)
        self._is_soon = True

    def _begin(self) -> None:
        self._timer = None
        self._is_soon = False
        self._due_at = None
        flush = self.log.flush()
        if flush is None:
            self._settle()
            return
        self._running = self._loop.run_in_executor(self._threads, flush.run)
        self._running.add_done_callback(partial(self._end, flush))

    def _end(self, flush: Flush, running: asyncio.Future[None]) -> None:
        self._running = None
        error = running.exception()
        if error is None:
            self.log.flushed(flush)
        else:
            self.log.go_offline(f"a flush failed at offset {flush.end_offset}: {error}")
        self._settle()
        if not self.log.fault and self.log.wants_flush:
            self.note_append()

    def _settle(self) -> None:
        """Wake all who have what they wait for, or can no longer get it."""
        fault, durable_end = self.log.fault, self.log.durable_end
        still: deque[tuple[int, asyncio.Future[None]]] = deque()
        for offset, waiter in self._waiting:
            if waiter.done():
                continue
            if offset <= durable_end:
                waiter.set_result(None)
            elif fault:
                waiter.set_exception(LogOffline(fault))
            else:
                still.append((offset, waiter))
        self._waiting = still
        ends, self._ends = self._ends, []
        for end in ends:
            if not end.done():
                end.set_result(None)
        if self._on_progress is not None:
            self._on_progress()

    def _refuse_offline(self) -> None:
        if self.log.fault:
            raise LogOffline(self.log.fault)
