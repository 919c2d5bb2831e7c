"""The work on logs that nobody waits for: retention, compaction, checkpoints, index files.

One caretaker looks after all logs of a process, one log and one piece of blocking work at a time, so that upkeep takes
at most one thread from those who flush. In a round it visits the logs that have changed since the last one, and those
for which something is due: a heap knows when. So logs that nobody uses cost nothing, however many they are.

| a log is visited                                 | because                                                         |
|--------------------------------------------------|-----------------------------------------------------------------|
| in the round after a change, and in the next one | retention by size, compaction, index files; then its files are  |
|                                                  | closed if it has not changed again                              |
| `checkpoint_interval_ms` after the last index    | the segment that grows gets a new index file                    |
| every `retention_interval_s`                     | records, segments or producers may have grown old; a log whose  |
|                                                  | next such moment is known and not yet there is not touched      |

Logs that are asleep are looked at once after the start, a few in each round: whether their files are what they were
when they were closed. One whose files are not is opened, so that damage is known before somebody needs the log.
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
from goqueue.log.log import Log
from goqueue.log.rest import NEVER_MS
from goqueue.runtime.flusher import Flusher
from goqueue.runtime.waiters import turns
from goqueue.seams.clock import Clock
from goqueue.seams.cooperative_yield import ThreadBreath, no_breath

ROUND_INTERVAL_S = 1.0
_LOGS_AT_A_TIME = 50
# One takes some 0.1 ms: so they cost an idle broker 0.2 % of a core while there are any, and 10,000 take 9 minutes.
_RESTS_PER_ROUND = 20
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
    is_time_due: bool = True,
    expires_before: int | None = None,
    breath: ThreadBreath | None = None,
) -> None:
    """Do one round of upkeep on a log: expire, compact, checkpoint, and bring the files into order.

    Records from `expires_before` on do not expire, and none by their age unless `is_time_due`. If it is cancelled, what
    a thread has begun is ended first, since the log must learn what came of it. The owner of the `breath` can end it.
    """
    log = flusher.log
    if log.fault:
        return
    start = log.start_offset
    log.expire(now_ms, end_offset=expires_before, is_time_due=is_time_due)
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


async def write_ending(log: Log, threads: Executor | None = None) -> None:
    """Write what tells the next start that a log was closed, if nothing else is left to do for it."""
    ending = log.ending()
    if ending is not None:
        async with _ended(threads, ending) as writing:
            writing.result()
            log.ended()


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
    """What is remembered of a log; moments are monotonic. `due_at` is None if only a change can give it work."""

    checkpointed_at: float
    timed_at: float
    end_offset: int = -1
    due_at: float | None = None


class Caretaker:
    """Tends the logs of a process, for ever: `logs` when it begins, and those that are added."""

    def __init__(
        self,
        logs: Callable[[], Iterable[Flusher]],
        clock: Clock,
        threads: Executor | None = None,
        holds: Holds | None = None,
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
        self._breath: ThreadBreath | None = None
        self._visits: dict[Flusher, _Visit] = {}
        self._changed: dict[Flusher, None] = {}
        self._due: list[tuple[float, int, Flusher]] = []
        self._unseen: deque[Flusher] = deque()
        self._numbers = count()

    def add(self, flusher: Flusher) -> None:
        """Look after a log from now on."""
        flusher.on_change = self._note_change
        log = flusher.log
        if not log.is_asleep:
            # Opening it may have left something to do.
            self._note_change(flusher)
            return
        if log.look_at_rest() is not None:
            self._unseen.append(flusher)
        if log.due_ms() != NEVER_MS:
            now = self._clock.monotonic()
            self._schedule(flusher, self._visit_of(flusher, now), now + self._retention_interval_s)

    def _note_change(self, flusher: Flusher) -> None:
        flusher.is_change_noted = True
        self._changed[flusher] = None

    async def run(self) -> None:
        """Go round until stopped or cancelled; a round begins every interval, or when the one before has ended."""
        for flusher in self._logs():
            if flusher.on_change != self._note_change:
                self.add(flusher)
        while not self._stopped.is_set():
            began = self._clock.monotonic()
            await self._go_round(self._due_now)
            await self._look_at_rests()
            with suppress(TimeoutError):
                async with asyncio.timeout(began + self._interval_s - self._clock.monotonic()):
                    await self._stopped.wait()

    async def go_round(self) -> None:
        """Tend each log once, whether anything is due or not, unless it is time to stop."""
        await self._go_round(lambda: [(flusher, True) for flusher in self._logs()])

    async def _look_at_rests(self) -> None:
        """Look at the files of some logs that are asleep; open those that are not what they were."""
        some = [self._unseen.popleft() for _ in range(min(len(self._unseen), _RESTS_PER_ROUND))]
        looks = [(flusher, look) for flusher in some if (look := flusher.log.look_at_rest()) is not None]
        if not looks or self._stopped.is_set():
            return

        def look_at_all() -> list[str]:
            return [look() for _, look in looks]

        async with _ended(self._threads, look_at_all) as looking:
            for (flusher, _), difference in zip(looks, looking.result(), strict=True):
                if not difference and not flusher.log.obstacle:
                    continue
                # It tells itself why it cannot be opened.
                try:
                    flusher.log.wake()
                except Unavailable:
                    # The disk may answer the next time.
                    self._unseen.append(flusher)
                except GoQueueError:
                    continue

    def _due_now(self) -> list[tuple[Flusher, bool]]:
        """Take out the logs that have changed or are due, and whether what depends on time is due for them."""
        now, now_ms = self._clock.monotonic(), self._clock.now_ms()
        found = self._changed
        self._changed = {}
        while self._due and self._due[0][0] <= now:
            due_at, _, flusher = heapq.heappop(self._due)
            visit = self._visits.get(flusher)
            if visit is None or visit.due_at != due_at:
                continue
            if flusher.log.is_asleep and flusher.log.due_ms() > now_ms:
                visit.timed_at = now
                self._schedule(flusher, visit, now + self._retention_interval_s)
            else:
                found[flusher] = None
        return [(flusher, self._is_time_due(flusher, now)) for flusher in found]

    def _is_time_due(self, flusher: Flusher, now: float) -> bool:
        visit = self._visit_of(flusher, now)
        return now - visit.timed_at >= self._retention_interval_s or self._retention_interval_s <= self._interval_s

    async def _go_round(self, chosen: Callable[[], list[tuple[Flusher, bool]]]) -> None:
        await self._look()
        if self._before_round is not None:
            self._before_round()
        for number, (flusher, is_time_due) in enumerate(chosen(), 1):
            if number % _LOGS_AT_A_TIME == 0:
                # Most logs need nothing, and looking at thousands of them is no reason to keep others waiting.
                await turns(1)
            if self._stopped.is_set():
                return
            self._visited = flusher
            self._left.clear()
            was_asleep = flusher.log.is_asleep
            try:
                await self._visit(flusher, is_time_due=is_time_due)
            except (OSError, GoQueueError) as error:
                # One sick log must not keep the others from being tended.
                flusher.log.note_upkeep_failure(error)
            finally:
                self._visited = None
                self._left.set()
            if was_asleep and not flusher.log.is_asleep:
                # It was opened, which blocks for a few reads: thousands of logs may be due at the same time.
                await turns(1)

    async def leave(self, flusher: Flusher) -> None:
        """Wait until nothing is being done to a log, which is going and is not visited again."""
        if self._visited is flusher and self._breath is not None:
            self._breath.stop()
        while self._visited is flusher:
            await self._left.wait()
        flusher.on_change = None
        self._visits.pop(flusher, None)
        self._changed.pop(flusher, None)

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
        # Without threads it is the loop that waits, and nobody else has anything of a pause.
        self._breath = None if self._threads is None else ThreadBreath()
        try:
            await tend(
                flusher,
                self._clock.now_ms(),
                self._threads,
                is_checkpoint_due=is_checkpoint_due,
                is_time_due=is_time_due,
                expires_before=None if self._holds is None else self._holds.expires_before(log),
                breath=self._breath,
            )
            has_grown = log.end_offset != visit.end_offset
            # Open files are few, logs may be many: those that nobody writes to give theirs back.
            if not has_grown:
                log.rest()
            visit.end_offset = log.end_offset
        except BaseException:
            self._schedule(flusher, visit, now + self._interval_s)
            raise
        self._schedule(flusher, visit, self._next_at(log, visit, now, has_grown=has_grown))

    def _next_at(self, log: Log, visit: _Visit, now: float, *, has_grown: bool) -> float | None:
        """Return when a log is to be visited next if nothing changes; None if never."""
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
