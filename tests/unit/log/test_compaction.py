"""Compaction keeps the last record of each key, and changes nothing else: the table of its module, row by row."""

from __future__ import annotations

import errno
from contextlib import suppress
from dataclasses import replace

import pytest

from goqueue.errors import GoQueueError
from goqueue.log import names
from goqueue.log.compaction import Replacement
from goqueue.log.events import Compacted
from goqueue.log.log import Log
from goqueue.model.log_settings import Cleanup
from goqueue.records.builder import NewRecord, build_batch
from goqueue.records.compression import Codec
from goqueue.records.reader import Record
from goqueue.testing import RecordingSink, SimDisk
from tests.unit.log.log_kit import (
    DAY_MS,
    DIRECTORY,
    NOW_MS,
    SETTINGS,
    append,
    append_segments,
    batch,
    compact,
    files,
    flush,
    keyed,
    open_log,
    readable,
    remove_files,
    reopen,
    settle,
    upkeep,
    values,
)

COMPACTING = replace(SETTINGS, cleanup=Cleanup.COMPACT, min_cleanable_dirty_ratio=0, delete_retention_ms=DAY_MS)


def log_of(disk: SimDisk, *segments: list[bytearray], sink: RecordingSink | None = None) -> Log:
    """Return a durable log of the segments, all sealed."""
    log = open_log(disk, COMPACTING, sink)
    append_segments(log, *segments, [])
    settle(log)
    return log


def without_indexes(disk: SimDisk) -> Log:
    """Restart with nothing but the batches to go by."""
    disk.kill()
    remove_files(disk, names.INDEX)
    return open_log(disk, COMPACTING)


def test_record_that_a_later_one_replaces_goes() -> None:
    disk = SimDisk(0)
    log = log_of(disk, [keyed((b"k", b"1"), (b"other", b"2"))], [keyed((b"k", b"3"))])
    assert compact(log, NOW_MS)
    assert values(log) == [b"2", b"3"]
    assert values(reopen(disk, COMPACTING)) == [b"2", b"3"]
    assert values(without_indexes(disk)) == [b"2", b"3"]


def test_offsets_order_timestamps_and_headers_never_change() -> None:
    disk = SimDisk(0)
    log = open_log(disk, COMPACTING)
    records = [NewRecord(NOW_MS - at, b"k%d" % (at % 4), b"%d" % at, [("h", b"%d" % at)]) for at in range(12)]
    codecs = [Codec.NONE, Codec.LZ4, Codec.ZSTD]
    batches = [build_batch(records[at : at + 2], codec=codecs[at % 3]) for at in range(0, 12, 2)]
    append_segments(log, batches[:2], batches[2:4], batches[4:], [])
    settle(log)
    before = readable(log)
    assert compact(log, NOW_MS)
    after = readable(log)
    assert list(after) == [8, 9, 10, 11]
    assert after == {offset: before[offset] for offset in after}
    assert (log.start_offset, log.end_offset) == (0, 12)


def test_records_without_a_key_stay() -> None:
    log = log_of(SimDisk(0), [keyed((None, b"a"), (None, b"b"))], [keyed((None, b"c"))])
    compact(log, NOW_MS)
    assert values(log) == [b"a", b"b", b"c"]


def test_empty_key_is_a_key() -> None:
    log = log_of(SimDisk(0), [keyed((b"", b"a"))], [keyed((b"", b"b"))])
    compact(log, NOW_MS)
    assert values(log) == [b"b"]


@pytest.mark.parametrize("size", [1, 15, 16, 17, 200])
def test_keys_of_any_length_are_told_apart(size: int) -> None:
    first, second = b"a" * size, b"a" * (size - 1) + b"b"
    log = log_of(SimDisk(0), [keyed((first, b"1"), (second, b"2"))], [keyed((first, b"3"))])
    compact(log, NOW_MS)
    assert values(log) == [b"2", b"3"]


def test_long_key_never_replaces_a_short_one() -> None:
    keys = [bytes([number]) * size for number in range(4) for size in (15, 16, 17, 40)]
    log = log_of(SimDisk(0), [keyed((key, b"v")) for key in keys])
    compact(log, NOW_MS)
    assert len(values(log)) == len(keys)


def test_tombstone_stays_for_its_time_and_then_goes() -> None:
    disk = SimDisk(0)
    log = log_of(disk, [keyed((b"k", b"value"))], [keyed((b"k", None))])
    assert compact(log, NOW_MS)
    assert values(log) == [None]
    for number, (at, expected) in enumerate([(DAY_MS - 1, [None]), (DAY_MS, [])]):
        append_segments(log, [], [batch(b"%d" % number)], [])
        settle(log)
        log = reopen(disk, COMPACTING)
        assert compact(log, NOW_MS + at)
        assert [value for value in values(log) if value is None] == expected
    assert values(without_indexes(disk)) == [b"0", b"1"]


