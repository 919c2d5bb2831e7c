"""The one place where a broker opens stored batches.

Every read that needs single records comes here (HTTP reads, polls, receives, share groups, dead letters, lag). The
checksum of a batch is verified before any of its records is seen, and so is that of a batch that is only skipped: a
flipped bit in its header could claim that it holds no messages. A damaged or malformed batch is an `UnreadableBatch`,
and is reported once.

Records are decoded in slices when they are asked for, and readers come back for the next slice of the same batch. So
large batches are kept decompressed, the latest ones, within one budget of bytes for the whole broker. Readers keep
none: a reader that waits between two slices holds the stored batch, which is opened again if it was not kept. So
however many readers there are, at most the budget and one batch are decompressed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator

from goqueue.errors import CorruptBatch, GoQueueError, TooLarge, UnreadableBatch, UnsupportedFormat
from goqueue.model.topic import TopicPartition
from goqueue.records.layout import BatchHeader
from goqueue.records.reader import (
    DECOMPRESSED_BYTES_MAX,
    SLICE_RECORDS,
    Batch,
    OpenedBatch,
    Record,
    slice_count,
    verified,
)

KEPT_BYTES_MAX = 48 * 1024 * 1024
"""How many bytes of decompressed batches are kept in memory, in all."""

# Smaller ones are opened again as soon as they would be found.
_KEPT_BYTES_MIN = 256 * 1024
_REPORTED_MAX = 1_000
_UNREADABLE = (CorruptBatch, TooLarge, UnsupportedFormat)

Report = Callable[[TopicPartition, UnreadableBatch], None]


class StoredRecords:
    """The records of a stored batch, decoded when they are asked for; UnreadableBatch where that fails."""

    __slots__ = ("_fail", "_open", "header")

    def __init__(
        self,
        header: BatchHeader,
        open_batch: Callable[[], OpenedBatch],
        fail: Callable[[GoQueueError], UnreadableBatch],
    ) -> None:
        self.header = header
        self._open = open_batch
        self._fail = fail

    def slices(self, offset: int = 0) -> Iterator[list[Record]]:
        """Yield the records from an offset on, in order; each slice of them is decoded when it is asked for."""
        try:
            # The opened batch is released at each pause: there may be very many readers.
            for number in range(self._open().slice_of(offset), slice_count(self.header)):
                if records := self._open().slice(number, offset):
                    yield records
        except _UNREADABLE as error:
            raise self._fail(error) from None

    def next_slice(self, offset: int) -> list[Record]:
        """Return some records from an offset on; none if there are no more."""
        return next(self.slices(offset), [])


class OpenedBatches:
    """Opens batches, and keeps large ones that were opened lately."""

    def __init__(self, report: Report | None = None, bytes_max: int = KEPT_BYTES_MAX) -> None:
        self._report = report
        self._bytes_max = bytes_max
        self._kept: OrderedDict[tuple[TopicPartition, int, int], OpenedBatch] = OrderedDict()
        self._kept_bytes = 0
        self._reported: OrderedDict[tuple[TopicPartition, int], None] = OrderedDict()

    @property
    def kept_bytes(self) -> int:
        """How many bytes are kept now."""
        return self._kept_bytes

    def verify(self, place: TopicPartition, data: bytes | memoryview, position: int, header: BatchHeader) -> Batch:
        """Verify the checksum of the batch at a position, whose header is known; UnreadableBatch if it is damaged."""
        try:
            return verified(data, position)
        except _UNREADABLE as error:
            raise self._fault(place, header, error, is_damaged=True) from None

    def open(
        self,
        place: TopicPartition,
        data: bytes | memoryview,
        position: int,
        header: BatchHeader,
        bytes_max: int = DECOMPRESSED_BYTES_MAX,
    ) -> StoredRecords:
        """Verify the batch at a position, and open it; UnreadableBatch if it is damaged, or cannot be opened."""

        def fail(error: GoQueueError) -> UnreadableBatch:
            return self._fault(place, header, error, is_damaged=False)

        def open_large() -> OpenedBatch:
            return self._kept_or_opened(place, data, position, header, bytes_max)

        try:
            opened = open_large()
        except _UNREADABLE as error:
            raise fail(error) from None
        return StoredRecords(header, open_large if _is_large(opened) else lambda: opened, fail)

    def _kept_or_opened(
        self, place: TopicPartition, data: bytes | memoryview, position: int, header: BatchHeader, bytes_max: int
    ) -> OpenedBatch:
        key = (place, header.base_offset, header.crc)
        kept = self._kept.get(key)
        if kept is not None and kept.header == header:
            # It was verified when it was opened, whatever has happened to the bytes on the disk.
            self._kept.move_to_end(key)
            return kept
        opened = self.verify(place, data, position, header).open(bytes_max)
        if _is_large(opened):
            self._keep(key, opened)
        return opened

    def forget(self, place: TopicPartition) -> None:
        """Drop the batches of a partition that is removed."""
        for key in [each for each in self._kept if each[0] == place]:
            self._kept_bytes -= self._kept.pop(key).size_bytes
        for known in [each for each in self._reported if each[0] == place]:
            del self._reported[known]

    def _keep(self, key: tuple[TopicPartition, int, int], opened: OpenedBatch) -> None:
        former = self._kept.pop(key, None)
        self._kept[key] = opened
        self._kept_bytes += opened.size_bytes - (0 if former is None else former.size_bytes)
        while self._kept_bytes > self._bytes_max:
            _, oldest = self._kept.popitem(last=False)
            self._kept_bytes -= oldest.size_bytes

    def _fault(
        self, place: TopicPartition, header: BatchHeader, error: GoQueueError, *, is_damaged: bool
    ) -> UnreadableBatch:
        # It becomes the context of the new error, and its frames would hold the opened batch.
        error.without_frames()
        fault = UnreadableBatch(
            error.message,
            base_offset=header.base_offset,
            next_offset=header.next_offset,
            record_count=max(header.record_count, 1),
            is_damaged=is_damaged,
        )
        known = place, header.base_offset
        if known not in self._reported and self._report is not None:
            self._reported[known] = None
            if len(self._reported) > _REPORTED_MAX:
                self._reported.popitem(last=False)
            self._report(place, fault)
        return fault


def _is_large(opened: OpenedBatch) -> bool:
    return opened.size_bytes >= _KEPT_BYTES_MIN or opened.header.record_count > SLICE_RECORDS
