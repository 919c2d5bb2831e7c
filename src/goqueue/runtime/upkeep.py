"""The work on logs that nobody waits for: retention, compaction, checkpoints, index files.

One caretaker goes round all logs of a process, one log and one piece of blocking work at a time, so that upkeep takes
at most one thread from those who flush.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from goqueue.errors import GoQueueError
from goqueue.log.log import Log
from goqueue.seams.clock import Clock

ROUND_INTERVAL_S = 1.0


async def tend(log: Log, now_ms: int, threads: Executor | None = None, *, is_checkpoint_due: bool = False) -> None:
    """Do one round of upkeep on a log: expire, compact, checkpoint, and bring the files into order."""
    if log.fault:
        return
    loop = asyncio.get_running_loop()
    log.expire(now_ms)
    compaction = log.compaction(now_ms)
    if compaction is not None:
        try:
            replacements = await loop.run_in_executor(threads, compaction.run)
        except (OSError, GoQueueError) as error:
            log.compaction_failed(compaction, error)
        else:
            log.compacted(compaction, replacements)
    if is_checkpoint_due:
        log.checkpoint()
    upkeep = log.upkeep()
    if upkeep is not None:
        try:
            await loop.run_in_executor(threads, upkeep.run)
        except OSError as error:
            log.upkept(upkeep, error)
        else:
            log.upkept(upkeep)


@dataclass(slots=True)
class _Visit:
    checkpointed_at: float
    end_offset: int


class Caretaker:
    """Tends all logs of a process in turn, for ever."""

    def __init__(self, logs: Callable[[], Iterable[Log]], clock: Clock, threads: Executor | None = None) -> None:
        self._logs = logs
        self._clock = clock
        self._threads = threads
        self._hurry = asyncio.Event()
        self._visits: WeakKeyDictionary[Log, _Visit] = WeakKeyDictionary()

    async def run(self) -> None:
        """Go round until cancelled; a round begins every second, or when the one before has ended."""
        while True:
            began = self._clock.monotonic()
            for log in list(self._logs()):
                await self._visit(log)
            with suppress(TimeoutError):
                async with asyncio.timeout(began + ROUND_INTERVAL_S - self._clock.monotonic()):
                    await self._hurry.wait()
            self._hurry.clear()

    def hurry(self) -> None:
        """Begin the next round at once: someone waits for room on the disk."""
        self._hurry.set()

    async def _visit(self, log: Log) -> None:
        now = self._clock.monotonic()
        visit = self._visits.setdefault(log, _Visit(now, -1))
        is_checkpoint_due = (now - visit.checkpointed_at) * 1000 >= log.settings.checkpoint_interval_ms
        if is_checkpoint_due:
            visit.checkpointed_at = now
        await tend(log, self._clock.now_ms(), self._threads, is_checkpoint_due=is_checkpoint_due)
        # Open files are few, logs may be many: those that nobody writes to give theirs back.
        if log.end_offset == visit.end_offset:
            log.rest()
        visit.end_offset = log.end_offset