def test_tombstone_keeps_its_timestamp_while_it_waits() -> None:
    log = log_of(SimDisk(0), [keyed((b"k", None), timestamp=12_345)])
    assert compact(log, NOW_MS)
    assert readable(log) == {0: Record(0, 12_345, b"k", None, [])}


def test_value_behind_a_tombstone_lives() -> None:
    log = log_of(SimDisk(0), [keyed((b"k", b"1"))], [keyed((b"k", None))], [keyed((b"k", b"2"))])
    compact(log, NOW_MS)
    assert values(log) == [b"2"]


def test_active_segment_is_not_touched_but_replaces_nothing_either() -> None:
    log = open_log(SimDisk(0), COMPACTING)
    append_segments(log, [keyed((b"k", b"1"))], [keyed((b"k", b"2")), keyed((b"k", b"3"))])
    settle(log)
    assert compact(log, NOW_MS)
    assert values(log) == [b"1", b"2", b"3"]


def test_what_is_not_durable_or_not_replicated_is_not_touched() -> None:
    log = open_log(SimDisk(0), COMPACTING)
    append_segments(log, [keyed((b"k", b"1"))], [keyed((b"k", b"2"))], [])
    assert log.compaction(NOW_MS) is None
    settle(log)
    assert log.compaction(NOW_MS, end_offset=0) is None
    work = log.compaction(NOW_MS, end_offset=1)
    assert work is not None
    assert [segment.base_offset for segment in work.segments] == [0]


def test_second_pass_replaces_what_the_first_one_kept() -> None:
    disk = SimDisk(0)
    log = log_of(disk, [keyed((b"a", b"1"))], [keyed((b"b", b"2"))])
    assert compact(log, NOW_MS)
    append_segments(log, [], [keyed((b"a", b"3"))], [])
    settle(log)
    assert compact(log, NOW_MS)
    assert values(log) == [b"2", b"3"]
    assert not compact(log, NOW_MS)


def test_small_segments_are_merged_and_no_file_is_left_behind() -> None:
    disk = SimDisk(0)
    sink = RecordingSink()
    log = log_of(disk, *([keyed((b"%d" % (at % 2), b"v"))] for at in range(8)), sink=sink)
    assert compact(log, NOW_MS)
    assert files(disk, names.LOG) == [f"{base:020d}.log" for base in (0, 8)]
    assert set(files(disk)) - {names.CHECKPOINT} == {
        f"{base:020d}{suffix}" for base, suffix in ((0, ".log"), (0, ".index"), (8, ".log"))
    }
    (event,) = sink.of(Compacted)
    assert (event.segments_before, event.segments_after) == (8, 1)
    assert event.bytes_after < event.bytes_before


def test_merged_segments_fit_into_one() -> None:
    log = log_of(SimDisk(0), *([keyed((b"%d" % at, b"x" * 400))] for at in range(6)))
    assert compact(log, NOW_MS)
    assert len(log.segments) == 4
    assert all(segment.size <= COMPACTING.segment_bytes for segment in log.segments)
    assert len(values(log)) == 6


def test_log_that_lost_all_its_records_reads_as_empty_and_goes_on() -> None:
    disk = SimDisk(0)
    log = log_of(disk, [keyed((b"k", None))])
    assert compact(log, NOW_MS)
    append_segments(log, [], [keyed((b"k", None))], [])
    settle(log)
    assert compact(log, NOW_MS + DAY_MS)
    append_segments(log, [], [keyed((b"k", b"v"))], [])
    settle(log)
    assert compact(log, NOW_MS + 3 * DAY_MS)
    assert values(log) == [b"v"]
    assert [log.read(offset, bytes_max=1) for offset in range(2)] == [log.read(2, bytes_max=1)] * 2
    assert log.end_offset == 3


def test_time_is_found_after_compaction() -> None:
    disk = SimDisk(0)
    log = log_of(disk, [keyed((b"k", b"1"), timestamp=10)], [keyed((b"k", b"2"), timestamp=20)])
    assert compact(log, NOW_MS)
    for each in (log, reopen(disk, COMPACTING)):
        assert [found and found.offset for found in map(each.offset_for_time, (5, 10, 20, 21))] == [1, 1, 1, None]
        latest = each.offset_of_max_timestamp()
        assert latest is not None
        assert latest == (1, 20)


def test_epochs_are_kept_though_their_records_go() -> None:
    disk = SimDisk(0)
    log = open_log(disk, COMPACTING)
    for epoch in (1, 2, 3):
        append(log, keyed((b"k", b"%d" % epoch)), leader_epoch=epoch)
        log.roll()
    settle(log)
    before = list(log.epochs)
    assert compact(log, NOW_MS)
    assert list(log.epochs) == before
    assert list(reopen(disk, COMPACTING).epochs) == before


