"""Finds whole batches by offset and records by time, without decoding more than it must.

A read is a `Span`: a stretch of one segment file that starts and ends at batches. The sparse index gives a place
within one interval of each end, and hopping over at most that many bytes of headers gives the exact one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from goqueue.errors import Corrupt, CorruptLog, GoQueueError
from goqueue.log.index import SparseIndex
from goqueue.log.scan import hop
from goqueue.log.segment import NO_TIMESTAMP, Segment
from goqueue.records.layout import HEADER_BYTES, BatchHeader, read_header
from goqueue.records.reader import verified
from goqueue.seams.disk import File

# One read takes in all headers between two rows of an index with the usual interval.
_HOP_WINDOW_BYTES = 4096 + HEADER_BYTES
_SCAN_WINDOW_BYTES = 64 * 1024
# From here on, a read may end a few batches early if that spares looking at any.
_LARGE_READ_BYTES = 64 * 1024


class Span(NamedTuple):
    """Bytes [start, end) of a segment: whole batches; `is_by_index` if they were not read yet."""

    start: int
    end: int
    is_by_index: bool = False


class TimedOffset(NamedTuple):
    """A record's offset and timestamp."""

    offset: int
    timestamp: int


def read(segment: Segment, index: SparseIndex, file: File, offset: int, *, bytes_max: int, end_offset: int) -> bytes:
    """Return the batches that `locate` finds; Corrupt if they are not what the index says."""
    span = locate(segment, index, file, offset, bytes_max=bytes_max, end_offset=end_offset)
    if span is None:
        return b""
    data = file.read_at(span.start, span.end - span.start)
    if span.is_by_index:
        first = read_header(data)
        if first.base_offset != offset or first.size_bytes > len(data):
            raise Corrupt(f"the index knows a batch at offset {offset}, but no such batch is there")
    return data


def locate(
    segment: Segment, index: SparseIndex, file: File, offset: int, *, bytes_max: int, end_offset: int
) -> Span | None:
    """Find the batches from the one that holds `offset` (or the next) on, as far as `bytes_max` allows.

    The first batch is given whole even if it is larger. No batch that reaches beyond `end_offset` is given. None if
    there is no such batch in this segment.
    """
    limit, limit_offset = segment.size, segment.next_offset
    damage = segment.damage_from(offset)
    if damage is not None:
        if damage.first_offset <= offset:
            raise CorruptLog(
                "the records here are damaged",
                path=str(segment.path),
                position=damage.position,
                offset=offset,
                resume_offset=damage.end_offset,
            )
        limit, limit_offset = damage.position, damage.first_offset
    known_start = index.position_if_known(offset) if bytes_max >= _LARGE_READ_BYTES else None
    if known_start is not None:
        span = _between_known(index, known_start, limit, limit_offset, bytes_max=bytes_max, end_offset=end_offset)
        if span is not None:
            return span
    # A row may lie before damage that ends before the offset; hopping must not start there.
    floor = max(index.position_of_offset(offset), segment.end_of_damage_before(offset))
    batches = hop(file, floor, limit, window_bytes=_HOP_WINDOW_BYTES)
    first = _first_batch(segment, batches, offset, limit_offset)
    if first is None or first[1].next_offset > end_offset:
        return None
    start, header = first
    limit = _end_by_size(index, file, start, header, min(limit, start + bytes_max), limit)
    if end_offset < segment.next_offset:
        limit = _end_by_offset(index, file, start, limit, end_offset)
    return Span(start, limit)


def first_at_time(
    segment: Segment, index: SparseIndex, file: File, timestamp: int, *, start_offset: int
) -> TimedOffset | None:
    """Find the first record from `start_offset` on whose timestamp is the given one or later."""
    for start, end in segment.good_stretches(index.position_of_time(timestamp)):
        for at, header in hop(file, start, end, window_bytes=_SCAN_WINDOW_BYTES):
            if header.max_timestamp < timestamp or header.last_offset < start_offset:
                continue
            for record in _open(file.read_at(at, header.size_bytes), header, start_offset):
                if record.timestamp >= timestamp and record.offset >= start_offset:
                    return record
    return None


