"""Of which dead messages there may be letters already, and which of these were written.

A letter is doubtful from when it is sent until its message is settled. So is, after a start, that of any message that
was dead before. Where letters may lie is stored before the first of them is sent (`letter_places`), and moves on
when nobody is in doubt any more: so there is little to look at, however many letters there are. One of which nobody can
tell has to wait until somebody can.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from goqueue.broker.dead_letters.search import find_letters
from goqueue.errors import GoQueueError, LogOffline, Unavailable
from goqueue.machines.queues.values import LetterPlace
from goqueue.machines.queues.window import QueueWindow
from goqueue.model.dead_letters import DeadLetterCause, cause_of
from goqueue.model.topic import TopicPartition
from goqueue.records.builder import NewRecord
from goqueue.runtime.partition import Partition

if TYPE_CHECKING:
    from goqueue.broker.dead_letters.service import DeadLetterService

Dead = tuple[str, TopicPartition]
"""The dead messages of a group in a partition."""
Letters = dict[int, NewRecord]
"""Letters by the offsets of their messages."""
Leases = Mapping[int, int]
"""The leases of which messages died, by their offsets."""

_PLACES_MAX = 10
# Letters of others may lie there as well. To look at so many costs less than to store that they need not be.
_FEW_LETTERS = 1_000


class _Sent(NamedTuple):
    """Where a letter was sent, and of which lease its message died: one that is delivered again may die again.

    If it was written, it lies there from `start` on.
    """

    lease_id: int
    partition: Partition
    start: int


class _Found(NamedTuple):
    """What letters say that were found, and of which messages nobody can tell whether there is one, and why."""

    written: set[DeadLetterCause]
    unknown: dict[int, GoQueueError]


class _Former(NamedTuple):
    """What letters from before the start say of messages, by offset, and why there may be more of them."""

    causes: dict[int, set[DeadLetterCause]]
    obstacle: GoQueueError | None


class UnconfirmedDeadLetters:
    """Which letters were sent since the start, though their messages are not settled yet, and which were before it."""

    def __init__(self, service: DeadLetterService) -> None:
        self._service = service
        self._sent: dict[Dead, dict[int, _Sent]] = {}
        self._former: dict[Dead, _Former] = {}

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

    def look_again(self, dead: Dead) -> None:
        """Take note that what could not be looked at can perhaps be by now."""
        former = self._former.get(dead)
        if former is not None and former.obstacle is not None:
            del self._former[dead]

    def places(
        self, dead: Dead, window: QueueWindow, target: LetterPlace, certain: Collection[int]
    ) -> tuple[LetterPlace, ...]:
        """Return where letters may lie if some are written to a place now; there is no doubt about those of `certain`.

        Unavailable if there are too many places already.
        """
        here = target.topic_id, target.partition
        known = next((each for each in window.letter_places if (each.topic_id, each.partition) == here), None)
        if self.is_clear(dead, window, certain):
            if known is not None and 0 <= target.start - known.start < _FEW_LETTERS:
                return (known,)
            return (target,)
        if known is not None and known.start <= target.start:
            return window.letter_places
        others = [
            each for each in window.letter_places if each is not known and each.topic_id in self._service.topics.by_id
        ]
        if len(others) >= _PLACES_MAX:
            raise Unavailable(
                f"whether there are letters already, in {len(others)} places, cannot be told",
                hint="let the topic for dead letters (dead_letters) be what it was before",
            )
        return (*others, target)

    def is_clear(self, dead: Dead, window: QueueWindow, certain: Collection[int]) -> bool:
        """Tell whether no dead message is in doubt but those of `certain`."""
        if any(offset in window.dead and offset not in certain for offset in self._sent.get(dead, ())):
            return False
        if window.old_dead.issubset(certain):
            return True
        former = self._former.get(dead)
        if former is None or former.obstacle is not None:
            return False
        return not any(offset in window.old_dead and offset not in certain for offset in former.causes)

    async def unwritten(
        self, dead: Dead, window: QueueWindow, letters: Letters, leases: Leases
    ) -> tuple[Letters, dict[int, GoQueueError]]:
        """Leave out letters that were written before; also return those of which nobody can tell, and why.

        All that are not doubtful are still to be written.
        """
        all_sent = self._sent.get(dead, {})
        sent = {each: there for each in letters if (there := all_sent.get(each)) and there.lease_id == leases[each]}
        old = [each for each in letters if each in window.old_dead]
        causes = {each: cause_of(letters[each].headers) for each in {*sent, *old}}
        found = await _find_sent(sent, causes)
        # Also if none of the old ones is among these: they are doubtful until somebody has looked.
        if window.old_dead:
            former = await self._look_back(dead, window)
            found.written.update(causes[each] for each in old if causes[each] in former.causes.get(each, ()))
            if former.obstacle is not None:
                found.unknown.update(dict.fromkeys(old, former.obstacle))
        left = {each: letter for each, letter in letters.items() if causes.get(each) not in found.written}
        unknown = {each: error for each, error in found.unknown.items() if each in left}
        return {each: letter for each, letter in left.items() if each not in unknown}, unknown

    async def _look_back(self, dead: Dead, window: QueueWindow) -> _Former:
        """Look for letters from before the start, once for all that were dead then."""
        known = self._former.get(dead)
        if known is not None:
            return known
        found: set[DeadLetterCause] = set()
        obstacle: GoQueueError | None = None
        for place in window.letter_places:
            opened = self._service.topics.by_id.get(place.topic_id)
            partition = None if opened is None else opened.partitions[place.partition]
            try:
                if isinstance(partition, Partition):
                    is_wanted = partial(_is_old, dead, window)
                    await find_letters(partition, place.start, partition.opened_end, is_wanted, found)
                else:
                    obstacle = obstacle or partition
            except GoQueueError as error:
                obstacle = obstacle or error
        former = self._former[dead] = _Former({}, obstacle)
        for cause in found:
            assert cause.offset is not None
            former.causes.setdefault(cause.offset, set()).add(cause)
        return former


def _is_old(dead: Dead, window: QueueWindow, cause: DeadLetterCause) -> bool:
    """Tell whether a letter is of a message that was dead at the start, and is still."""
    group, where = dead
    return cause.group == group and (cause.topic, cause.partition) == where and cause.offset in window.old_dead


async def _find_sent(sent: Mapping[int, _Sent], causes: Mapping[int, DeadLetterCause]) -> _Found:
    """Look for letters that were sent since the start, where they were sent last."""
    found = _Found(set(), {})
    for partition in dict.fromkeys(each.partition for each in sent.values() if not each.partition.gone):
        there = {offset: each.start for offset, each in sent.items() if each.partition is partition}
        wanted = {causes[offset] for offset in there}
        here: set[DeadLetterCause] = set()
        try:
            # What a power loss could take back does not count as written.
            end = min(partition.high_watermark, partition.log.durable_end)
            await find_letters(partition, min(there.values()), end, wanted.__contains__, here, enough=len(wanted))
            obstacle = _doubt_left(partition)
        except GoQueueError as error:
            obstacle = error
        found.written.update(here)
        if obstacle is not None:
            found.unknown.update(dict.fromkeys(there, obstacle))
    return found


def _doubt_left(partition: Partition) -> GoQueueError | None:
    """Return why a letter that was sent to a partition, and is not found there, may be there after the next start."""
    if not partition.log.fault:
        return None
    return LogOffline(f"only the next start can tell whether a letter was written: {partition.offline().message}")
