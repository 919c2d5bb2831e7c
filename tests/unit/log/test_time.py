"""A record is found by its time, however the timestamps are ordered and wherever the record lies."""

from __future__ import annotations

from dataclasses import replace

import pytest

from goqueue.log.log import Log
from goqueue.log.reader import TimedOffset
from goqueue.records.builder import NewRecord, build_batch
from goqueue.records.compression import Codec
from goqueue.testing import SimDisk
from tests.unit.log.log_kit import SETTINGS, append, append_segments, batch, open_log, reopen, settle

ORDERS = {
    "ascending": [10, 20, 30, 40, 50, 60, 70, 80],
    "descending": [80, 70, 60, 50, 40, 30, 20, 10],
    "equal": [50, 50, 50, 50, 50, 50, 50, 50],
    "mixed": [40, 10, 80, 20, 80, 30, 70, 60],
    "partly absent": [-1, 30, -1, 10, -1, 50, -1, -1],
    "absent": [-1, -1, -1, -1, -1, -1, -1, -1],
    "of the far future": [10, 2**60, 20, 30, 2**60, 40, 50, 60],
}


def log_of(disk: SimDisk, times: list[int], *, codec: Codec, segments: int, interval: int) -> Log:
    """Return a log with two records in each batch, its batches spread over segments."""
    log = open_log(disk, replace(SETTINGS, index_interval_bytes=interval))
    batches = [
        build_batch([NewRecord(time, None, b"v") for time in times[at : at + 2]], codec=codec)
        for at in range(0, len(times), 2)
    ]
    share = len(batches) // segments
    append_segments(log, *(batches[at : at + share] for at in range(0, len(batches), share)))
    return log


def first_at(times: list[int], timestamp: int, start: int = 0) -> TimedOffset | None:
    """Return the answer that looking at all records gives."""
    return next((TimedOffset(at, time) for at, time in enumerate(times) if time >= timestamp and at >= start), None)


def latest(times: list[int], start: int = 0) -> TimedOffset | None:
    """Return the first record with the greatest timestamp, found by looking at all records."""
    greatest = max(times[start:], default=-1)
    return None if greatest == -1 else first_at(times, greatest, start)


@pytest.mark.parametrize("interval", [0, 2**31 - 1])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
@pytest.mark.parametrize("segments", [1, 2, 4])
@pytest.mark.parametrize("order", ORDERS)
def test_every_time_finds_the_first_record_at_or_after_it(
    order: str, segments: int, codec: Codec, interval: int
) -> None:
    times = ORDERS[order]
    disk = SimDisk(0)
    log = log_of(disk, times, codec=codec, segments=segments, interval=interval)
    for _ in range(3):
        for timestamp in sorted({-1, 0} | {time + step for time in times for step in (-1, 0, 1)}):
            if timestamp >= -1:
                assert log.offset_for_time(timestamp) == first_at(times, timestamp), timestamp
        assert log.offset_of_max_timestamp() == latest(times)
        settle(log)
        log = reopen(disk, log.settings)


@pytest.mark.parametrize("segments", [1, 2, 4])
@pytest.mark.parametrize("order", ORDERS)
def test_deleted_records_are_never_found_by_time(order: str, segments: int) -> None:
    times = ORDERS[order]
    for start in range(len(times) + 1):
        log = log_of(SimDisk(0), times, codec=Codec.NONE, segments=segments, interval=0)
        log.delete_before(start)
        for timestamp in sorted({0} | {time + step for time in times for step in (0, 1)}):
            assert log.offset_for_time(timestamp) == first_at(times, timestamp, start), (start, timestamp)


def test_greatest_timestamp_is_that_of_a_record_still_held() -> None:
    log = open_log(SimDisk(0))
    append(log, batch(b"late", timestamp=100), batch(b"early", timestamp=50))
    log.delete_before(1)
    assert log.offset_of_max_timestamp() == TimedOffset(1, 50)


def test_empty_log_has_no_record_at_any_time() -> None:
    log = open_log(SimDisk(0))
    assert log.offset_for_time(-1) is None
    assert log.offset_for_time(0) is None
    assert log.offset_of_max_timestamp() is None


def test_time_is_found_in_the_segment_that_has_it_not_in_the_oldest() -> None:
    log = open_log(SimDisk(0))
    append_segments(log, *([batch(b"v", timestamp=1000 * number)] for number in range(1, 6)))
    for number in range(1, 6):
        assert log.offset_for_time(1000 * number) == TimedOffset(number - 1, 1000 * number)


def test_appends_are_found_by_time_at_once() -> None:
    log = open_log(SimDisk(0))
    append(log, batch(b"a", timestamp=10))
    assert log.offset_for_time(11) is None
    append(log, batch(b"b", timestamp=11))
    assert log.offset_for_time(11) == TimedOffset(1, 11)
