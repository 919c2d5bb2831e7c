"""Which stored batches were opened lately, and have a message at each of their offsets.

What a header says about compressed records, and about how many there are of others, is a sender's claim. So a batch is
opened before anybody relies on it; those that keep their word are remembered, since they are looked at more than once.
"""

from __future__ import annotations

from collections.abc import Sequence

from goqueue.records.layout import BatchHeader
from goqueue.runtime.partition import Partition

_KEPT_MAX = 1_000


class FullBatches:
    """Batches by their partition, first offset and checksum; the oldest is forgotten first."""

    def __init__(self) -> None:
        self._full: dict[tuple[Partition, int, int], None] = {}

    def offsets(self, partition: Partition, header: BatchHeader, data: bytes, start: int, count: int) -> Sequence[int]:
        """Return where there are messages in a batch from an offset on: all, or more than `count` of them.

        UnreadableBatch if they cannot be read. No more records are decoded than it takes.
        """
        key = (partition, header.base_offset, header.crc)
        start = max(start, header.base_offset)
        if key in self._full:
            return range(start, header.next_offset)
        offsets: list[int] = []
        for records in partition.open_batch(data, 0, header).slices(start):
            offsets += [record.offset for record in records]
            if len(offsets) > count:
                return offsets
        if len(offsets) == header.last_offset_delta + 1:
            self._full[key] = None
            if len(self._full) > _KEPT_MAX:
                del self._full[next(iter(self._full))]
        return offsets
