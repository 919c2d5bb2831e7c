"""The sparse index of one segment, by offset and by time.

A row is made for the first batch and then for the first batch after every `index_interval_bytes` of log:

| column   | meaning                                                                                   |
|----------|-------------------------------------------------------------------------------------------|
| offset   | base offset of the batch, less the segment's base offset                                  |
| position | where the batch starts in the segment                                                     |
| time     | the greatest timestamp of all records before the batch, or -1; so it never decreases even |
|          | when timestamps do, and no record before the row is later                                 |
| chain    | checksum over the prefixes of all batches before the row (see `segment`)                  |

The columns are arrays: a full segment of 64 MiB has 16,384 rows in 320 KiB.

Offsets and positions of batches after the last row are known as well, as long as they are few: readers at the end of a
log read one batch at a time. They are in memory only; a segment that was loaded has none.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import NamedTuple

ROW_BYTES = 20
_TAIL_MAX = 256


class Row(NamedTuple):
    """One row of the index; `offset` is absolute here."""

    offset: int
    position: int
    time: int
    chain: int


class SparseIndex:
    """Finds the neighbourhood of an offset, a position or a time; the exact batch is found by reading on."""

    __slots__ = ("_base_offset", "_chains", "_offsets", "_positions", "_tail_offsets", "_tail_positions", "_times")

    def __init__(self, base_offset: int) -> None:
        self._base_offset = base_offset
        self._offsets = array("I")
        self._positions = array("I")
        self._times = array("q")
        self._chains = array("I")
        self._tail_offsets = array("q")
        self._tail_positions = array("q")

    def __len__(self) -> int:
        return len(self._offsets)

    def row(self, number: int) -> Row:
        """Return one row; negative numbers count from the end."""
        return Row(
            self._offsets[number] + self._base_offset,
            self._positions[number],
            self._times[number],
            self._chains[number],
        )

    def add(self, row: Row) -> None:
        """Add a row after all others."""
        self._offsets.append(row.offset - self._base_offset)
        self._positions.append(row.position)
        self._times.append(row.time)
        self._chains.append(row.chain)
        del self._tail_offsets[:], self._tail_positions[:]

    def note(self, offset: int, position: int) -> None:
        """Record a batch after all others that gets no row."""
        if len(self._tail_offsets) < _TAIL_MAX:
            self._tail_offsets.append(offset - self._base_offset)
            self._tail_positions.append(position)

    def position_of_offset(self, offset: int) -> int:
        """Return a position at or before the batch that holds the offset, or the next one."""
        _, position = self._nearest(offset)
        return position

    def position_if_known(self, offset: int) -> int | None:
        """Return the position of a batch that starts at exactly this offset, if it is known."""
        known, position = self._nearest(offset)
        return position if known == offset - self._base_offset else None

    def _nearest(self, offset: int) -> tuple[int, int]:
        """Return the last known batch that starts at or before an offset; -1 and 0 if there is none."""
        delta = offset - self._base_offset
        offsets, positions = self._offsets, self._positions
        if self._tail_offsets and self._tail_offsets[0] <= delta:
            offsets, positions = self._tail_offsets, self._tail_positions
        number = bisect_right(offsets, delta) - 1
        return (offsets[number], positions[number]) if number >= 0 else (-1, 0)

    def boundary_at(self, position: int) -> int:
        """Return the last known start of a batch at or before a position."""
        number = bisect_right(self._positions, position) - 1
        return self._positions[number] if number >= 0 else 0

    def offset_beyond(self, offset: int, size: int) -> int | None:
        """Return an offset that `size` bytes from the batch at `offset` on do not reach; None if no row shows one."""
        # The batch lies before the next row.
        number = bisect_right(self._offsets, offset - self._base_offset)
        if number < len(self._positions):
            number = bisect_left(self._positions, self._positions[number] + size)
        return self._offsets[number] + self._base_offset if number < len(self._offsets) else None

    def position_of_time(self, timestamp: int) -> int:
        """Return a position before which no record has this timestamp or a later one."""
        number = bisect_left(self._times, timestamp) - 1
        return self._positions[number] if number >= 0 else 0

    def encode(self) -> bytes:
        """Return the columns as bytes, in the machine's byte order."""
        return b"".join(column.tobytes() for column in (self._offsets, self._positions, self._times, self._chains))

    @classmethod
    def decode(cls, base_offset: int, data: bytes | memoryview) -> SparseIndex:
        """Return the index that `encode` wrote."""
        index = cls(base_offset)
        count = len(data) // ROW_BYTES
        start = 0
        for column in (index._offsets, index._positions, index._times, index._chains):
            end = start + count * column.itemsize
            column.frombytes(data[start:end])
            start = end
        return index
