"""Each setting of a log changes what the log does, and wrong ones are refused, all at once.

`max_message_bytes` is enforced where batches are checked; `flush`, `flush_interval_ms` and `checkpoint_interval_ms` are
kept by the runtime that owns the log, and tested with it.
"""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from goqueue.errors import Invalid, TooLarge
from goqueue.log.batches import check_batches
from goqueue.log.log import Log
from goqueue.model.log_settings import Cleanup, LogSettings
from goqueue.records.reader import read_records
from goqueue.testing import SimDisk
from tests.unit.log.log_kit import (
    DAY_MS,
    NOW_MS,
    SETTINGS,
    append,
    append_segments,
    batch,
    compact,
    keyed,
    open_log,
    settle,
    stored_batches,
    values,
)

COMPACTING = replace(SETTINGS, cleanup=Cleanup.COMPACT, min_cleanable_dirty_ratio=0)


def keyed_log(settings: LogSettings) -> Log:
    """Return a durable log with a replaced record, a tombstone and its key's last value, in sealed segments."""
    log = open_log(SimDisk(0), settings)
    append_segments(log, [keyed((b"k", b"old"))], [keyed((b"k", b"new"))], [keyed((b"gone", None))], [])
    settle(log)
    return log


def test_segment_bytes_decides_when_a_segment_is_full() -> None:
    counts = []
    for size in (1024, 4096):
        log = open_log(SimDisk(0), replace(SETTINGS, segment_bytes=size))
        for _ in range(10):
            append(log, batch(b"x" * 400))
        assert all(segment.size <= size for segment in log.segments)
        counts.append(len(log.segments))
    assert counts[0] > counts[1]


def test_segment_ms_decides_when_a_segment_is_old_enough_to_be_sealed() -> None:
    for age, count in ((999, 1), (1000, 2)):
        log = open_log(SimDisk(0), replace(SETTINGS, segment_ms=1000))
        append(log, batch(b"v"))
        log.expire(NOW_MS + age)
        assert len(log.segments) == count


def test_index_interval_bytes_decides_how_dense_the_index_is() -> None:
    rows = []
    for interval in (0, 200, 100_000):
        log = open_log(SimDisk(0), replace(SETTINGS, index_interval_bytes=interval))
        for _ in range(9):
            append(log, batch(b"v"))
        assert log.segments.active.details is not None
        rows.append(len(log.segments.active.details.index))
    assert rows[0] == 9 > rows[1] > rows[2] == 1


def test_max_message_bytes_decides_which_batches_are_too_large() -> None:
    data = batch(b"x" * 100)
    check_batches(data, bytes_max=len(data))
    with pytest.raises(TooLarge):
        check_batches(data, bytes_max=len(data) - 1)


def test_cleanup_decides_whether_old_records_are_deleted_or_compacted() -> None:
    for cleanup, compacts, deletes in (
        (Cleanup.DELETE, False, True),
        (Cleanup.COMPACT, True, False),
        (Cleanup.COMPACT_DELETE, True, True),
    ):
        log = keyed_log(replace(COMPACTING, cleanup=cleanup, retention_ms=1000))
        assert compact(log, NOW_MS) == compacts
        log.expire(NOW_MS + 2000)
        assert (log.start_offset > 0) == deletes


def test_retention_ms_decides_how_old_records_may_grow() -> None:
    for retention, start in ((-1, 0), (5000, 0), (1000, 3)):
        log = keyed_log(replace(SETTINGS, retention_ms=retention))
        log.expire(NOW_MS + 3000)
        assert log.start_offset == start


def test_retention_bytes_decides_how_large_the_log_may_grow() -> None:
    for retention, start in ((-1, 0), (10_000, 0), (0, 3)):
        log = keyed_log(replace(SETTINGS, retention_bytes=retention))
        log.expire(NOW_MS)
        assert log.start_offset == start


def test_delete_retention_ms_decides_how_long_a_tombstone_stays() -> None:
    for retention, is_kept in ((DAY_MS, True), (1000, False)):
        log = keyed_log(replace(COMPACTING, delete_retention_ms=retention))
        assert compact(log, NOW_MS)
        append_segments(log, [], [keyed((b"other", b"v"))], [])
        settle(log)
        assert compact(log, NOW_MS + 2000)
        assert (None in values(log)) == is_kept


def test_min_compaction_lag_ms_protects_young_records() -> None:
    for lag, is_compacted in ((0, True), (1000, False)):
        assert compact(keyed_log(replace(COMPACTING, min_compaction_lag_ms=lag)), NOW_MS + 999) == is_compacted


def test_max_compaction_lag_ms_forces_a_pass_that_is_not_worth_it() -> None:
    lazy = replace(COMPACTING, min_cleanable_dirty_ratio=1.0)
    for lag, is_compacted in ((10_000, False), (1000, True)):
        log = keyed_log(replace(lazy, max_compaction_lag_ms=lag))
        assert compact(log, NOW_MS)
        append_segments(log, [], [keyed((b"other", b"v"))], [])
        settle(log)
        assert compact(log, NOW_MS + 5000) == is_compacted


def test_min_cleanable_dirty_ratio_decides_when_a_pass_is_worth_it() -> None:
    for ratio, is_compacted in ((0.1, True), (0.9, False)):
        log = keyed_log(replace(COMPACTING, min_cleanable_dirty_ratio=ratio))
        assert compact(log, NOW_MS)
        append_segments(log, [], [keyed((b"other", b"v"))], [])
        settle(log)
        assert compact(log, NOW_MS) == is_compacted


def test_every_wrong_setting_is_named_at_once() -> None:
    wrong = {
        "segment_bytes": 1023,
        "segment_ms": 0,
        "index_interval_bytes": -1,
        "max_message_bytes": -1,
        "flush_interval_ms": 0,
        "checkpoint_interval_ms": 0,
        "retention_ms": -2,
        "retention_bytes": -2,
        "delete_retention_ms": -1,
        "min_compaction_lag_ms": -1,
        "max_compaction_lag_ms": 0,
        "min_cleanable_dirty_ratio": 1.5,
        "producer_expiration_ms": 0,
    }
    with pytest.raises(Invalid) as caught:
        LogSettings(**wrong)  # type: ignore[arg-type]
    assert [name for name in wrong if name.replace("_", ".") not in str(caught.value)] == []
    checked_by_type = {"flush", "cleanup"}
    assert {field.name for field in fields(LogSettings)} == wrong.keys() | checked_by_type


def test_greatest_allowed_settings_are_accepted() -> None:
    LogSettings(segment_bytes=2**31 - 1, index_interval_bytes=2**31 - 1, max_message_bytes=2**31 - 1)
    LogSettings(segment_bytes=1024, index_interval_bytes=0, max_message_bytes=0, min_cleanable_dirty_ratio=1)


def test_settings_may_change_between_two_starts() -> None:
    disk = SimDisk(0)
    log = open_log(disk, SETTINGS)
    append_segments(log, [batch(b"a")], [batch(b"b")])
    log.close()
    log = open_log(disk, replace(SETTINGS, segment_bytes=4096, index_interval_bytes=0, cleanup=Cleanup.COMPACT))
    append(log, batch(b"c"))
    assert [record.value for _, data in stored_batches(log) for record in read_records(data)] == [b"a", b"b", b"c"]
