"""When retention will reach records: a forecast from what is known of segments. Pure, like `retention`.

A segment leaves with all its records, and not before the older ones. By age that is when its newest record has grown
old, so for the segment that takes the appends it may become later. By size it is when enough was written behind it, at
the pace at which the last two segments have grown until now.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from goqueue.log.retention import UNLIMITED
from goqueue.log.segment import NO_TIMESTAMP, Segment
from goqueue.model.log_settings import LogSettings

# A pace is not told from less than this.
_PACE_MS_MIN = 1000


class Leaving(NamedTuple):
    """A segment, and how long it is expected to stay; 0 if it is due to leave now."""

    segment: Segment
    left_ms: int


def can_reach(settings: LogSettings) -> bool:
    """Tell whether retention deletes anything at all with such settings."""
    return settings.deletes and (settings.retention_ms != UNLIMITED or settings.retention_bytes != UNLIMITED)


def forecast(segments: Sequence[Segment], settings: LogSettings, now_ms: int) -> Iterator[Leaving]:
    """Yield the segments of a log in the order in which they leave, up to the first one that is to stay."""
    if not can_reach(settings):
        return
    is_by_size = settings.retention_bytes != UNLIMITED
    behind_bytes = sum(segment.size for segment in segments) if is_by_size else 0
    pace = _bytes_per_ms(segments, now_ms) if is_by_size else 0.0
    latest_ms = 0
    for segment in segments:
        behind_bytes -= segment.size
        reasons = [_left_by_age(segment, settings, now_ms)]
        if is_by_size:
            missing = settings.retention_bytes - behind_bytes
            if segment is segments[-1]:
                # Nothing of it leaves before it is full.
                missing += max(settings.segment_bytes - segment.size, 0)
            reasons.append(_left_by_size(missing, pace))
        known = [left_ms for left_ms in reasons if left_ms is not None]
        if not known:
            return
        latest_ms = max(latest_ms, min(known))
        yield Leaving(segment, latest_ms)


def ms_left_at(leaving: Iterable[Leaving], offset: int) -> int | None:
    """Return how long the record at an offset is expected to stay; None if nothing is known to end that."""
    return next((each.left_ms for each in leaving if each.segment.next_offset > offset), None)


def _left_by_age(segment: Segment, settings: LogSettings, now_ms: int) -> int | None:
    if settings.retention_ms == UNLIMITED or segment.max_timestamp == NO_TIMESTAMP:
        return None
    return max(segment.max_timestamp + settings.retention_ms - now_ms, 0)


def _left_by_size(missing_bytes: int, pace: float) -> int | None:
    if missing_bytes <= 0:
        return 0
    return round(missing_bytes / pace) if pace > 0 else None


def _bytes_per_ms(segments: Sequence[Segment], now_ms: int) -> float:
    recent = segments[-2:]
    began_ms = recent[0].first_timestamp
    if began_ms == NO_TIMESTAMP:
        return 0.0
    return sum(segment.size for segment in recent) / max(now_ms - began_ms, _PACE_MS_MIN)
