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
from concurrent.futures import Executor
from functools import partial

from goqueue.errors import LogOffline
from goqueue.log.flush import Flush
from goqueue.log.log import Log
from goqueue.model.log_settings import FlushPolicy


class Flusher:
    """Flushes one log; lives on the event loop that owns it."""

    def __init__(self, log: Log, threads: Executor | None = None) -> None:
        self._log = log
        self._threads = threads
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.Handle | None = None
        self._is_soon = False
        self._running: asyncio.Future[None] | None = None
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._ends: list[asyncio.Future[None]] = []

    def note_append(self) -> None:
        """See to it that what was appended becomes durable as the log's policy says; call it after every append."""
        if self._timer is not None or self._running is not None:
            return
        settings = self._log.settings
        if settings.flush is FlushPolicy.GROUP or self._waiting or self._ends:
            self._hurry()
        else:
            self._timer = self._loop.call_later(settings.flush_interval_ms / 1000, self._begin)

    async def durable(self, offset: int) -> None:
        """Wait until all records before an offset are durable; LogOffline if that cannot be any more."""
        if offset <= self._log.durable_end:
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
        flush = self._log.flush()
        if flush is None:
            self._settle()
            return
        self._running = self._loop.run_in_executor(self._threads, flush.run)
        self._running.add_done_callback(partial(self._end, flush))

    def _end(self, flush: Flush, running: asyncio.Future[None]) -> None:
        self._running = None
        error = running.exception()
        if error is None:
            self._log.flushed(flush)
        else:
            self._log.go_offline(f"a flush failed at offset {flush.end_offset}: {error}")
        self._settle()
        if not self._log.fault and self._log.durable_end < self._log.end_offset:
            self.note_append()

    def _settle(self) -> None:
        """Wake all who have what they wait for, or can no longer get it."""
        fault, durable_end = self._log.fault, self._log.durable_end
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

    def _refuse_offline(self) -> None:
        if self._log.fault:
            raise LogOffline(self._log.fault)