def test_readers_and_writers_go_on_while_a_pass_runs() -> None:
    disk = SimDisk(0)
    log = log_of(disk, [keyed((b"k", b"1"))], [keyed((b"k", b"2"))])
    work = log.compaction(NOW_MS)
    assert work is not None
    assert log.compaction(NOW_MS) is None
    append(log, keyed((b"k", b"3")))
    replacements = work.run()
    assert values(log) == [b"1", b"2", b"3"]
    flush(log)
    log.roll()
    append(log, keyed((b"k", b"4")))
    log.compacted(work, replacements)
    assert values(log) == [b"2", b"3", b"4"]
    append(log, keyed((b"k", b"5")))
    upkeep(log)
    assert values(log) == [b"2", b"3", b"4", b"5"]
    settle(log)
    assert values(reopen(disk, COMPACTING)) == [b"2", b"3", b"4", b"5"]


def test_records_deleted_while_a_pass_runs_stay_deleted() -> None:
    disk = SimDisk(0)
    log = log_of(disk, [keyed((b"a", b"1"))], [keyed((b"b", b"2"))], [keyed((b"c", b"3"))])
    work = log.compaction(NOW_MS)
    assert work is not None
    replacements = work.run()
    log.delete_before(2)
    log.compacted(work, replacements)
    assert values(log) == [b"3"]
    settle(log)
    assert values(reopen(disk, COMPACTING)) == [b"3"]


@pytest.mark.parametrize("after", range(3))
def test_pass_that_finds_no_room_leaves_the_log_as_it_was(after: int) -> None:
    disk = SimDisk(0)
    log = log_of(disk, *([keyed((b"%d" % (at % 3), b"x" * 400))] for at in range(6)))
    before, tree = values(log), disk.tree()
    work = log.compaction(NOW_MS)
    assert work is not None
    disk.fail(errno.ENOSPC, operation="write", path="*.cleaned*", after=after)
    with pytest.raises(OSError, match="No space"):
        work.run()
    log.compacted(work, [])
    assert values(log) == before
    assert {path: data for path, data in disk.tree().items() if ".tmp" not in path} == tree
    assert compact(log, NOW_MS)
    assert values(log) == before[3:]


def test_failed_swap_is_tried_again() -> None:
    disk = SimDisk(0)
    log = log_of(disk, [keyed((b"k", b"1"))], [keyed((b"k", b"2"))])
    work = log.compaction(NOW_MS)
    assert work is not None
    log.compacted(work, work.run())
    for _ in range(4):
        disk.fail(errno.EIO, operation="rename", path="*.cleaned")
        swap = log.upkeep()
        assert swap is not None
        with pytest.raises(OSError, match="Input/output") as caught:
            swap.run()
        log.upkept(swap, caught.value)
        assert values(log) == [b"2"]
    upkeep(log)
    assert values(log) == [b"2"]
    assert not files(disk, names.CLEANED)
    assert values(reopen(disk, COMPACTING)) == [b"2"]


def test_damaged_segment_and_what_lies_before_it_are_left_alone() -> None:
    disk = SimDisk(0)
    log = log_of(disk, *([keyed((b"k", b"%d" % at))] for at in range(4)))
    disk.kill()
    path = DIRECTORY / f"{1:020d}.log"
    disk.flip(path, 65)
    remove_files(disk, names.INDEX)
    log = open_log(disk, COMPACTING)
    settle(log)
    compact(log, NOW_MS)
    assert {offset: record.value for offset, record in readable(log).items()} == {0: b"0", 3: b"3"}
    assert disk.exists(path)


@pytest.mark.parametrize("record", [b"value to be damaged", b"key to be damaged"])
def test_pass_that_meets_damage_neither_hides_it_nor_removes_what_it_seems_to_replace(record: bytes) -> None:
    disk = SimDisk(0)
    log = log_of(
        disk,
        [keyed((b"jey to be damaged", b"undamaged"))],
        [keyed((b"key to be damaged", b"value to be damaged"), (b"k", b"replaced"))],
        [keyed((b"k", b"latest"))],
    )
    before = readable(log)
    path = DIRECTORY / f"{1:020d}.log"
    disk.flip(path, disk.read_file(path).index(record), 0x01)
    work = log.compaction(NOW_MS)
    assert work is not None
    replacements: list[Replacement] = []
    with suppress(GoQueueError):
        replacements = work.run()
    log.compacted(work, replacements)
    upkeep(log)
    after = readable(log)
    assert after == {offset: before[offset] for offset in after}
    assert {0, 3} <= after.keys()
    log.close()
    assert not files(disk, names.CLEANED)
