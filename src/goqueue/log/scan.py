"""Reads a segment from some position on, checks every batch, and gathers what is known about it.

Recovery scans what a crash may have touched, `goqueue log verify` scans everything. A scan never changes a file: it
returns what it found, and the caller decides what to do about it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from goqueue.errors import CorruptBatch, GoQueueError
from goqueue.log.segment import OFFSETS_PER_SEGMENT_MAX, Segment
from goqueue.machines.producer import ProducerTable
from goqueue.records.control import read_marker
from goqueue.records.layout import HEADER_BYTES, BatchHeader, read_header, validate
from goqueue.seams.disk import File

# A batch is never larger than this, so a damaged length cannot make a scan allocate the moon.
BATCH_BYTES_MAX = 128 * 1024 * 1024
_CHUNK_BYTES = 1024 * 1024
_MAGIC_POSITION = 16
_MAGIC = b"\x02"

UNKNOWN_END = 2**63 - 1


class Found(NamedTuple):
    """One good batch and its bytes."""

    header: BatchHeader
    batch: memoryview


@dataclass(slots=True)
class Fault:
    """The bytes at `position` are no good batch; `reason` says why."""

    position: int
    reason: str


class Scanner:
    """Looks at one file, up to byte `end`, through a window."""

    def __init__(self, file: File, end: int) -> None:
        self._file = file
        self._end = end
        self._window = memoryview(b"")
        self._window_start = 0

    def batch_at(self, position: int, *, offset_due: int, offset_end: int) -> Found | Fault:
        """Return the batch at a position, which must hold offsets from `offset_due` on and before `offset_end`.

        Offsets may be missing in between, since compaction leaves such gaps; but the offset is outside of the
        batch's checksum, so a gap is believed only if what follows does not contradict it.
        """
        try:
            header = read_header(self._bytes(position, HEADER_BYTES))
            if header.size_bytes > BATCH_BYTES_MAX:
                return Fault(position, f"a batch claims {header.size_bytes} bytes")
            batch = self._bytes(position, header.size_bytes)
            validate(batch)
        except GoQueueError as error:
            is_blank = not any(self._bytes(position, HEADER_BYTES))
            return Fault(position, "zeros in place of a batch" if is_blank else error.message)
        if header.next_offset > offset_end:
            return Fault(position, f"a batch reaches to offset {header.last_offset}, but {offset_end} lies elsewhere")
        is_gap = offset_due < header.base_offset and header.next_offset <= self._offset_after(batch, position)
        if header.base_offset == offset_due or is_gap:
            return Found(header, batch)
        return Fault(position, f"a batch says offset {header.base_offset} where {offset_due} is due")

    def batch_after(self, position: int, *, offset_due: int, offset_end: int) -> tuple[int, int] | None:
        """Return position and base offset of the next good batch after a fault."""
        start = position + 1
        while start + HEADER_BYTES <= self._end:
            window = self._bytes(start, _CHUNK_BYTES)
            hit = bytes(window).find(_MAGIC, _MAGIC_POSITION)
            if hit < 0:
                start += max(1, len(window) - _MAGIC_POSITION)
                continue
            start += hit - _MAGIC_POSITION
            found = self.batch_at(start, offset_due=offset_due, offset_end=offset_end)
            if isinstance(found, Found):
                return start, found.header.base_offset
            start += 1
        return None

    def _offset_after(self, batch: memoryview, position: int) -> int:
        try:
            return read_header(self._bytes(position + len(batch), HEADER_BYTES)).base_offset
        except GoQueueError:
            return UNKNOWN_END

    def _bytes(self, position: int, size: int) -> memoryview:
        start = position - self._window_start
        if start < 0 or start + size > len(self._window):
            size_read = min(max(size, _CHUNK_BYTES), max(0, self._end - position))
            self._window = memoryview(self._file.read_at(position, size_read))
            self._window_start = position
            start = 0
        return self._window[start : start + size]


def gather(
    segment: Segment,
    producers: ProducerTable,
    scanner: Scanner,
    *,
    end: int,
    index_interval_bytes: int,
    offset_end: int = UNKNOWN_END,
    stop_offset: int = UNKNOWN_END,
) -> Fault | None:
    """Extend the knowledge about a segment by all good batches before byte `end`; return the fault that stopped it.

    A batch that reaches beyond `offset_end` is a fault, one that reaches beyond `stop_offset` ends the walk.
    """
    assert segment.details is not None
    offset_end = min(offset_end, segment.base_offset + OFFSETS_PER_SEGMENT_MAX)
    while segment.size < end:
        found = scanner.batch_at(segment.size, offset_due=segment.next_offset, offset_end=offset_end)
        if isinstance(found, Fault):
            return found
        if found.header.next_offset > stop_offset:
            return None
        try:
            marker = read_marker(found.batch).control_type if found.header.is_control else None
        except GoQueueError as error:
            return Fault(segment.size, error.message)
        segment.extend(found.header, found.batch, index_interval_bytes=index_interval_bytes)
        aborted = producers.apply(found.header, marker)
        if aborted is not None:
            segment.details.aborted.append(aborted)
    return None


def hop(file: File, start: int, end: int, *, window_bytes: int) -> Iterator[tuple[int, BatchHeader]]:
    """Yield position and header of each batch between two borders, without checking the records.

    CorruptBatch where the headers do not lead from one border to the other.
    """
    window = b""
    window_start = start
    position = start
    while position + HEADER_BYTES <= end:
        if position + HEADER_BYTES > window_start + len(window):
            window = file.read_at(position, min(window_bytes, end - position))
            window_start = position
        header = read_header(window, position - window_start)
        yield position, header
        position += header.size_bytes
    if position != end:
        raise CorruptBatch(f"the batches before byte {end} do not end there")