def max_timestamp(segment: Segment, file: File, *, start_offset: int) -> int:
    """Return the greatest timestamp of a segment's records from an offset on, or NO_TIMESTAMP."""
    latest = NO_TIMESTAMP
    for start, end in segment.good_stretches(0):
        for at, header in hop(file, start, end, window_bytes=_SCAN_WINDOW_BYTES):
            if header.base_offset >= start_offset:
                latest = max(latest, header.max_timestamp)
            elif header.last_offset >= start_offset:
                records = _open(file.read_at(at, header.size_bytes), header, start_offset)
                times = (record.timestamp for record in records if record.offset >= start_offset)
                latest = max(times, default=latest)
    return latest


def _between_known(
    index: SparseIndex, start: int, limit: int, limit_offset: int, *, bytes_max: int, end_offset: int
) -> Span | None:
    """Return the range between two batches that the index knows, without reading it; None if it is empty.

    It may be a little less than what exists; the next read returns the rest.
    """
    end = limit if start + bytes_max >= limit else index.boundary_at(start + bytes_max)
    if end_offset < limit_offset:
        end = min(end, index.position_of_offset(end_offset))
    return Span(start, end, is_by_index=True) if end > start else None


def _open(batch: bytes, header: BatchHeader, start_offset: int) -> Iterator[TimedOffset]:
    """Yield where and when the records of a batch are from an offset on, decoded as they are asked for.

    Corrupt if the batch is damaged. If it is intact, and its records cannot be read, they are guessed from its header.
    """
    sound = verified(batch)
    try:
        for records in sound.open().slices(start_offset):
            for record in records:
                yield TimedOffset(record.offset, record.timestamp)
    except GoQueueError:
        yield TimedOffset(max(header.base_offset, start_offset), header.max_timestamp)


def _first_batch(
    segment: Segment, batches: Iterator[tuple[int, BatchHeader]], offset: int, end_offset: int
) -> tuple[int, BatchHeader] | None:
    """Return the first batch that reaches to an offset; Corrupt if the batches around it do not follow each other.

    Headers are not checked against their checksums here, so they are believed only if they fit together, including the
    one after the result. `end_offset` is where the batches end.
    """
    found: tuple[int, BatchHeader] | None = None
    due: int | None = None
    for at, header in batches:
        if due is not None:
            _require_order(segment, due, header.base_offset)
        if found is not None:
            return found
        if header.last_offset >= offset:
            if header.base_offset > offset:
                _require_order(segment, offset, header.base_offset)
            found = at, header
        due = header.next_offset
    if due is not None:
        _require_order(segment, due, end_offset)
    return found


def _require_order(segment: Segment, due: int, offset: int) -> None:
    if offset != due and not (segment.has_gaps and offset > due):
        raise Corrupt(f"offset {offset} follows where {due} is due")


def _end_by_size(index: SparseIndex, file: File, start: int, first: BatchHeader, target: int, limit: int) -> int:
    """Return the last batch border at or before `target`, but at least the end of the first batch."""
    if target >= limit:
        return limit
    end = start + first.size_bytes
    if end >= target:
        return end
    for at, header in hop(file, max(end, index.boundary_at(target)), limit, window_bytes=_HOP_WINDOW_BYTES):
        if at + header.size_bytes > target:
            return at
    return limit


def _end_by_offset(index: SparseIndex, file: File, start: int, limit: int, end_offset: int) -> int:
    """Return the end of the last batch before `limit` that does not reach beyond `end_offset`."""
    floor = max(start, min(index.position_of_offset(end_offset - 1), limit))
    for at, header in hop(file, floor, limit, window_bytes=_HOP_WINDOW_BYTES):
        if header.next_offset > end_offset:
            return at
    return limit
