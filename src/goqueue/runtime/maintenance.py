"""Background work on logs: retention, compaction, checkpoints, index files.

`LogMaintenance` serves all logs of a process, one log and one piece of blocking work at a time, so it takes at most
one thread from flushes. In a round it visits the logs that have changed since the last one, and those for which
something is due: a heap knows when. So unused logs cost nothing, however many they are.

| a log is visited                                 | because                                                         |
|--------------------------------------------------|-----------------------------------------------------------------|
| in the round after a change, and in the next one | retention by size, compaction, index files; then its files are  |
|                                                  | closed if it has not changed again                              |
| `checkpoint_interval_ms` after the last index    | the segment that grows gets a new index file                    |
| every `retention_interval_s`                     | records, segments or producers may have grown old; a log whose  |
|                                                  | next such moment is known and not yet there is not touched      |

The files of unopened logs are checked once after the start, a few logs in each round, against the state in which they
were closed. A log whose files differ is opened, so that damage is reported before a client needs the log.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import Executor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Protocol, TypeVar

from goqueue.errors import GoQueueError, Unavailable
from goqueue.log.closed_state import NEVER_MS
from goqueue.log.log import Log
from goqueue.runtime.flusher import Flusher
from goqueue.runtime.waiters import turns
from goqueue.seams.clock import Clock
from goqueue.seams.cooperative_yield import ThreadPauses, no_pause

ROUND_INTERVAL_S = 1.0
_LOGS_AT_A_TIME = 50
# One takes some 0.1 ms: so they cost an idle broker 0.2 % of a core while there are any, and 10,000 take 9 minutes.
_CHECKS_PER_ROUND = 20
# With more of them to compact, a log grows faster than it is compacted.
_DIRTY_SEGMENTS_MAX = 8

T = TypeVar("T")


class RetentionHolds(Protocol):
    """Keeps records beyond retention."""

    async def look(self) -> None:
        """Update what must be kept, unless that is recent enough."""
        ...

    def expires_before(self, log: Log) -> int | None:
        """Return the offset before which records of a log may expire; None if all of them may."""
        ...

    def stop(self) -> None:
        """Stop looking; a look under way ends soon."""
        ...


async def maintain(
    flusher: Flusher,
    now_ms: int,
    threads: Executor | None = None,
    *,
    is_checkpoint_due: bool = False,
    is_time_due: bool = True,
    expires_before: int | None = None,
    pause: ThreadPauses | None = None,
) -> None:
    """Do one round of maintenance on a log: expire, compact, write the checkpoint, and tidy the files.

    Records from `expires_before` on do not expire, and none by age unless `is_time_due`. When cancelled, it first waits
    for the thread, since the log needs the outcome. The owner of the `pause` can end the work.
    """
    log = flusher.log
    if log.fault:
        return
    start = log.start_offset
    log.expire(now_ms, end_offset=expires_before, is_time_due=is_time_due)
    if log.start_offset > start:
        # Waiters for the end of a removed message wake at the next flush.
        flusher.hurry()
    elif log.wants_flush:
        flusher.note_append()
    compaction = log.compaction(now_ms)
    if compaction is not None:
        if pause is not None and compaction.dirty > _DIRTY_SEGMENTS_MAX:
            pause.hurry()
        async with _ended(threads, partial(compaction.run, pause or no_pause)) as compacting:
            try:
                log.compacted(compaction, compacting.result())
            except (OSError, GoQueueError) as error:
                log.compaction_failed(compaction, error)
    await keep_up(log, threads, is_checkpoint_due=is_checkpoint_due)


async def keep_up(log: Log, threads: Executor | None = None, *, is_checkpoint_due: bool = False) -> None:
    """Tidy the files of a log, and write the index of the segment that grows if it is due."""
    if is_checkpoint_due and not log.fault:
        log.checkpoint()
    upkeep = log.upkeep()
    if upkeep is not None:
        async with _ended(threads, upkeep.run) as keeping:
            fault = keeping.exception()
            if fault is not None and not isinstance(fault, OSError):
                raise fault
            log.upkept(upkeep, fault)


async def write_ending(log: Log, threads: Executor | None = None) -> None:
    """Mark a log as cleanly closed for the next start, if nothing else is left to do."""
    ending = log.ending()
    if ending is not None:
        async with _ended(threads, ending) as writing:
            writing.result()
            log.ended()


@asynccontextmanager
async def _ended(threads: Executor | None, work: Callable[[], T]) -> AsyncIterator[asyncio.Future[T]]:
    """Run work in a thread to its end, even if this task is cancelled; then pass the outcome to the block."""
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
    """The last visit of a log, in monotonic time. `due_at` is None if only a change can give it work."""

    checkpointed_at: float
    timed_at: float
    end_offset: int = -1
    due_at: float | None = None


class LogMaintenance:
    """Maintains the logs of a process: `logs` when `run` begins, and those that are added."""

    def __init__(
        self,
        logs: Callable[[], Iterable[Flusher]],
        clock: Clock,
        threads: Executor | None = None,
        holds: RetentionHolds | None = None,
        *,
        before_round: Callable[[], None] | None = None,
        interval_s: float = ROUND_INTERVAL_S,
        retention_interval_s: float = ROUND_INTERVAL_S,
    ) -> None:
        self._logs = logs
        self._clock = clock
        self._threads = threads
        self._interval_s = interval_s
        self._retention_interval_s = retention_interval_s
        self._holds = holds
        self._before_round = before_round
        self._stopped = asyncio.Event()
        self._visited: Flusher | None = None
        self._left = asyncio.Event()
        self._pauses: ThreadPauses | None = None
        self._visits: dict[Flusher, _Visit] = {}
        self._changed: dict[Flusher, None] = {}
        self._due: list[tuple[float, int, Flusher]] = []
        self._unchecked: deque[Flusher] = deque()
        self._numbers = count()

    def add(self, flusher: Flusher) -> None:
        """Maintain a log from now on."""
        flusher.on_change = self._note_change
        log = flusher.log
        if not log.is_unopened:
            # Opening it may have left something to do.
            self._note_change(flusher)
            return
        if log.closed_state_check() is not None:
            self._unchecked.append(flusher)
        if log.due_ms() != NEVER_MS:
            now = self._clock.monotonic()
            self._schedule(flusher, self._visit_of(flusher, now), now + self._retention_interval_s)

    def _note_change(self, flusher: Flusher) -> None:
        flusher.is_change_noted = True
        self._changed[flusher] = None

    async def run(self) -> None:
        """Run rounds until stopped or cancelled; a round begins every interval, or when the one before has ended."""
        for flusher in self._logs():
            if flusher.on_change != self._note_change:
                self.add(flusher)
        while not self._stopped.is_set():
            began = self._clock.monotonic()
            await self._run_round(self._due_now)
            await self._check_closed_logs()
            with suppress(TimeoutError):
                async with asyncio.timeout(began + self._interval_s - self._clock.monotonic()):
                    await self._stopped.wait()

    async def run_once(self) -> None:
        """Maintain each log once, whether anything is due or not, unless it was stopped."""
        await self._run_round(lambda: [(flusher, True) for flusher in self._logs()])

    async def _check_closed_logs(self) -> None:
        """Check the files of some unopened logs; open those that differ."""
        some = [self._unchecked.popleft() for _ in range(min(len(self._unchecked), _CHECKS_PER_ROUND))]
        looks = [(flusher, look) for flusher in some if (look := flusher.log.closed_state_check()) is not None]
        if not looks or self._stopped.is_set():
            return

        def look_at_all() -> list[str]:
            return [look() for _, look in looks]

        async with _ended(self._threads, look_at_all) as looking:
            for (flusher, _), difference in zip(looks, looking.result(), strict=True):
                if not difference and not flusher.log.obstacle:
                    continue
                # The log reports by itself why it cannot be opened.
                try:
                    flusher.log.ensure_open()
                except Unavailable:
                    # The disk may answer the next time.
                    self._unchecked.append(flusher)
                except GoQueueError:
                    continue

    def _due_now(self) -> list[tuple[Flusher, bool]]:
        """Take the logs that have changed or are due, each with whether time-based work is due."""
        now, now_ms = self._clock.monotonic(), self._clock.now_ms()
        found = self._changed
        self._changed = {}
        while self._due and self._due[0][0] <= now:
            due_at, _, flusher = heapq.heappop(self._due)
            visit = self._visits.get(flusher)
            if visit is None or visit.due_at != due_at:
                continue
            if flusher.log.is_unopened and flusher.log.due_ms() > now_ms:
                visit.timed_at = now
                self._schedule(flusher, visit, now + self._retention_interval_s)
            else:
                found[flusher] = None
        return [(flusher, self._is_time_due(flusher, now)) for flusher in found]

    def _is_time_due(self, flusher: Flusher, now: float) -> bool:
        visit = self._visit_of(flusher, now)
        return now - visit.timed_at >= self._retention_interval_s or self._retention_interval_s <= self._interval_s

    async def _run_round(self, chosen: Callable[[], list[tuple[Flusher, bool]]]) -> None:
        await self._look()
        if self._before_round is not None:
            self._before_round()
        for number, (flusher, is_time_due) in enumerate(chosen(), 1):
            if number % _LOGS_AT_A_TIME == 0:
                # Most logs need nothing, but checking thousands of them at once would delay requests.
                await turns(1)
            if self._stopped.is_set():
                return
            self._visited = flusher
            self._left.clear()
            was_unopened = flusher.log.is_unopened
            try:
                await self._visit(flusher, is_time_due=is_time_due)
            except (OSError, GoQueueError) as error:
                # One failing log must not stop the maintenance of the others.
                flusher.log.note_upkeep_failure(error)
            finally:
                self._visited = None
                self._left.set()
            if was_unopened and not flusher.log.is_unopened:
                # Opening it blocked for a few reads, and thousands of logs may be due at the same time.
                await turns(1)

    async def leave(self, flusher: Flusher) -> None:
        """Wait until no work is under way on a log that is going; it is not visited again."""
        if self._visited is flusher and self._pauses is not None:
            self._pauses.stop()
        while self._visited is flusher:
            await self._left.wait()
        flusher.on_change = None
        self._visits.pop(flusher, None)
        self._changed.pop(flusher, None)

    def stop(self) -> None:
        """End `run` soon: long work, a look or a compaction, is interrupted."""
        self._stopped.set()
        if self._pauses is not None:
            self._pauses.stop()
        if self._holds is not None:
            self._holds.stop()

    async def _look(self) -> None:
        if self._holds is None:
            return
        # A task of its own: if it fails, the result of the look before is used.
        (outcome,) = await asyncio.gather(self._holds.look(), return_exceptions=True)
        if isinstance(outcome, Exception):
            message = "unread records could not be determined"
            asyncio.get_running_loop().call_exception_handler({"message": message, "exception": outcome})

    def _visit_of(self, flusher: Flusher, now: float) -> _Visit:
        visit = self._visits.get(flusher)
        if visit is None:
            visit = self._visits[flusher] = _Visit(now, now)
        return visit

    async def _visit(self, flusher: Flusher, *, is_time_due: bool) -> None:
        log = flusher.log
        flusher.is_change_noted = False
        now = self._clock.monotonic()
        visit = self._visit_of(flusher, now)
        if is_time_due:
            visit.timed_at = now
        is_checkpoint_due = (now - visit.checkpointed_at) * 1000 >= log.settings.checkpoint_interval_ms
        if is_checkpoint_due:
            visit.checkpointed_at = now
        # Without threads the loop itself works, and a pause would help no other thread.
        self._pauses = None if self._threads is None else ThreadPauses()
        try:
            await maintain(
                flusher,
                self._clock.now_ms(),
                self._threads,
                is_checkpoint_due=is_checkpoint_due,
                is_time_due=is_time_due,
                expires_before=None if self._holds is None else self._holds.expires_before(log),
                pause=self._pauses,
            )
            has_grown = log.end_offset != visit.end_offset
            # Open files are few, logs may be many: logs that do not grow close theirs.
            if not has_grown:
                log.release_files()
            visit.end_offset = log.end_offset
        except BaseException:
            self._schedule(flusher, visit, now + self._interval_s)
            raise
        self._schedule(flusher, visit, self._next_at(log, visit, now, has_grown=has_grown))

    def _next_at(self, log: Log, visit: _Visit, now: float, *, has_grown: bool) -> float | None:
        """Return when to visit a log next if nothing changes; None if never."""
        if log.fault:
            return None
        if has_grown or log.owes_upkeep:
            return now + self._interval_s
        moments = []
        if log.wants_checkpoint:
            moments.append(visit.checkpointed_at + log.settings.checkpoint_interval_ms / 1000)
        if log.due_ms() != NEVER_MS or log.has_producers:
            moments.append(visit.timed_at + self._retention_interval_s)
        return max(min(moments), now + self._interval_s) if moments else None

    def _schedule(self, flusher: Flusher, visit: _Visit, due_at: float | None) -> None:
        visit.due_at = due_at
        if due_at is not None:
            heapq.heappush(self._due, (due_at, next(self._numbers), flusher))
