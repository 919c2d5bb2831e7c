"""Looking at dead letters: pages of them, newest or oldest first, and how many there are for which reason.

All work is bounded. A look that has seen as many letters as it may ends there, says so, and can be gone on with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from goqueue.broker.admission import Caller, operation
from goqueue.broker.dead_letters.reading import DeadLetterRange, StoredDeadLetter
from goqueue.broker.dead_letters.stats import COUNTED_MAX, CountedRange, DeadLetterCount
from goqueue.broker.dead_letters.topics import chosen_topics, find_dead_letters
from goqueue.model.dead_letter_selection import Order, Selection
from goqueue.model.dead_letters import cause_of, is_for_dead_letters
from goqueue.runtime.partition import Partition
from goqueue.runtime.waiters import give_way

if TYPE_CHECKING:
    from goqueue.broker.dead_letters.service import DeadLetterService
    from goqueue.broker.topics.open_topic import OpenTopic

LOOKED_AT_MAX = 10_000
"""How many letters one look sees."""

_PAGE_BYTES = 8 * 1024 * 1024
# How much of all partitions is kept meanwhile, and of each of them at least.
_KEPT_BYTES = 32 * 1024 * 1024
_KEPT_BYTES_MIN = 16 * 1024
TURN_LETTERS = 50
"""How many letters are looked at before others have a turn; each takes some microseconds."""


class BrowseRequest(NamedTuple):
    """Which letters to look at; `left` is what an earlier look has left, by partition: from where to where.

    Those that a redrive has published again are left out, unless `has_redriven`.
    """

    selection: Selection = Selection()
    order: Order = Order.NEWEST
    limit: int = 100
    left: Mapping[int, tuple[int, int]] | None = None
    has_redriven: bool = False


class DeadLetterPage(NamedTuple):
    """Letters, where to go on (None if there is no more), and whether as many were looked at as may be.

    `unreadable` are those that were passed over, since they cannot be read.
    """

    topic: str | None
    letters: Sequence[StoredDeadLetter]
    left: Mapping[int, tuple[int, int]] | None
    is_cut: bool
    unreadable: int = 0


class MergedDeadLetters:
    """The letters of several partitions of a topic in the order of time."""

    def __init__(
        self,
        service: DeadLetterService,
        topic: OpenTopic,
        stretches: Sequence[DeadLetterRange],
        order: Order,
    ) -> None:
        self._topic_id = topic.topic.id
        self._redriven = service.redrives.redriven
        self._stretches = stretches
        self._sign = -1 if order is Order.NEWEST else 1
        # Which letter is next, by time and place; those that are not there yet are still to be looked for.
        self._heads: list[tuple[int, int]] = []
        self._unseen = list(range(len(stretches)))
        self._taken = 0

    async def take(self) -> StoredDeadLetter | None:
        """Return the next letter; None if there is no more."""
        self._taken += 1
        if self._taken % TURN_LETTERS == 0:
            await give_way()
        while self._unseen:
            place = self._unseen.pop()
            record = await self._stretches[place].first()
            if record is not None:
                heappush(self._heads, (record.timestamp * self._sign, place))
        if not self._heads:
            return None
        _, place = heappop(self._heads)
        self._unseen.append(place)
        index = self._stretches[place].partition.index
        record = self._stretches[place].take()
        is_redriven = self._redriven.has(self._topic_id, index, record.offset)
        return StoredDeadLetter(index, record, cause_of(record.headers), is_redriven)

    @property
    def left(self) -> Mapping[int, tuple[int, int]] | None:
        """What was not taken yet, by partition; None if that is nothing."""
        left = {each.partition.index: (each.start, each.end) for each in self._stretches if each.start < each.end}
        return left or None

    @property
    def unreadable(self) -> int:
        """How many letters were passed over until now, since they cannot be read."""
        return sum(each.unreadable for each in self._stretches)


@operation("dead_letters.browse", on="topic")
async def browse_dead_letters(
    dead_letters: DeadLetterService,
    caller: Caller,
    name: str,
    look: BrowseRequest,
) -> DeadLetterPage:
    """Return a page of the dead letters of a topic, or of a topic of dead letters itself."""
    look.selection.check()
    place = find_dead_letters(dead_letters, name)
    if place is None:
        return DeadLetterPage(None, (), None, is_cut=False)
    topic, look = place.topic, look._replace(selection=place.narrow(look.selection))
    merged = MergedDeadLetters(dead_letters, topic, _stretches(topic, look), look.order)
    found: list[StoredDeadLetter] = []
    size = 0
    is_full = False
    for _ in range(LOOKED_AT_MAX):
        letter = await merged.take()
        if letter is None:
            break
        if is_meant(look.selection, letter) and (look.has_redriven or not letter.is_redriven):
            found.append(letter)
            size += letter.record.size_bytes
            is_full = len(found) >= look.limit or size >= _PAGE_BYTES
            if is_full:
                break
    left = merged.left
    return DeadLetterPage(
        topic.topic.name, found, left, is_cut=left is not None and not is_full, unreadable=merged.unreadable
    )


@operation("dead_letters.count", on="topic")
async def count_dead_letters(
    dead_letters: DeadLetterService,
    caller: Caller,
    name: str,
    selection: Selection,
) -> DeadLetterCount:
    """Count the dead letters of a topic by reason, the newest first, as far as may be."""
    selection.check()
    place = find_dead_letters(dead_letters, name)
    if place is None:
        return DeadLetterCount("")
    selection = place.narrow(selection)
    if selection == Selection():
        return await dead_letters.counts.count(dead_letters, place.topic)
    return await _counted(dead_letters, place.topic, selection)


@operation("dead_letters.list", on="cluster")
async def list_dead_letters(dead_letters: DeadLetterService, caller: Caller) -> Sequence[DeadLetterCount]:
    """Count the letters of all topics that are there for them, in the order of their names."""
    chosen = chosen_topics(dead_letters)
    names = [name for name in sorted(dead_letters.topics.by_name) if is_for_dead_letters(name) or name in chosen]
    return [
        await dead_letters.counts.count(dead_letters, dead_letters.topics.topic(name))
        for name in names
        if name in dead_letters.topics.by_name
    ]


async def _counted(dead_letters: DeadLetterService, topic: OpenTopic, selection: Selection) -> DeadLetterCount:
    count = DeadLetterCount(topic.topic.name)
    merged = MergedDeadLetters(dead_letters, topic, _stretches(topic, BrowseRequest(selection)), Order.NEWEST)
    for _ in range(COUNTED_MAX):
        letter = await merged.take()
        if letter is None:
            break
        if is_meant(selection, letter):
            run = CountedRange(letter.record.offset, letter.record.offset + 1)
            run.add(letter.record)
            count.add(run, run.letters if letter.is_redriven else 0)
    count.is_cut = merged.left is not None
    count.unreadable = merged.unreadable
    return count


def is_meant(selection: Selection, letter: StoredDeadLetter) -> bool:
    """Tell whether a selection means a letter."""
    return selection.means(letter.cause, letter.record.key, letter.record.timestamp)


def _stretches(topic: OpenTopic, look: BrowseRequest) -> list[DeadLetterRange]:
    """Return what there is to look at: of all partitions that can be used, or what an earlier look has left."""
    found = []
    bytes_max = max(_KEPT_BYTES // len(topic.partitions), _KEPT_BYTES_MIN)
    is_backwards = look.order is Order.NEWEST
    for partition in topic.partitions:
        if not isinstance(partition, Partition):
            continue
        start, end = 0, partition.last_stable_offset
        if look.left is not None:
            start, end = look.left.get(partition.index, (end, end))
        start = max(start, start_of(partition, look.selection))
        found.append(DeadLetterRange(partition, start, end, is_backwards=is_backwards, bytes_max=bytes_max))
    return found


def start_of(partition: Partition, selection: Selection) -> int:
    """Return the first offset that a selection can mean, by its time."""
    if selection.since_ms is None:
        return partition.log.start_offset
    found = partition.offset_for_time(selection.since_ms)
    return partition.last_stable_offset if found is None else found.offset
