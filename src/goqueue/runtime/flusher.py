"""Makes a log durable in the background and wakes the callers that wait for it.

| policy   | a flush begins                                | which callers wait                            |
|----------|-----------------------------------------------|-----------------------------------------------|
| group    | at once after an append, or right after the   | callers of `durable`; all appends that        |
|          | one under way                                 | arrived meanwhile share it                    |
| interval | at most `flush.interval.ms` after an append,  | none has to                                   |
|          | or when much has been written since the last  |                                               |

An append without a waiting caller is flushed by the interval, whatever the policy, unless `hurry` is called. The first
append to a log that was closed is flushed at once: if a power loss took all of it, the loss could not be detected.

A failed flush takes the log offline: it is never tried again, and all waiting callers get LogOffline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial

from goqueue.errors import LogOffline
from goqueue.log.flush import Flush
from goqueue.log.log import Log
from goqueue.model.log_settings import FlushPolicy
from goqueue.runtime.waiters import Waiters, Wake, arrival
from goqueue.seams.syncs import NotBegun, Syncs

# If the kernel has to write back too much at once, it blocks the next write: and that is the event loop's.
_MUCH_BYTES = 16 * 1024 * 1024
_TOO_MUCH_BYTES = 128 * 1024 * 1024


class Flusher:
    """Flushes one log; lives on the event loop that owns it. `on_progress` hears of every flush that has ended."""

    def __init__(
        self,
        log: Log,
        threads: Executor | None = None,
        on_progress: Callable[[], None] | None = None,
        syncs: Syncs | None = None,
    ) -> None:
        self.log = log
        self._threads = threads
        self._syncs = syncs
        self._on_progress = on_progress
        # Called at the first change since the maintenance last visited the log.
        self.on_change: Callable[[Flusher], None] | None = None
        self.is_change_noted = False
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.Handle | None = None
        self._is_soon = False
        self._is_running = False
        # Whether a caller waits for more than the flush under way makes durable.
        self._is_hurried = False
        self._waiters = Waiters()
        self._ends: list[Wake] = []
        # When the oldest change that the flush under way does not cover must be durable, by the interval policy.
        self._due_at: float | None = None
        self._unsynced_bytes = 0
        self._being_synced_bytes = 0
        # Whether so much is not durable yet that producers should wait for the disk.
        self.is_behind = False

    def note_append(self, size_bytes: int = 0, *, is_awaited: bool = True) -> None:
        """Schedule a flush as the log's policy says; call it after every change."""
        if not self.is_change_noted:
            self.note_change()
        self._unsynced_bytes += size_bytes
        self.is_behind = self._unsynced_bytes + self._being_synced_bytes >= _TOO_MUCH_BYTES
        is_much = self._unsynced_bytes >= _MUCH_BYTES
        is_due = self.log.is_unmarked or (is_awaited and self.log.settings.flush is FlushPolicy.GROUP)
        if is_due or len(self._waiters) or self._ends or is_much:
            self.hurry()
            return
        if self._due_at is None:
            self._due_at = self._loop.time() + self.log.settings.flush_interval_ms / 1000
        if self._timer is None and not self._is_running:
            self._timer = self._loop.call_at(self._due_at, self._begin)

    def note_change(self) -> None:
        """Tell the maintenance that the log, or its settings, have changed."""
        if self.on_change is not None:
            self.on_change(self)

    async def durable(self, offset: int) -> None:
        """Wait until all records before an offset are durable; LogOffline if that cannot be any more."""
        if offset > self.log.durable_end and not self.log.fault:
            await arrival(partial(self.when_durable, offset))
        if offset > self.log.durable_end:
            raise LogOffline(self.log.fault)

    def when_durable(self, offset: int, wake: Wake) -> None:
        """Call `wake` once all records before an offset are durable, or cannot become so any more."""
        self._waiters.wait_for(offset, wake)
        self.hurry()

    async def synced(self) -> None:
        """Wait until all that has changed so far is durable, whatever changes meanwhile, or the log is offline."""
        if self._is_running:
            # It does not cover what has changed since it began.
            await arrival(self._when_ended)
        await arrival(self._when_ended)

    async def drain(self) -> None:
        """Wait until no flush is under way and none is due."""
        while self._timer is not None or self._is_running:
            await arrival(self._when_ended)

    def _when_ended(self, wake: Wake) -> None:
        self._ends.append(wake)
        self.hurry()

    async def truncate(self, offset: int) -> None:
        """Cut the log back once no flush is under way; blocks the loop."""
        await self.drain()
        self.log.truncate(offset)

    def hurry(self) -> None:
        """Begin the next flush as soon as all callbacks that are ready have run, so that they share it."""
        self._is_hurried = True
        if self._is_running or self._is_soon:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_soon(self._begin)
        self._is_soon = True

    def _begin(self) -> None:
        self._timer = None
        self._is_soon = self._is_hurried = False
        self._due_at = None
        self._unsynced_bytes, self._being_synced_bytes = 0, self._unsynced_bytes
        flush = self.log.flush()
        if flush is None:
            self._being_synced_bytes = 0
            self.is_behind = False
            self._settle()
            return
        self._is_running = True
        descriptors = flush.descriptors
        if self._syncs is not None and descriptors:
            self._syncs.sync(descriptors, partial(self._synced, flush))
        else:
            self._run_in_thread(flush)

    def _run_in_thread(self, flush: Flush) -> None:
        running = self._loop.run_in_executor(self._threads, flush.run)
        running.add_done_callback(lambda ended: self._end(flush, ended.exception()))

    def _synced(self, flush: Flush, error: OSError | None) -> None:
        """Finish a flush whose files the kernel has synced."""
        if isinstance(error, NotBegun):
            self._run_in_thread(flush)
            return
        if error is None:
            try:
                flush.finish()
            except OSError as failure:
                error = failure
        self._end(flush, error)

    def _end(self, flush: Flush, error: BaseException | None) -> None:
        self._is_running = False
        self._being_synced_bytes = 0
        self.is_behind = self._unsynced_bytes >= _TOO_MUCH_BYTES
        if error is None:
            self.log.flushed(flush)
        else:
            self.log.go_offline(f"a flush failed at offset {flush.end_offset}: {error}")
        self._settle()
        if not self.log.fault and self.log.wants_flush:
            self.note_append(is_awaited=self._is_hurried)

    def _settle(self) -> None:
        """Wake the callers whose offset is durable, or can no longer become so."""
        if self.log.fault:
            self._waiters.wake_all()
        else:
            self._waiters.reached(self.log.durable_end)
        ends, self._ends = self._ends, []
        for wake in ends:
            wake()
        if self._on_progress is not None:
            self._on_progress()
