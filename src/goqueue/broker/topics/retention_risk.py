"""How a reader stands with retention: whether what it reads next will be deleted soon, is held back, or is gone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import NamedTuple

from goqueue.log.retention import Leaving, forecast, ms_left_at
from goqueue.model.groups import Danger
from goqueue.model.log_settings import LogSettings
from goqueue.model.topic_settings import UNLIMITED
from goqueue.runtime.partition import Partition

_WARN_WITHIN_MS = 3_600_000
_WARN_FRACTION = 10


class Risk(NamedTuple):
    """How a reader stands with retention.

    `left_ms` is how long the message that it reads next is expected to stay; None if it has read everything, or if
    nothing is known to delete it. `lost` is how many offsets are gone that it has not read: by retention, or because
    a user deleted records.
    """

    danger: Danger = Danger.NONE
    left_ms: int | None = None
    lost: int = 0


def warn_within_ms(settings: LogSettings) -> int:
    """Return what is soon: an hour, or a tenth of the time that records are kept, if that is less."""
    if settings.retention_ms == UNLIMITED:
        return _WARN_WITHIN_MS
    return min(_WARN_WITHIN_MS, settings.retention_ms // _WARN_FRACTION)


def leaving_of(partition: Partition, now_ms: int) -> Iterator[Leaving]:
    """Yield the segments of a partition that are expected to leave, and when."""
    return forecast(list(partition.log.segments), partition.log.settings, now_ms)


def leaving_soon(partition: Partition, now_ms: int) -> list[Leaving]:
    """Return the segments of a partition that are expected to leave soon."""
    within_ms = warn_within_ms(partition.log.settings)
    if partition.log.is_unopened and partition.log.due_ms() > now_ms + within_ms:
        return []
    return list(takewhile(lambda each: each.left_ms <= within_ms, leaving_of(partition, now_ms)))


def risk_of(partition: Partition, offset: int, leaving: Iterable[Leaving], expires_before: int | None) -> Risk:
    """Return how a reader stands that goes on at an offset; what lies from `expires_before` on is held back."""
    start = partition.log.start_offset
    lost = max(start - offset, 0)
    position = max(offset, start)
    left_ms = ms_left_at(leaving, position) if position < partition.high_watermark else None
    if lost:
        return Risk(Danger.LOST, left_ms, lost)
    if left_ms is None or left_ms > warn_within_ms(partition.log.settings):
        return Risk(left_ms=left_ms)
    is_held = left_ms == 0 and expires_before is not None and expires_before <= position
    return Risk(Danger.HELD if is_held else Danger.NEAR, left_ms)
