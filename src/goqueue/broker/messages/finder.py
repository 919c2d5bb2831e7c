"""Finds messages of a partition by their offsets.

Messages lie in batches, and to get at one of them its whole batch is opened, which holds up the loop. So a batch is
opened once for all that are wanted of it, in whichever order they are asked for.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence, Set

from goqueue.errors import Corrupt, UnreadableBatch
from goqueue.records.layout import headers
from goqueue.records.reader import Record
from goqueue.runtime.opened_batches import StoredRecords
from goqueue.runtime.partition import Partition

# What a record takes in memory beside its key and value.
_RECORD_BYTES = 300


class _Batch:
    """A batch with the messages from one offset to another, opened, or why they cannot be read.

    They are decoded in slices as they are asked for, and the last slice is kept. `size_bytes` is about how much was
    decoded.
    """

    def __init__(self, start: int, end: int, opened: StoredRecords | None = None, error: Corrupt | None = None) -> None:
        self.start = start
        self.end = end
        self.size_bytes = 0
        self._opened = opened
        self._error = error
        # The messages of the last slice, which begins at or before the first of these offsets and ends with the other.
        self._records: Mapping[int, Record] = {}
        self._decoded = (-1, -1)

    def find(self, offset: int) -> Record | Corrupt | None:
        """Return the message at an offset, None if there is none, or why it cannot be read."""
        if self._error is None and self._opened is not None and not self._decoded[0] <= offset <= self._decoded[1]:
            self._decode(self._opened, offset)
        return self._error or self._records.get(offset)

    def _decode(self, opened: StoredRecords, offset: int) -> None:
        try:
            records = opened.next_slice(offset)
        except UnreadableBatch as error:
            self._error = error.without_frames()
            return
        self._records = {record.offset: record for record in records}
        self._decoded = (offset, records[-1].offset if records else self.end)
        self.size_bytes += sum([_size(record) for record in records])


def between(wanted: Set[int], start: int, end: int) -> list[int]:
    """Return those of the wanted offsets that lie between two others, in order."""
    if end - start <= len(wanted):
        return [offset for offset in range(start, end) if offset in wanted]
    return sorted([offset for offset in wanted if start <= offset < end])


def from_on(row: Sequence[int], first: int) -> list[int]:
    """Return offsets, which are in order, from one of them on, and then those before it.

    Who wants some messages of a batch begins with the one that has waited longest: if it began with the first of the
    batch, that one could keep all others waiting by coming back again and again.
    """
    here = bisect_left(row, first)
    return [*row[here:], *row[:here]]


class MessageFinder:
    """Finds those messages that are `wanted`; what was opened is kept until it is taken.

    No more than about twice `bytes_max` is kept: if all of them have fewer bytes, no batch is opened twice.
    `opened_bytes` is about how much was opened until now.
    """

    def __init__(self, partition: Partition, wanted: Set[int], bytes_max: int) -> None:
        self.opened_bytes = 0
        self.partition = partition
        self._wanted = wanted
        self._bytes_max = bytes_max
        # None where there is no message any more, an error where it cannot be read.
        self._near: dict[int, Record | Corrupt | None] = {}
        self._near_bytes = 0

    def wants_all(self, offsets: Iterable[int]) -> bool:
        """Tell whether all of these are wanted."""
        return all(offset in self._wanted for offset in offsets)

    def is_near(self, offset: int) -> bool:
        """Tell whether a message can be taken without opening a batch."""
        return offset in self._near

    def take(self, offset: int) -> Record | None:
        """Return the message at an offset, and keep it no longer; None if it is gone, Corrupt if unreadable."""
        if offset not in self._near:
            self._open(offset)
        record = self._near.pop(offset)
        self._near_bytes -= _size(record)
        if isinstance(record, Corrupt):
            raise record.without_frames()
        return record

    def near(self) -> list[int]:
        """Return which messages can be taken without opening a batch."""
        return list(self._near)

    def _open(self, offset: int) -> None:
        batch = _batch(self.partition, offset)
        if self._near_bytes > self._bytes_max:
            self._near, self._near_bytes = {}, 0
        self._keep(offset, batch)
        for each in from_on(between(self._wanted, batch.start, batch.end), offset):
            if self._near_bytes > 2 * self._bytes_max:
                break
            self._keep(each, batch)
        self.opened_bytes += batch.size_bytes

    def _keep(self, offset: int, batch: _Batch) -> None:
        if offset not in self._near:
            record = self._near[offset] = batch.find(offset)
            self._near_bytes += _size(record)


def _batch(partition: Partition, offset: int) -> _Batch:
    if offset < partition.log.start_offset:
        return _Batch(offset, offset + 1)
    try:
        data = partition.read(offset, bytes_max=1)
        for position, header in headers(data):
            begin, end = min(offset, header.base_offset), max(offset + 1, header.next_offset)
            if header.is_control:
                partition.verify_batch(data, position, header)
                return _Batch(begin, end)
            return _Batch(begin, end, partition.open_batch(data, position, header))
    except UnreadableBatch as error:
        begin, end = min(offset, error.base_offset), max(offset + 1, error.next_offset)
        return _Batch(begin, end, error=error.without_frames())
    except Corrupt as error:
        return _Batch(offset, offset + 1, error=error.without_frames())
    return _Batch(offset, offset + 1)


def _size(record: Record | Corrupt | None) -> int:
    if not isinstance(record, Record):
        return _RECORD_BYTES
    return _RECORD_BYTES + len(record.key or b"") + len(record.value or b"")
