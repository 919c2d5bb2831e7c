"""Remembers when messages were written that queue groups have as their oldest.

To find the timestamp of a message its whole batch is opened. Queues are described again and again while their oldest
message stays the same, so its timestamp is kept. A message never changes, but compaction may remove it: timestamps in
compacted topics are looked up each time.
"""

from __future__ import annotations

from collections import OrderedDict

from goqueue.broker.queues.candidates import find
from goqueue.runtime.partition import Partition

KEPT_MAX = 10_000


class Timestamps:
    """The timestamps of some messages, those asked for last."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[Partition, int], int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, partition: Partition, offset: int) -> int | None:
        """Return the timestamp of a message; None if it is not there any more."""
        known = self._kept.get((partition, offset))
        if known is not None:
            self._kept.move_to_end((partition, offset))
            return known
        record = find(partition, offset)
        if record is None:
            return None
        if not partition.settings.log.compacts:
            self._kept[partition, offset] = record.timestamp
            if len(self._kept) > KEPT_MAX:
                self._kept.popitem(last=False)
        return record.timestamp

    def forget(self, partition: Partition) -> None:
        """Keep nothing of a partition that is being deleted."""
        for place in [each for each in self._kept if each[0] is partition]:
            del self._kept[place]
