"""Of which dead messages there may be letters already, and which of these were written.

A letter is doubtful from when it is sent until its message is settled, and so is any of a message that was leased
before the start. It is looked for where it may lie: where letters of its group go now, and where they went before. One
of which nobody can tell has to wait until somebody can.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from goqueue.broker.letter_search import find_written
from goqueue.errors import GoQueueError, LogOffline
from goqueue.machines.group_values import TopicPartition
from goqueue.model.dead_letters import cause_of, letter_places
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
    """Where a letter was sent, and of which lease its message died: one that is delivered again may die again."""

    lease_id: int
    partition: Partition


class LetterDoubts:
    """Which letters were sent since the start, though their messages are not settled yet, and to which partition."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._sent: dict[Dead, dict[int, _Sent]] = {}

    def is_sent(self, dead: Dead, offset: int, lease_id: int) -> bool:
        """Tell whether a letter of a message that died of a lease was sent."""
        return self._place(dead, offset, lease_id) is not None

    def _place(self, dead: Dead, offset: int, lease_id: int) -> Partition | None:
        sent = self._sent.get(dead, {}).get(offset)
        return None if sent is None or sent.lease_id != lease_id else sent.partition

    def sending(self, dead: Dead, leases: Leases, partition: Partition) -> None:
        """Take note that letters of messages are about to be sent to a partition."""
        sent = {offset: _Sent(lease_id, partition) for offset, lease_id in leases.items()}
        self._sent.setdefault(dead, {}).update(sent)

    def forget(self, dead: Dead, offsets: Iterable[int]) -> None:
        """Take note that messages are settled, or that their letters never can be written where they were sent."""
        sent = self._sent.get(dead, {})
        for offset in offsets:
            sent.pop(offset, None)

    def prune(self, busy: Collection[Dead]) -> None:
        """Forget those where nobody is dead any more."""
        self._sent = {dead: sent for dead, sent in self._sent.items() if sent and dead in busy}

    async def unwritten(
        self, dead: Dead, homes: Sequence[str], letters: Letters, doubtful: Leases
    ) -> tuple[Letters, dict[int, GoQueueError]]:
        """Leave out letters that were written before, to any home; also return those of which nobody can tell, and why.

        All that are not doubtful are still to be written.
        """
        causes = {offset: cause_of(letters[offset].headers) for offset in doubtful}
        written, obstacle = await find_written(self._places(homes, dead[1]), set(causes.values()))
        left = {offset: letter for offset, letter in letters.items() if causes.get(offset) not in written}
        unknown = {
            offset: error
            for offset, lease_id in doubtful.items()
            if offset in left and (error := obstacle or _may_come_back(self._place(dead, offset, lease_id))) is not None
        }
        return {offset: letter for offset, letter in left.items() if offset not in unknown}, unknown

    def _places(self, homes: Sequence[str], where: TopicPartition) -> Iterator[Partition | GoQueueError]:
        """Yield where letters may lie, or why a place cannot be looked at."""
        for opened in [self._broker.topics[name] for name in homes if name in self._broker.topics]:
            yield from (opened.partitions[index] for index in letter_places(where.partition, len(opened.partitions)))


def _may_come_back(partition: Partition | None) -> GoQueueError | None:
    """Return why a letter that was sent to a partition, and is not found there, may be there after the next start."""
    if partition is None or partition.gone or not partition.log.fault:
        return None
    return LogOffline(f"only the next start can tell whether a letter was written: {partition.offline().message}")
