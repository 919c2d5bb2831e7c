"""Finds messages of a partition by their offsets.

Messages lie in batches, and to get at one of them its whole batch is opened, which holds up the loop. So a batch is
opened once for all that are wanted of it, in whichever order they are asked for.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import NamedTuple

from goqueue.broker.opened_batches import open_batch
from goqueue.errors import Corrupt
from goqueue.records.layout import headers
from goqueue.records.reader import Record
from goqueue.runtime.partition import Partition

# What a record takes in memory beside its key and value.
_RECORD_BYTES = 300


class _Batch(NamedTuple):
    """What is known once a batch is opened: the messages from one offset to another, or why they cannot be read."""

    start: int
    end: int
    records: Mapping[int, Record]
    size_bytes: int = 0
    error: Corrupt | None = None


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
            raise record.with_traceback(None)
        return record

    def near(self) -> list[int]:
        """Return which messages can be taken without opening a batch."""
        return list(self._near)

    def _open(self, offset: int) -> None:
        batch = _batch(self.partition, offset)
        self.opened_bytes += batch.size_bytes
        if self._near_bytes > self._bytes_max:
            self._near, self._near_bytes = {}, 0
        self._keep(offset, batch)
        for each in from_on(between(self._wanted, batch.start, batch.end), offset):
            if self._near_bytes > 2 * self._bytes_max:
                break
            self._keep(each, batch)

    def _keep(self, offset: int, batch: _Batch) -> None:
        if offset not in self._near:
            record = self._near[offset] = batch.error or batch.records.get(offset)
            self._near_bytes += _size(record)


def _batch(partition: Partition, offset: int) -> _Batch:
    if offset < partition.log.start_offset:
        return _Batch(offset, offset + 1, {})
    try:
        data = partition.read(offset, bytes_max=1)
    except Corrupt as error:
        return _Batch(offset, offset + 1, {}, error=error)
    for _, header in headers(data):
        begin, end = min(offset, header.base_offset), max(offset + 1, header.next_offset)
        try:
            records: Sequence[Record] = () if header.is_control else open_batch(header, data)
        except Corrupt as error:
            return _Batch(begin, end, {}, len(data), error)
        size = sum([_size(record) for record in records])
        return _Batch(begin, end, {record.offset: record for record in records}, size)
    return _Batch(offset, offset + 1, {})


def _size(record: Record | Corrupt | None) -> int:
    if not isinstance(record, Record):
        return _RECORD_BYTES
    return _RECORD_BYTES + len(record.key or b"") + len(record.value or b"")
