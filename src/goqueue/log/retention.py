"""Retention: which segments have expired, which ones an unread group keeps, and when the next ones will expire.

Pure choices, no I/O. Only whole segments leave, oldest first, and the choice stops at the first one that must stay. A
segment's age is that of its newest record by the records' own timestamps; records without a timestamp never grow old.

*Held records.* `limit_retention` keeps unread records beyond retention. It decides for all partitions of a topic
together, since they share one budget of bytes. Records that all groups have read leave as if nothing was held. The rest
stays as long as it fits into the budget. If it does not fit, segments leave unread until the rest fits: those with the
oldest records first, and in each partition in their order.

*Forecast.* By age, a segment leaves when its newest record has grown old, so for the segment that takes the appends the
moment may become later. By size, it leaves when enough was written after it, at the pace at which the last two segments
have grown until now.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heapreplace
from typing import NamedTuple

from goqueue.log.segment import NO_TIMESTAMP, Segment
from goqueue.log.segments import Segments
from goqueue.model.log_settings import LogSettings
from goqueue.model.topic_settings import UNLIMITED


def is_due_to_roll(active: Segment, settings: LogSettings, now_ms: int) -> bool:
    """Return whether the segment that takes the appends is old enough to be sealed, so that it can expire one day."""
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


class DueSegment(NamedTuple):
    """A segment that retention would delete now."""

    next_offset: int
    size_bytes: int
    max_timestamp: int


class DuePartition(NamedTuple):
    """Segments that retention would delete from a partition, oldest first, and the first offset that is not read.

    Records after `first_unread` are not considered: they stay for now, whatever retention says.
    """

    segments: Sequence[DueSegment]
    first_unread: int


class RetentionLimit(NamedTuple):
    """Records of a partition before `expires_before` may leave.

    `held_bytes` is how much stays beyond retention, `unread_bytes` how much of what may leave has not been read.
    """

    expires_before: int
    held_bytes: int
    unread_bytes: int


def limit_retention(partitions: Sequence[DuePartition], budget_bytes: int) -> list[RetentionLimit]:
    """Return what may leave of each partition of a topic, so that all held records fit into a budget."""
    unread = [
        [segment for segment in partition.segments if segment.next_offset > partition.first_unread]
        for partition in partitions
    ]
    given_up = [0] * len(partitions)
    if budget_bytes != UNLIMITED:
        _give_up(unread, given_up, budget_bytes)
    verdicts = []
    for partition, segments, count in zip(partitions, unread, given_up, strict=True):
        gone, held = segments[:count], segments[count:]
        expires_before = max([partition.first_unread, *(segment.next_offset for segment in gone)])
        verdicts.append(RetentionLimit(expires_before, _size(held), _size(gone)))
    return verdicts


def _give_up(unread: Sequence[Sequence[DueSegment]], given_up: list[int], budget_bytes: int) -> None:
    """Count up in `given_up` how many segments of each partition leave unread."""
    held_bytes = sum(map(_size, unread))
    oldest = [(segments[0].max_timestamp, number) for number, segments in enumerate(unread) if segments]
    heapify(oldest)
    while held_bytes > budget_bytes:
        _, number = oldest[0]
        held_bytes -= unread[number][given_up[number]].size_bytes
        given_up[number] += 1
        if given_up[number] < len(unread[number]):
            heapreplace(oldest, (unread[number][given_up[number]].max_timestamp, number))
        else:
            heappop(oldest)


def _size(segments: Sequence[DueSegment]) -> int:
    return sum(segment.size_bytes for segment in segments)


# A pace is not derived from less time than this.
_PACE_MS_MIN = 1000


class Leaving(NamedTuple):
    """A segment, and how long it is expected to stay; 0 if it is due to leave now."""

    segment: Segment
    left_ms: int


def can_reach(settings: LogSettings) -> bool:
    """Return whether retention deletes anything at all with such settings."""
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
