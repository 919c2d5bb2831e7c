"""Reads partitions for queue groups.

Groups go through a partition from one end to the other, often a few messages at a time. So what was read at once is
kept until somebody comes back for the rest of it, and its batches are opened one after another, when it is their turn.
"""

from __future__ import annotations

from collections.abc import Sequence

from goqueue.broker.messages.aborted import Aborted
from goqueue.broker.messages.fetch import aborted_in
from goqueue.errors import Corrupt, UnreadableBatch
from goqueue.records.layout import BatchHeader
from goqueue.records.reader import Record
from goqueue.runtime.partition import Partition

# Producers fill batches of a megabyte, which open to some more, and consumers come for a few messages at a time: what
# has no room here is opened again for each of them.
_KEPT_BYTES_MAX = 64 * 1024 * 1024
_KEPT_MAX = 256
# What a record takes in memory beside its key and value.
_RECORD_BYTES = 300
_READ_BYTES_MAX = 1024 * 1024
# About what a message takes; whoever wants one need not read a thousand.
_MESSAGE_BYTES = 1024


class MessageRange:
    """What was read of a partition at once; `offset` is behind what was taken of it, `is_over` once that was all."""

    def __init__(self, partition: Partition, offset: int, data: bytes) -> None:
        self.offset = offset
        self.is_empty = self.is_over = not data
        self._data = data
        self._headers = partition.batches(data)
        self._aborted: Aborted | None = None
        self._partition = partition
        # Of the batch that was opened last: its messages and their sizes, how many of them were taken, and what comes
        # behind.
        self._records: Sequence[Record] = ()
        self._sizes: Sequence[int] = ()
        self._taken = 0
        self._next_offset = offset
        self._opened_bytes = 0
        # The batch of which not all records were decoded yet.
        self._current: tuple[int, BatchHeader] | None = None

    @property
    def size_bytes(self) -> int:
        """About how much memory it takes."""
        return len(self._data) + self._opened_bytes

    def see_aborted(self) -> None:
        """Find out which transactions were aborted: later, compaction may have removed what tells."""
        if self._aborted is None:
            self._aborted = Aborted(aborted_in(self._partition, self.offset, self._data))

    def take(self, limit: int, bytes_max: int) -> tuple[list[Record], int]:
        """Return the next messages, and how many bytes they have; one of any size always comes."""
        found: list[Record] = []
        size = 0
        while len(found) < limit and size < bytes_max and not self.is_over:
            if self._taken == len(self._records):
                try:
                    self._open_next()
                except Corrupt:
                    if not found:
                        raise
                    # Whoever comes next is told.
                    self.is_over = True
                continue
            end = self._taken + limit - len(found)
            sizes = self._sizes[self._taken : end]
            if size + sum(sizes) > bytes_max:
                end = self._taken + _fitting(sizes, bytes_max - size, at_least=0 if found else 1)
                sizes = self._sizes[self._taken : end]
                if not sizes:
                    break
            found += self._records[self._taken : end]
            size += sum(sizes)
            self._taken += len(sizes)
            if self._taken < len(self._records):
                self.offset = self._records[self._taken].offset
            else:
                self._put((), self._next_offset)
        return found, size

    def _open_next(self) -> None:
        """Decode the next records; batches that nobody is to see have none. UnreadableBatch ends the stretch."""
        if self._current is None:
            self._current = next(self._headers, None)
            if self._current is None:
                self.is_over = True
                return
        position, header = self._current
        self._next_offset = max(self.offset, header.next_offset)
        records: Sequence[Record] = ()
        try:
            if header.is_control or (header.is_transactional and self._is_aborted(header)):
                self._partition.verify_batch(self._data, position, header)
            else:
                # A large batch is kept opened where all find it, and not here.
                records = self._partition.open_batch(self._data, position, header).next_slice(self.offset)
        except UnreadableBatch:
            self.is_over = True
            raise
        if not records or records[-1].offset >= header.last_offset:
            self._current = None
        else:
            self._next_offset = records[-1].offset + 1
        self._put(records, records[0].offset if records else self._next_offset)

    def _put(self, records: Sequence[Record], offset: int) -> None:
        self._records, self._sizes, self._taken = records, _sizes(records), 0
        # What was not compressed lies in memory twice; what was may be far more than its batch.
        self._opened_bytes = sum(self._sizes) + _RECORD_BYTES * len(records)
        self.offset = offset

    def _is_aborted(self, header: BatchHeader) -> bool:
        self.see_aborted()
        assert self._aborted is not None
        return self._aborted.hides(header)


def _sizes(records: Sequence[Record]) -> list[int]:
    # Most have no headers, and this is asked once of every message.
    return [
        record.size_bytes if record.headers else len(record.value or b"") + len(record.key or b"") for record in records
    ]


def _fitting(sizes: Sequence[int], bytes_max: int, *, at_least: int) -> int:
    total = 0
    for count, size in enumerate(sizes):
        total += size
        if total > bytes_max:
            return max(count, at_least)
    return len(sizes)


class MessageRanges:
    """What is left of stretches that were read lately, by where somebody is expected to go on."""

    def __init__(self) -> None:
        self._kept: dict[tuple[Partition, int], MessageRange] = {}
        self._kept_bytes = 0

    def read(self, partition: Partition, offset: int, limit: int, bytes_max: int) -> MessageRange:
        """Return a stretch that begins at an offset, from memory or from the log; empty if nothing is there yet."""
        if (partition, offset) in self._kept:
            return self._take((partition, offset))
        data = b""
        if offset < partition.last_stable_offset:
            bytes_max = min(bytes_max, limit * _MESSAGE_BYTES, _READ_BYTES_MAX)
            data = partition.read(offset, bytes_max=bytes_max, is_committed_only=True)
        return MessageRange(partition, offset, data)

    def keep(self, partition: Partition, stretch: MessageRange) -> None:
        """Keep what is left of a stretch; those that nobody has come back to for the longest time go."""
        if stretch.is_over:
            return
        stretch.see_aborted()
        place = partition, stretch.offset
        if place in self._kept:
            self._take(place)
        self._kept[place] = stretch
        self._kept_bytes += stretch.size_bytes
        while self._kept_bytes > _KEPT_BYTES_MAX or len(self._kept) > _KEPT_MAX:
            self._take(next(iter(self._kept)))

    def forget(self, partition: Partition) -> None:
        """Keep nothing more of a partition, which is going."""
        for place in [each for each in self._kept if each[0] is partition]:
            self._take(place)

    def _take(self, place: tuple[Partition, int]) -> MessageRange:
        kept = self._kept.pop(place)
        self._kept_bytes -= kept.size_bytes
        return kept
