"""Which stored batches were opened lately, and have a message at each of their offsets.

What a header says about compressed records, and about how many there are of others, is a sender's claim. So a batch is
opened before anybody relies on it; those that keep their word are remembered, since they are looked at more than once.
"""

from __future__ import annotations

from collections.abc import Sequence

from goqueue.errors import CorruptBatch, TooLarge, UnsupportedFormat
from goqueue.records.layout import BatchHeader
from goqueue.records.reader import Record, read_records
from goqueue.runtime.partition import Partition

_KEPT_MAX = 1_000


class OpenedBatches:
    """Batches by their partition, first offset and checksum; the oldest is forgotten first."""

    def __init__(self) -> None:
        self._full: dict[tuple[Partition, int, int], None] = {}

    def offsets(self, partition: Partition, header: BatchHeader, data: bytes) -> Sequence[int]:
        """Return where there are messages in a batch; CorruptBatch if it cannot be read."""
        key = (partition, header.base_offset, header.crc)
        whole = range(header.base_offset, header.next_offset)
        if key in self._full:
            return whole
        offsets = [record.offset for record in open_batch(header, data)]
        if len(offsets) != len(whole):
            return offsets
        self._full[key] = None
        if len(self._full) > _KEPT_MAX:
            del self._full[next(iter(self._full))]
        return whole


def open_batch(header: BatchHeader, data: bytes) -> Sequence[Record]:
    """Return the messages of a stored batch; CorruptBatch if it cannot be read, with where reading can go on."""
    try:
        return read_records(data)
    except (CorruptBatch, TooLarge, UnsupportedFormat) as error:
        raise CorruptBatch(
            f"the records from offset {header.base_offset} on cannot be read: {error.message}",
            hint=f"reading can go on at offset {header.next_offset}",
        ) from error
