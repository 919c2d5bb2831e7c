"""Old segments leave by age and by size, oldest first, and never before they are durable."""

from __future__ import annotations

from dataclasses import replace

import pytest

from goqueue.log import names
from goqueue.log.events import SegmentsExpired
from goqueue.log.log import Log
from goqueue.model.log_settings import Cleanup
from goqueue.testing import Fate, RecordingSink, SimDisk
from tests.unit.log.log_kit import (
    NOW_MS,
    SETTINGS,
    append,
    append_segments,
    batch,
    files,
    flush,
    open_log,
    reopen,
    settle,
    values,
)

HOUR_MS = 3_600_000
BY_TIME = replace(SETTINGS, retention_ms=HOUR_MS)
FUTURE_MS = 2**60


def log_of_ages(disk: SimDisk, ages_ms: list[int]) -> Log:
    """Return a durable log with one record in each segment, as old as given, and a last segment with a new one."""
    log = open_log(disk, BY_TIME)
    append_segments(log, *([batch(b"v", timestamp=NOW_MS - age)] for age in [*ages_ms, 0]))
    settle(log)
    return log


def test_segments_whose_records_are_all_too_old_leave() -> None:
    disk = SimDisk(0)
    log = log_of_ages(disk, [3 * HOUR_MS, 2 * HOUR_MS, HOUR_MS - 1])
    log.expire(NOW_MS)
    assert log.start_offset == 2
    settle(log)
    assert files(disk, names.LOG) == [f"{base:020d}.log" for base in (2, 3)]
    assert reopen(disk, BY_TIME).start_offset == 2


def test_expiry_is_reported_with_what_left() -> None:
    disk = SimDisk(0)
    log_of_ages(disk, [2 * HOUR_MS, 2 * HOUR_MS]).close()
    sink = RecordingSink()
    log = open_log(disk, BY_TIME, sink)
    size = log.segments.size_bytes
    log.expire(NOW_MS)
    assert [(event.segments, event.start_offset) for event in sink.of(SegmentsExpired)] == [(2, 2)]
    assert sink.of(SegmentsExpired)[0].bytes_removed == size - log.segments.size_bytes


def test_record_exactly_as_old_as_allowed_stays() -> None:
    log = log_of_ages(SimDisk(0), [HOUR_MS])
    log.expire(NOW_MS)
    assert log.start_offset == 0
    log.expire(NOW_MS + 1)
    assert log.start_offset == 1


def test_young_segment_protects_the_older_ones_behind_it() -> None:
    log = log_of_ages(SimDisk(0), [HOUR_MS // 2, 5 * HOUR_MS])
    log.expire(NOW_MS)
    assert log.start_offset == 0


def test_newest_record_of_a_segment_decides_about_it() -> None:
    log = open_log(SimDisk(0), BY_TIME)
    append_segments(
        log, [batch(b"young", timestamp=NOW_MS), batch(b"old", timestamp=0)], [batch(b"v", timestamp=NOW_MS)]
    )
    settle(log)
    log.expire(NOW_MS)
    assert log.start_offset == 0


def test_timestamp_of_the_far_future_keeps_its_segment() -> None:
    log = log_of_ages(SimDisk(0), [NOW_MS - FUTURE_MS, 5 * HOUR_MS])
    log.expire(NOW_MS)
    assert log.start_offset == 0


def test_records_without_a_timestamp_never_grow_old() -> None:
    log = open_log(SimDisk(0), BY_TIME)
    append_segments(log, [batch(b"v", timestamp=-1)], [batch(b"w", timestamp=-1)])
    settle(log)
    log.expire(FUTURE_MS)
    assert (log.start_offset, len(log.segments)) == (0, 2)


def test_records_without_a_limit_stay() -> None:
    log = open_log(SimDisk(0), replace(SETTINGS, retention_ms=-1, retention_bytes=-1))
    append_segments(log, [batch(b"v", timestamp=0)], [batch(b"w", timestamp=0)])
    settle(log)
    log.expire(FUTURE_MS)
    assert log.start_offset == 0


def test_expired_active_segment_is_sealed_and_leaves_once_it_is_durable() -> None:
    disk = SimDisk(0)
    log = open_log(disk, BY_TIME)
    append(log, batch(b"v", timestamp=NOW_MS))
    log.expire(NOW_MS + 2 * HOUR_MS)
    assert (log.start_offset, len(log.segments)) == (0, 2)
    settle(log)
    log.expire(NOW_MS + 2 * HOUR_MS)
    assert (log.start_offset, log.end_offset) == (1, 1)
    settle(log)
    settle(log)
    assert files(disk, names.LOG) == [f"{1:020d}.log"]
    assert append(log, batch(b"w"))[0].base_offset == 1
    assert values(reopen(disk, BY_TIME)) == [b"w"]


@pytest.mark.parametrize("limit_segments", [0, 1, 2, 3, 4])
def test_oldest_segments_leave_until_the_log_fits_its_size(limit_segments: int) -> None:
    disk = SimDisk(0)
    log = open_log(disk)
    append_segments(log, *([batch(b"v", timestamp=-1)] for _ in range(4)))
    settle(log)
    size = log.segments.first.size
    log.close()
    log = open_log(disk, replace(SETTINGS, retention_bytes=limit_segments * size))
    log.expire(NOW_MS)
    # The segment that takes the appends stays in any case.
    assert len(log.segments) == max(1, limit_segments)
    assert log.segments.size_bytes == max(1, limit_segments) * size


def test_log_is_never_made_smaller_than_its_limit() -> None:
    disk = SimDisk(0)
    log = open_log(disk)
    append_segments(log, *([batch(b"v")] for _ in range(4)))
    settle(log)
    size = log.segments.first.size
    log.close()
    log = open_log(disk, replace(SETTINGS, retention_bytes=2 * size + 1))
    log.expire(NOW_MS)
    assert len(log.segments) == 3


def test_what_is_not_durable_does_not_expire() -> None:
    disk = SimDisk(0)
    log = open_log(disk, BY_TIME)
    append_segments(log, *([batch(b"v", timestamp=0)] for _ in range(3)))
    log.expire(NOW_MS)
    assert (log.start_offset, log.end_offset) == (0, 3)
    flush(log)
    log.expire(NOW_MS)
    assert log.start_offset == 3


def test_what_readers_may_not_see_yet_does_not_expire() -> None:
    log = log_of_ages(SimDisk(0), [5 * HOUR_MS, 4 * HOUR_MS, 3 * HOUR_MS])
    log.expire(NOW_MS, end_offset=2)
    assert log.start_offset == 2


def test_expired_segments_come_back_after_a_crash_before_the_flush_and_expire_again() -> None:
    disk = SimDisk(0)
    log = log_of_ages(disk, [5 * HOUR_MS, 4 * HOUR_MS])
    log.expire(NOW_MS)
    disk.crash(Fate.NONE)
    log = open_log(disk, BY_TIME)
    assert log.start_offset == 0
    log.expire(NOW_MS)
    assert log.start_offset == 2


def test_compacted_log_does_not_expire_unless_it_deletes_too() -> None:
    for cleanup, start in ((Cleanup.COMPACT, 0), (Cleanup.COMPACT_DELETE, 2), (Cleanup.DELETE, 2)):
        disk = SimDisk(0)
        log_of_ages(disk, [5 * HOUR_MS, 4 * HOUR_MS]).close()
        log = open_log(disk, replace(BY_TIME, cleanup=cleanup))
        log.expire(NOW_MS)
        assert log.start_offset == start
