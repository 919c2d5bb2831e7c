"""Of which dead messages there may be letters already, and which of these were written.

A letter is doubtful from when it is sent until its message is settled; it is looked for where it was sent. So is any of
a message that was leased before the start: it may lie where letters of its group go now, or where they went before. One
of which nobody can tell has to wait until somebody can.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from goqueue.broker.letter_search import FormerLetters, find_sent
from goqueue.errors import GoQueueError, LogOffline
from goqueue.machines.delivery_window import Window
from goqueue.machines.group_values import TopicPartition
from goqueue.model.dead_letters import Cause, cause_of, letter_places
from goqueue.records.builder import NewRecord
from goqueue.runtime.partition import Partition

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker

Dead = tuple[str, TopicPartition]
"""The dead messages of a group in a partition."""
Letters = dict[int, NewRecord]
"""Letters by the offsets of their messages."""
Leases = Mapping[int, int]
"""The leases of which messages died, by their offsets."""


class _Sent(NamedTuple):
    """Where a letter was sent, and of which lease its message died: one that is delivered again may die again.

    If it was written, it lies there from `start` on.
    """

    lease_id: int
    partition: Partition
    start: int


class _Found(NamedTuple):
    """What letters say that were found, and of which messages nobody can tell whether there is one, and why."""

    written: set[Cause]
    unknown: dict[int, GoQueueError]


class LetterDoubts:
    """Which letters were sent since the start, though their messages are not settled yet, or perhaps before it."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._sent: dict[Dead, dict[int, _Sent]] = {}
        self._former: dict[Dead, dict[Partition, FormerLetters]] = {}

    def sending(self, dead: Dead, leases: Leases, partition: Partition) -> None:
        """Take note that letters of messages are about to be sent to a partition."""
        start = partition.log.end_offset
        sent = {offset: _Sent(lease_id, partition, start) for offset, lease_id in leases.items()}
        self._sent.setdefault(dead, {}).update(sent)

    def forget(self, dead: Dead, offsets: Iterable[int]) -> None:
        """Take note that messages are settled, or that their letters never can be written where they were sent."""
        sent = self._sent.get(dead, {})
        for offset in offsets:
            sent.pop(offset, None)

    def prune(self, busy: Collection[Dead]) -> None:
        """Forget those where nobody is dead any more."""
        self._sent = {dead: sent for dead, sent in self._sent.items() if sent and dead in busy}
        self._former = {dead: former for dead, former in self._former.items() if dead in busy}

    async def unwritten(
        self, dead: Dead, window: Window, homes: Sequence[str], letters: Letters, leases: Leases
    ) -> tuple[Letters, dict[int, GoQueueError]]:
        """Leave out letters that were written before; also return those of which nobody can tell, and why.

        All that are not doubtful are still to be written. From before the start, there may be letters in any home.
        """
        all_sent = self._sent.get(dead, {})
        sent = {each: there for each in letters if (there := all_sent.get(each)) and there.lease_id == leases[each]}
        old = [each for each in letters if leases[each] in window.old_leases]
        causes = {each: cause_of(letters[each].headers) for each in {*sent, *old}}
        since = await _find_all_sent(sent, causes)
        before = await self._find_former(dead, window, homes, {each: causes[each] for each in old})
        written = since.written | before.written
        left = {each: letter for each, letter in letters.items() if causes.get(each) not in written}
        unknown = {each: error for each, error in (since.unknown | before.unknown).items() if each in left}
        return {each: letter for each, letter in left.items() if each not in unknown}, unknown

    async def _find_former(
        self, dead: Dead, window: Window, homes: Sequence[str], causes: Mapping[int, Cause]
    ) -> _Found:
        """Look for letters that were perhaps written before the start."""
        found = _Found(set(), {})
        wanted = set(causes.values())
        if not wanted:
            return found
        first_ms = min(cause.last_delivery or 0 for cause in wanted)
        former = self._former.setdefault(dead, {})
        for place in self._places(homes, dead[1]):
            obstacle = None
            try:
                if isinstance(place, Partition):
                    letters = former.setdefault(place, FormerLetters(place, partial(_is_open, dead, window)))
                    found.written.update(wanted & await letters.since(first_ms))
                else:
                    obstacle = place
            except GoQueueError as error:
                obstacle = error
            if obstacle is not None:
                found.unknown.update(dict.fromkeys(causes, obstacle))
        return found

    def _places(self, homes: Sequence[str], where: TopicPartition) -> Iterator[Partition | GoQueueError]:
        """Yield where letters may lie, or why a place cannot be looked at."""
        for opened in [self._broker.topics[name] for name in homes if name in self._broker.topics]:
            yield from (opened.partitions[index] for index in letter_places(where.partition, len(opened.partitions)))


def _is_open(dead: Dead, window: Window, cause: Cause) -> bool:
    """Tell whether a letter is of a message that is not done."""
    group, where = dead
    is_ours = cause.group == group and (cause.topic, cause.partition) == where
    return is_ours and cause.offset is not None and window.find(cause.offset) is not None


async def _find_all_sent(sent: Mapping[int, _Sent], causes: Mapping[int, Cause]) -> _Found:
    """Look for letters that were sent since the start, where they were sent last."""
    found = _Found(set(), {})
    for partition in dict.fromkeys(each.partition for each in sent.values() if not each.partition.gone):
        there = {offset: each.start for offset, each in sent.items() if each.partition is partition}
        try:
            wanted = {causes[offset] for offset in there}
            found.written.update(await find_sent(partition, min(there.values()), wanted))
            obstacle = _doubt_left(partition)
        except GoQueueError as error:
            obstacle = error
        if obstacle is not None:
            found.unknown.update(dict.fromkeys(there, obstacle))
    return found


def _doubt_left(partition: Partition) -> GoQueueError | None:
    """Return why a letter that was sent to a partition, and is not found there, may be there after the next start."""
    if not partition.log.fault:
        return None
    return LogOffline(f"only the next start can tell whether a letter was written: {partition.offline().message}")
