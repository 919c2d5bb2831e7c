"""The work on logs that nobody waits for: retention, compaction, checkpoints, index files.

One caretaker goes round all logs of a process, one log and one piece of blocking work at a time, so that upkeep takes
at most one thread from those who flush.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import Executor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar
from weakref import WeakKeyDictionary

from goqueue.errors import GoQueueError
from goqueue.log.log import Log
from goqueue.runtime.flusher import Flusher
from goqueue.runtime.waiters import turns
from goqueue.seams.breath import ThreadBreath, no_breath
from goqueue.seams.clock import Clock

ROUND_INTERVAL_S = 1.0
_LOGS_AT_A_TIME = 50
# With more of them to compact, a log grows faster than it is compacted.
_DIRTY_SEGMENTS_MAX = 8

T = TypeVar("T")


class Holds(Protocol):
    """What keeps records from expiring though retention would have it."""

    async def look(self) -> None:
        """Find out anew what is to be kept, unless that is known well enough."""
        ...

    def expires_before(self, log: Log) -> int | None:
        """Return the offset before which records of a log may expire; None if all of them may."""
        ...

    def stop(self) -> None:
        """Look no more; a look under way ends soon."""
        ...


async def tend(
    flusher: Flusher,
    now_ms: int,
    threads: Executor | None = None,
    *,
    is_checkpoint_due: bool = False,
    expires_before: int | None = None,
    breath: ThreadBreath | None = None,
) -> None:
    """Do one round of upkeep on a log: expire, compact, checkpoint, and bring the files into order.

    Records from `expires_before` on do not expire. If it is cancelled, what a thread has begun is ended first, since
    the log must learn what came of it. Whoever holds the `breath` can have it end soon.
    """
    log = flusher.log
    if log.fault:
        return
    start = log.start_offset
    log.expire(now_ms, end_offset=expires_before)
    if log.start_offset > start:
        # Whoever waits for the end of a message that is gone hears of it by the next flush.
        flusher.hurry()
    elif log.wants_flush:
        flusher.note_append()
    compaction = log.compaction(now_ms)
    if compaction is not None:
        if breath is not None and compaction.dirty > _DIRTY_SEGMENTS_MAX:
            breath.hurry()
        async with _ended(threads, partial(compaction.run, breath or no_breath)) as compacting:
            try:
                log.compacted(compaction, compacting.result())
            except (OSError, GoQueueError) as error:
                log.compaction_failed(compaction, error)
    await keep_up(log, threads, is_checkpoint_due=is_checkpoint_due)


async def keep_up(log: Log, threads: Executor | None = None, *, is_checkpoint_due: bool = False) -> None:
    """Bring the files of a log into order, and write the index of the segment that grows if that is due."""
    if is_checkpoint_due and not log.fault:
        log.checkpoint()
    upkeep = log.upkeep()
    if upkeep is not None:
        async with _ended(threads, upkeep.run) as keeping:
            fault = keeping.exception()
            if fault is not None and not isinstance(fault, OSError):
                raise fault
            log.upkept(upkeep, fault)


@asynccontextmanager
async def _ended(threads: Executor | None, work: Callable[[], T]) -> AsyncIterator[asyncio.Future[T]]:
    """Run work in a thread to its end, whatever happens here meanwhile; then let the block see its outcome."""
    job = asyncio.get_running_loop().run_in_executor(threads, work)
    cancelled: asyncio.CancelledError | None = None
    while not job.done():
        try:
            await asyncio.wait([job])
        except asyncio.CancelledError as error:
            cancelled = error
    yield job
    if cancelled is not None:
        raise cancelled


@dataclass(slots=True)
class _Visit:
    checkpointed_at: float
    end_offset: int


class Caretaker:
    """Tends all logs of a process in turn, for ever."""

    def __init__(
        self,
        logs: Callable[[], Iterable[Flusher]],
        clock: Clock,
        threads: Executor | None = None,
        holds: Holds | None = None,
        *,
        interval_s: float = ROUND_INTERVAL_S,
    ) -> None:
        self._logs = logs
        self._clock = clock
        self._threads = threads
        self._interval_s = interval_s
        self._holds = holds
        self._stopped = asyncio.Event()
        self._visited: Flusher | None = None
        self._left = asyncio.Event()
        self._breath: ThreadBreath | None = None
        self._visits: WeakKeyDictionary[Log, _Visit] = WeakKeyDictionary()

    async def run(self) -> None:
        """Go round until stopped or cancelled; a round begins every interval, or when the one before has ended."""
        while not self._stopped.is_set():
            began = self._clock.monotonic()
            await self.go_round()
            with suppress(TimeoutError):
                async with asyncio.timeout(began + self._interval_s - self._clock.monotonic()):
                    await self._stopped.wait()

    async def go_round(self) -> None:
        """Tend each log once, unless it is time to stop."""
        await self._look()
        for number, flusher in enumerate(list(self._logs()), 1):
            if number % _LOGS_AT_A_TIME == 0:
                # Most logs need nothing, and looking at thousands of them is no reason to keep others waiting.
                await turns(1)
            if self._stopped.is_set():
                return
            self._visited = flusher
            self._left.clear()
            try:
                await self._visit(flusher)
            except (OSError, GoQueueError) as error:
                # One sick log must not keep the others from being tended.
                flusher.log.note_upkeep_failure(error)
            finally:
                self._visited = None
                self._left.set()

    async def leave(self, flusher: Flusher) -> None:
        """Wait until nothing is being done to a log, which is going; one that is offline is not visited again."""
        if self._visited is flusher and self._breath is not None:
            self._breath.stop()
        while self._visited is flusher:
            await self._left.wait()

    def stop(self) -> None:
        """End `run` soon: what takes long, a look or a compaction, is not brought to its end."""
        self._stopped.set()
        if self._breath is not None:
            self._breath.stop()
        if self._holds is not None:
            self._holds.stop()

    async def _look(self) -> None:
        if self._holds is None:
            return
        # A task of its own: if it fails, logs are tended by what the look before has found.
        (outcome,) = await asyncio.gather(self._holds.look(), return_exceptions=True)
        if isinstance(outcome, Exception):
            message = "who has not read what could not be found out"
            asyncio.get_running_loop().call_exception_handler({"message": message, "exception": outcome})

    async def _visit(self, flusher: Flusher) -> None:
        log = flusher.log
        now = self._clock.monotonic()
        visit = self._visits.setdefault(log, _Visit(now, -1))
        is_checkpoint_due = (now - visit.checkpointed_at) * 1000 >= log.settings.checkpoint_interval_ms
        if is_checkpoint_due:
            visit.checkpointed_at = now
        # Without threads it is the loop that waits, and nobody else has anything of a pause.
        self._breath = None if self._threads is None else ThreadBreath()
        await tend(
            flusher,
            self._clock.now_ms(),
            self._threads,
            is_checkpoint_due=is_checkpoint_due,
            expires_before=None if self._holds is None else self._holds.expires_before(log),
            breath=self._breath,
        )
        # Open files are few, logs may be many: those that nobody writes to give theirs back.
        if log.end_offset == visit.end_offset:
            log.rest()
        visit.end_offset = log.end_offset
