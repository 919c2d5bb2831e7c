"""How many dead letters there are for which reason: counted once, and remembered.

Dead letters do not change, so the count of a run of offsets holds until some of them are deleted; only the newest run
of a partition grows. Whether a dead letter was published again does change and is not cached: each reason has a bit for
each dead letter, which is compared with those of `machines/redrives/redriven`. Compacted topics are counted each time.

A look at a topic is bounded, and so is what is remembered of all topics together: what was not asked for the longest
time is forgotten first.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from goqueue.broker.dead_letters.reading import DeadLetterBatch, open_batches
from goqueue.machines.redrives.redriven import CHUNK_LETTERS
from goqueue.model.dead_letters import reason_and_topic
from goqueue.records.reader import Record
from goqueue.runtime.partition import Partition
from goqueue.runtime.waiters import give_way

if TYPE_CHECKING:
    from goqueue.broker.dead_letters.service import DeadLetterService
    from goqueue.broker.topics.open_topic import OpenTopic

COUNTED_MAX = 20_000
"""How many offsets of a topic are looked at, the last ones of each partition first; up to whole runs."""

REASONS_MAX = 1_000
"""How many reasons, and topics that letters come from, are told one by one."""

OTHER_REASONS = "(others)"
"""What is counted for all reasons beyond those."""

RUN_OFFSETS = 512
NAME_CHARS_MAX = 200
# How many reasons and sources of all runs are remembered; each takes some hundred bytes.
_REMEMBERED_MAX = 50_000
# How many runs are counted in one go, since a batch may reach over some of them, and is opened as a whole.
_TOGETHER_MAX = 8
# How many letters are looked at before others have a turn.
_AT_ONCE = 50

assert CHUNK_LETTERS % RUN_OFFSETS == 0, "no run lies in two chunks"


@dataclass(slots=True)
class DeadLetterCount:
    """How many letters there are: all, those that were published again, and the others by reason.

    `is_cut` says that there are more, which nobody has looked at. Long reasons are cut, and there are not more of them
    than `REASONS_MAX`, nor of the topics that letters come from.
    """

    topic: str
    letters: int = 0
    redriven: int = 0
    by_reason: Counter[str] = field(default_factory=Counter)
    sources: set[str] = field(default_factory=set)
    oldest_ms: int | None = None
    newest_ms: int | None = None
    is_cut: bool = False
    unreadable: int = 0

    def add(self, run: CountedRange, redriven: int) -> None:
        """Count the letters of a run, of which some were published again, by their bits."""
        self.letters += run.letters.bit_count()
        self.redriven += (run.letters & redriven).bit_count()
        self.unreadable += run.unreadable
        # Where there are too many, the newest are told.
        for reason, letters in reversed(run.by_reason.items()):
            if count := (letters & ~redriven).bit_count():
                is_told = reason in self.by_reason or len(self.by_reason) < REASONS_MAX
                self.by_reason[reason if is_told else OTHER_REASONS] += count
        for source in reversed(run.sources):
            if len(self.sources) < REASONS_MAX:
                self.sources.add(source)
        if run.letters:
            self.oldest_ms = run.oldest_ms if self.oldest_ms is None else min(self.oldest_ms, run.oldest_ms)
            self.newest_ms = run.newest_ms if self.newest_ms is None else max(self.newest_ms, run.newest_ms)


@dataclass(slots=True)
class CountedRange:
    """The letters from one offset to another; a bit says that there is one, the lowest for the first of `RUN_OFFSETS`.

    `unreadable` are those of batches that begin here, or where the log does.
    """

    start: int
    end: int
    letters: int = 0
    by_reason: dict[str, int] = field(default_factory=dict)
    sources: dict[str, None] = field(default_factory=dict)
    oldest_ms: int = 0
    newest_ms: int = 0
    unreadable: int = 0

    @property
    def weight(self) -> int:
        """How much there is to remember."""
        return 1 + len(self.by_reason) + len(self.sources)

    def copy(self) -> CountedRange:
        """Return one that grows by itself."""
        return CountedRange(
            self.start,
            self.end,
            self.letters,
            dict(self.by_reason),
            dict(self.sources),
            self.oldest_ms,
            self.newest_ms,
            self.unreadable,
        )

    def add(self, record: Record) -> None:
        """Count one more letter."""
        reason, source = reason_and_topic(record.headers)
        bit = 1 << record.offset % RUN_OFFSETS
        reason = reason[:NAME_CHARS_MAX]
        self.by_reason[reason] = self.by_reason.get(reason, 0) | bit
        if source:
            self.sources[source[:NAME_CHARS_MAX]] = None
        self.oldest_ms = min(self.oldest_ms, record.timestamp) if self.letters else record.timestamp
        self.newest_ms = max(self.newest_ms, record.timestamp) if self.letters else record.timestamp
        self.letters |= bit


class _Where(NamedTuple):
    """A partition, and which of its runs is meant."""

    topic_id: UUID
    partition: int
    number: int


class _Lane:
    """A partition that is counted from its end on; `number` is the run that comes next."""

    def __init__(self, topic: OpenTopic, partition: Partition) -> None:
        self.topic_id = topic.topic.id
        self.partition = partition
        self.start = partition.log.start_offset
        self.end = partition.last_stable_offset
        self.number = (self.end - 1) // RUN_OFFSETS

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to look at."""
        return self.start >= self.end or self.number < self.start // RUN_OFFSETS

    def take(self, count: int) -> Sequence[int]:
        """Return which runs come next, the last one first, and go on behind them."""
        below = max(self.number - count, self.start // RUN_OFFSETS - 1)
        taken = range(self.number, below, -1)
        self.number = below
        return taken

    def where(self, number: int) -> _Where:
        """Return how a run is known."""
        return _Where(self.topic_id, self.partition.index, number)

    def empty(self, number: int) -> CountedRange:
        """Return a run of which nothing is counted yet."""
        start = max(number * RUN_OFFSETS, self.start)
        return CountedRange(start, start)

    def end_of(self, number: int) -> int:
        """Return where a run ends now."""
        return min((number + 1) * RUN_OFFSETS, self.end)


class DeadLetterStats:
    """What was counted, by partition and run."""

    def __init__(self) -> None:
        self._runs: OrderedDict[_Where, CountedRange] = OrderedDict()
        self._weight = 0

    async def count(self, dead_letters: DeadLetterService, topic: OpenTopic) -> DeadLetterCount:
        """Count the letters of a topic, as far as may be; others have a turn in between."""
        count = DeadLetterCount(topic.topic.name)
        redriven = dead_letters.redrives.redriven
        lanes = deque(_Lane(topic, each) for each in topic.partitions if isinstance(each, Partition))
        looked_at = 0
        while lanes and looked_at < COUNTED_MAX:
            lane = lanes.popleft()
            if lane.is_over:
                continue
            wanted = (COUNTED_MAX - looked_at) // RUN_OFFSETS // (len(lanes) + 1)
            numbers = lane.take(min(max(wanted, 1), _TOGETHER_MAX))
            for number, run in (await self._runs_of(lane, numbers, remembers=not topic.settings.log.compacts)).items():
                first = number * RUN_OFFSETS
                count.add(run, redriven.bits(lane.topic_id, lane.partition.index, first, RUN_OFFSETS))
                looked_at += run.end - run.start
            lanes.append(lane)
        count.is_cut = any(not lane.is_over for lane in lanes)
        return count

    async def _runs_of(self, lane: _Lane, numbers: Sequence[int], *, remembers: bool) -> Mapping[int, CountedRange]:
        """Return some runs, the last one first; what is not known is counted."""
        known = {number: self._known(lane, number) for number in numbers} if remembers else {}
        lacking = [number for number in numbers if (run := known.get(number)) is None or run.end < lane.end_of(number)]
        if lacking:
            seed = known.get(lacking[-1])
            fresh = await _counted(lane, lacking[-1], lacking[0], None if seed is None else seed.copy())
            known |= fresh
            if remembers:
                self._remember({lane.where(number): run for number, run in fresh.items()})
        return {number: run for number in numbers if (run := known[number]) is not None}

    def _known(self, lane: _Lane, number: int) -> CountedRange | None:
        """Return what is remembered of a run, unless some of it was deleted since."""
        where = lane.where(number)
        run = self._runs.get(where)
        if run is None or run.start != lane.empty(number).start:
            return None
        self._runs.move_to_end(where)
        return run

    def _remember(self, runs: Mapping[_Where, CountedRange]) -> None:
        for where, run in runs.items():
            former = self._runs.pop(where, None)
            self._runs[where] = run
            self._weight += run.weight - (0 if former is None else former.weight)
        while self._weight > _REMEMBERED_MAX:
            _, forgotten = self._runs.popitem(last=False)
            self._weight -= forgotten.weight


async def _counted(lane: _Lane, first: int, last: int, seed: CountedRange | None) -> dict[int, CountedRange]:
    """Count the letters of runs in a row; the first one goes on where it ended, if it was counted before."""
    runs = {number: lane.empty(number) for number in range(first, last + 1)}
    if seed is not None:
        runs[first] = seed
    position, end, looked_at = runs[first].end, lane.end_of(last), 0
    while position < end:
        reached = end
        for batch in open_batches(lane.partition, position, end):
            _add(runs, batch, position, end, is_first=position == lane.start)
            reached = position = batch.end
            looked_at += 1 + len(batch.records)
            if looked_at >= _AT_ONCE:
                looked_at = 0
                await give_way()
            if position >= end:
                break
        position = reached
    for number, run in runs.items():
        run.end = lane.end_of(number)
    return runs


def _add(runs: Mapping[int, CountedRange], batch: DeadLetterBatch, start: int, end: int, *, is_first: bool) -> None:
    if batch.unreadable and batch.start < end and (batch.start >= start or is_first):
        runs[max(batch.start, start) // RUN_OFFSETS].unreadable += batch.unreadable
    for record in batch.records:
        if start <= record.offset < end:
            runs[record.offset // RUN_OFFSETS].add(record)
