"""Which segments have had their time: pure choice, no I/O.

Only whole segments leave, oldest first, and the choice stops at the first one that must stay. A segment's age is
that of its newest record by the records' own timestamps; records without a timestamp never grow old.
"""

from __future__ import annotations

from collections.abc import Sequence

from goqueue.log.segment import NO_TIMESTAMP, Segment
from goqueue.log.segments import Segments
from goqueue.model.log_settings import LogSettings

UNLIMITED = -1


def is_due_to_roll(active: Segment, settings: LogSettings, now_ms: int) -> bool:
    """Tell whether the segment that takes the appends is old enough to be sealed, so that it can expire one day."""
    if active.size == 0 or active.first_timestamp == NO_TIMESTAMP:
        return False
    is_old = now_ms - active.first_timestamp >= settings.segment_ms
    return is_old or (settings.deletes and _is_expired(active, settings, now_ms))


def count_expired(
    sealed: Sequence[Segment], settings: LogSettings, now_ms: int, *, size_bytes: int, is_time_due: bool = True
) -> int:
    """Return how many of the oldest segments have expired; `size_bytes` is the size of the whole log."""
    if not settings.deletes:
        return 0
    count = 0
    for segment in sealed:
        is_surplus = settings.retention_bytes != UNLIMITED and size_bytes - segment.size >= settings.retention_bytes
        if not is_surplus and not (is_time_due and _is_expired(segment, settings, now_ms)):
            break
        size_bytes -= segment.size
        count += 1
    return count


def expired(
    segments: Segments, settings: LogSettings, now_ms: int, *, end_offset: int, is_time_due: bool = True
) -> Sequence[Segment]:
    """Return the sealed segments up to an offset that have expired, oldest first; by size only unless `is_time_due`."""
    sealed = [segment for segment in segments.sealed if segment.next_offset <= end_offset]
    count = count_expired(sealed, settings, now_ms, size_bytes=segments.size_bytes, is_time_due=is_time_due)
    return sealed[:count]


def _is_expired(segment: Segment, settings: LogSettings, now_ms: int) -> bool:
    if settings.retention_ms == UNLIMITED or segment.max_timestamp == NO_TIMESTAMP:
        return False
    return segment.max_timestamp < now_ms - settings.retention_ms
