"""Retention does what was forecast, when it was forecast."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePath

from hypothesis import given
from hypothesis import strategies as st

from goqueue.log.retention import can_reach, count_expired, forecast, ms_left_at
from goqueue.log.segment import NO_TIMESTAMP, Segment
from goqueue.model.log_settings import Cleanup, LogSettings

NOW_MS = 1_000_000
HOUR_MS = 3_600_000
BY_AGE = LogSettings(retention_ms=1000)
BY_SIZE = LogSettings(retention_ms=-1, retention_bytes=3000, segment_bytes=1024)


def segments_of(*made: tuple[int, int]) -> list[Segment]:
    """Return segments of ten offsets each, with their sizes and newest timestamps; the last one takes the appends."""
    return [
        Segment(10 * number, PurePath("x"), 10 * number + 10, size=size, first_timestamp=stamp, max_timestamp=stamp)
        for number, (size, stamp) in enumerate(made)
    ]


def count_at(segments: list[Segment], settings: LogSettings, now_ms: int) -> int:
    """Return how many sealed segments retention deletes at a moment."""
    return count_expired(segments[:-1], settings, now_ms, size_bytes=sum(each.size for each in segments))


STAMPS = st.one_of(st.just(NO_TIMESTAMP), st.integers(NOW_MS - 3000, NOW_MS + 3000))
SEGMENTS = st.lists(st.tuples(st.integers(1, 2000), STAMPS), min_size=1, max_size=6).map(
    lambda made: segments_of(*made)
)


@given(SEGMENTS, st.integers(0, 2000))
def test_a_segment_leaves_by_age_at_the_moment_that_was_forecast(segments: list[Segment], retention_ms: int) -> None:
    settings = replace(BY_AGE, retention_ms=retention_ms)
    leaving = list(forecast(segments, settings, NOW_MS))
    for number, each in enumerate(leaving[: len(segments) - 1]):
        assert each.segment is segments[number]
        assert count_at(segments, settings, NOW_MS + each.left_ms + 1) > number
        if each.left_ms:
            assert count_at(segments, settings, NOW_MS + each.left_ms) <= number
    assert count_at(segments, settings, 2**60) == min(len(leaving), len(segments) - 1)


@given(SEGMENTS, st.integers(0, 8000), st.sampled_from([-1, 1000]))
def test_what_is_deleted_now_was_forecast_for_now(
    segments: list[Segment], retention_bytes: int, retention_ms: int
) -> None:
    settings = replace(BY_AGE, retention_ms=retention_ms, retention_bytes=retention_bytes)
    leaving = list(forecast(segments, settings, NOW_MS))
    due = [each for each in leaving[: len(segments) - 1] if each.left_ms == 0]
    assert len(due) >= count_at(segments, settings, NOW_MS)
    assert len(due) <= count_at(segments, settings, NOW_MS + 1)
    assert [each.left_ms for each in leaving] == sorted(each.left_ms for each in leaving)


def test_by_size_the_pace_of_the_last_segments_tells_when() -> None:
    segments = segments_of((1000, NOW_MS - 30_000), (1000, NOW_MS - 20_000), (1000, NOW_MS - 20_000))
    # 2000 bytes came in the last 20 s, and lie behind the first segment; another 1000 make it leave.
    assert ms_left_at(forecast(segments, BY_SIZE, NOW_MS), 0) == 10_000
    assert ms_left_at(forecast(segments, BY_SIZE, NOW_MS), 10) == 20_000
    assert ms_left_at(forecast(segments, BY_SIZE, NOW_MS), 20) == 30_240, "24 more fill the segment first"
    later = NOW_MS + 20_000
    assert ms_left_at(forecast(segments, BY_SIZE, later), 0) == 20_000, "a log that grows no more has more time"


def test_whatever_comes_first_decides() -> None:
    both = replace(BY_SIZE, retention_ms=HOUR_MS)
    segments = segments_of((1000, NOW_MS - HOUR_MS), (1000, NOW_MS - 20_000), (1000, NOW_MS - 20_000))
    assert ms_left_at(forecast(segments, both, NOW_MS), 0) == 0
    assert ms_left_at(forecast(segments, both, NOW_MS), 10) == 20_000


def test_what_is_kept_for_ever_has_no_end() -> None:
    segments = segments_of((1000, NOW_MS), (1000, NOW_MS))
    for settings in (replace(BY_AGE, retention_ms=-1), replace(BY_AGE, cleanup=Cleanup.COMPACT)):
        assert not can_reach(settings)
        assert ms_left_at(forecast(segments, settings, NOW_MS), 0) is None
    unstamped = segments_of((1000, NO_TIMESTAMP), (1000, NOW_MS))
    assert ms_left_at(forecast(unstamped, BY_AGE, NOW_MS), 10) is None, "nothing leaves before what came earlier"
