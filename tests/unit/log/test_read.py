"""Appends get contiguous offsets, and reads give whole batches back, byte for byte."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from goqueue.errors import Conflict, CorruptLog, OffsetOutOfRange, TooLarge
from goqueue.log import names
from goqueue.log.batches import check_batches
from goqueue.log.file_cache import FileCache
from goqueue.log.log import Log
from goqueue.log.segment import Details
from goqueue.model.log_settings import LogSettings
from goqueue.records.layout import BatchHeader, headers, patch, read_header
from goqueue.seams.disk import RealDisk
from goqueue.testing import SimDisk
from tests.unit.log.log_kit import (
    DIRECTORY,
    SETTINGS,
    append,
    append_segments,
    batch,
    open_log,
    reopen,
    settle,
    stored_batches,
    values,
)

INTERVALS = [0, 100, 2**31 - 1]


def some_batches(count: int) -> list[bytearray]:
    """Return batches of one to three records, of different sizes."""
    return [batch(*[b"v%d" % number * (1 + number % 4)] * (1 + number % 3)) for number in range(count)]


def naive_read(
    segments: Sequence[Sequence[tuple[BatchHeader, bytes]]], offset: int, bytes_max: int, end_offset: int
) -> bytes:
    """Return what a read has to give, found by looking at everything."""
    for segment in segments:
        rest = [(header, data) for header, data in segment if header.last_offset >= offset]
        if rest:
            break
    else:
        return b""
    taken = b""
    for header, data in rest:
        is_too_much = taken and len(taken) + len(data) > bytes_max
        if is_too_much or header.next_offset > end_offset:
            break
        taken += data
    return taken


def test_offsets_are_contiguous_and_start_at_zero() -> None:
    log = open_log(SimDisk(0))
    found = [header for each in some_batches(40) for header in append(log, each)]
    assert found[0].base_offset == 0
    assert all(earlier.next_offset == later.base_offset for earlier, later in pairwise(found))
    assert log.end_offset == found[-1].next_offset
    assert len(log.segments) > 3


def test_batches_of_one_append_get_their_offsets_in_order() -> None:
    log = open_log(SimDisk(0))
    first, second, third = append(log, batch(b"a", b"b"), batch(b"c"), batch(b"d", b"e"), leader_epoch=7)
    assert (first.base_offset, second.base_offset, third.base_offset) == (0, 2, 3)
    assert {header.leader_epoch for header in (first, second, third)} == {7}
    assert [header for header, _ in stored_batches(log)] == [first, second, third]
    assert values(log) == [b"a", b"b", b"c", b"d", b"e"]


def test_stored_bytes_are_those_sent_but_for_offset_and_leader_epoch() -> None:
    log = open_log(SimDisk(0))
    append(log, batch(b"first"))
    sent = batch(b"second")
    append(log, sent, leader_epoch=3)
    patch(sent, base_offset=1, leader_epoch=3)
    assert log.read(1, bytes_max=1) == bytes(sent)


def test_append_of_no_batches_changes_nothing() -> None:
    log = open_log(SimDisk(0))
    append(log, batch(b"a"))
    assert log.append([], leader_epoch=0) == []
    assert log.end_offset == 1


def test_batch_larger_than_a_segment_is_stored_whole() -> None:
    disk = SimDisk(0)
    log = open_log(disk)
    append(log, batch(b"small"))
    append(log, batch(b"x" * 5000))
    append(log, batch(b"small again"))
    assert values(log) == [b"small", b"x" * 5000, b"small again"]
    assert len(log.segments) == 3
    assert values(reopen(disk)) == [b"small", b"x" * 5000, b"small again"]


def test_batch_above_the_limit_is_refused_before_it_reaches_the_log() -> None:
    with pytest.raises(TooLarge):
        check_batches(batch(b"x" * 100), bytes_max=100)


@pytest.mark.parametrize("interval", INTERVALS)
@pytest.mark.parametrize("is_restarted", [False, True])
def test_every_read_gives_the_whole_batches_that_fit(interval: int, is_restarted: bool) -> None:
    disk = SimDisk(0)
    settings = replace(SETTINGS, index_interval_bytes=interval)
    log = open_log(disk, settings)
    append_segments(log, some_batches(6), some_batches(5))
    if is_restarted:
        log.close()
        log = open_log(disk, settings)
    stored = list(stored_batches(log))
    border = log.segments.active.base_offset
    segments = [[entry for entry in stored if (entry[0].base_offset >= border) == flag] for flag in (False, True)]
    for offset in range(log.end_offset):
        for bytes_max in (0, 1, 70, 100, 150, 200, 300, 400, 10_000):
            for end in range(log.end_offset + 2):
                assert log.read(offset, bytes_max=bytes_max, end_offset=end) == naive_read(
                    segments, offset, bytes_max, end
                ), f"{offset=} {bytes_max=} {end=}"


def test_read_from_the_middle_of_a_batch_gives_the_whole_batch() -> None:
    log = open_log(SimDisk(0))
    append(log, batch(b"a", b"b", b"c"))
    assert read_header(log.read(2, bytes_max=1)).base_offset == 0


def test_read_at_the_end_gives_nothing() -> None:
    log = open_log(SimDisk(0))
    assert log.read(0, bytes_max=100) == b""
    append(log, batch(b"a"))
    assert log.read(1, bytes_max=100) == b""


def test_read_outside_of_the_log_says_what_the_log_holds() -> None:
    log = open_log(SimDisk(0))
    append(log, batch(b"a", b"b"), batch(b"c"))
    log.delete_before(1)
    for offset in (-1, 0, 4):
        with pytest.raises(OffsetOutOfRange) as caught:
            log.read(offset, bytes_max=100)
        assert (caught.value.offset, caught.value.start, caught.value.end) == (offset, 1, 3)


def test_read_goes_on_from_segment_to_segment() -> None:
    log = open_log(SimDisk(0))
    append_segments(log, *([batch(b"%d" % number)] for number in range(10)))
    assert len(log.segments) == 10
    assert values(log) == [b"%d" % number for number in range(10)]


def test_records_are_readable_before_they_are_durable() -> None:
    log = open_log(SimDisk(0))
    append(log, batch(b"a"))
    assert (log.durable_end, values(log)) == (0, [b"a"])


def test_replica_keeps_the_offsets_and_epochs_it_is_given() -> None:
    leader, follower = open_log(SimDisk(0)), open_log(SimDisk(1))
    append(leader, batch(b"a", b"b"), leader_epoch=2)
    append(leader, batch(b"c"), leader_epoch=5)
    follower.append_assigned(check_batches(bytearray(leader.read(0, bytes_max=10_000)), bytes_max=10_000))
    assert list(stored_batches(follower)) == list(stored_batches(leader))
    assert list(follower.epochs) == list(leader.epochs)


def test_replica_takes_gaps_that_compaction_left_and_refuses_to_overwrite() -> None:
    log = open_log(SimDisk(0))
    with_gap = batch(b"a")
    patch(with_gap, base_offset=10, leader_epoch=0)
    log.append_assigned(check_batches(with_gap, bytes_max=1000))
    assert log.end_offset == 11
    assert read_header(log.read(3, bytes_max=1)).base_offset == 10
    with pytest.raises(Conflict):
        log.append_assigned(check_batches(with_gap, bytes_max=1000))
    assert log.end_offset == 11


@pytest.mark.parametrize("offset", [2**31 - 2, 2**31, 2**32 + 5, 2**40])
@pytest.mark.parametrize("has_records", [False, True])
def test_replica_takes_a_gap_of_any_size(offset: int, has_records: bool) -> None:
    disk = SimDisk(0)
    log = open_log(disk)
    if has_records:
        append(log, batch(b"first"))
    far = batch(b"far")
    patch(far, base_offset=offset, leader_epoch=0)
    log.append_assigned(check_batches(far, bytes_max=1000))
    assert (log.end_offset, values(log)[-1]) == (offset + 1, b"far")
    settle(log)
    assert values(reopen(disk))[-1] == b"far"


def test_open_files_are_bounded_however_many_segments_are_read(tmp_path: Path) -> None:
    disk = RealDisk()
    handles = FileCache(disk, files_max=4)
    open_before = open_file_count()
    log = Log(disk, tmp_path / "log", SETTINGS, None, handles)
    append_segments(log, *([batch(b"%d" % number)] for number in range(50)))
    settle(log)
    for _ in range(2):
        for offset in range(50):
            assert log.read(offset, bytes_max=1)
    # The files of the cache, the one being written to and the checkpoint.
    assert open_file_count() - open_before <= 4 + 2
    log.close()
    handles.close()
    assert open_file_count() == open_before


def open_file_count() -> int:
    """Return how many files this process has open."""
    return len(list(Path("/dev/fd").iterdir()))


def test_indexes_in_memory_are_bounded_however_many_segments_are_read() -> None:
    disk = SimDisk(0)
    handles = FileCache(disk, details_max=2)
    count_before = details_count()
    log = open_log(disk, handles=handles)
    append_segments(log, *([batch(b"%d" % number)] for number in range(30)))
    settle(log)
    for offset in range(30):
        assert log.read(offset, bytes_max=1)
        log.aborted_transactions(offset, log.end_offset)
    assert details_count() - count_before <= 2 + 1


def details_count() -> int:
    """Return how many index bodies are alive in this process."""
    gc.collect()
    return sum(isinstance(each, Details) for each in gc.get_objects())


def test_two_logs_share_the_cache_of_open_files(tmp_path: Path) -> None:
    disk = RealDisk()
    handles = FileCache(disk, files_max=2)
    logs = [Log(disk, tmp_path / name, SETTINGS, None, handles) for name in ("a", "b")]
    for log in logs:
        append_segments(log, *([batch(b"%d" % number)] for number in range(6)))
        settle(log)
    open_before = open_file_count()
    for offset in range(5):
        for log in logs:
            assert [header.base_offset for _, header in headers(log.read(offset, bytes_max=1))] == [offset]
    assert open_file_count() - open_before <= 2
    for log in logs:
        log.close()
    handles.close()


def test_closing_twice_is_harmless_and_nothing_is_written_afterwards() -> None:
    disk = SimDisk(0)
    log = open_log(disk)
    append(log, batch(b"a"))
    log.close()
    operations = disk.operations
    log.close()
    assert (log.flush(), log.upkeep()) == (None, None)
    assert disk.operations == operations
    assert files_of(disk) == ["00000000000000000000.index", "00000000000000000000.log", names.CHECKPOINT]


def files_of(disk: SimDisk) -> list[str]:
    """Return all names in the log's directory."""
    return disk.list_directory(DIRECTORY)


def test_large_read_between_rows_of_the_index_gives_the_same_batches_as_small_ones() -> None:
    log = open_log(SimDisk(0), LogSettings(segment_bytes=2**20, index_interval_bytes=500))
    for number in range(900):
        append(log, batch(b"%d" % number * 40))
    expected = [data for _, data in stored_batches(log)]
    for end_offset in (None, 899, 450):
        offset, found = 0, []
        while data := log.read(offset, bytes_max=70_000, end_offset=end_offset):
            assert len(data) <= 70_000
            for position, header in headers(data):
                found.append(data[position : position + header.size_bytes])
                offset = header.next_offset
        assert found == expected[:end_offset]


def test_large_read_does_not_believe_a_batch_that_the_index_contradicts() -> None:
    disk = SimDisk(0)
    log = open_log(disk, LogSettings(index_interval_bytes=0))
    append(log, batch(b"a"))
    append(log, batch(b"b"))
    log.close()
    disk.flip(names.segment_path(DIRECTORY, 0), 7, 0x40)
    log = open_log(disk, LogSettings(index_interval_bytes=0))
    with pytest.raises(CorruptLog) as caught:
        log.read(0, bytes_max=1_000_000)
    assert caught.value.resume_offset == 1
    assert read_header(log.read(1, bytes_max=1_000_000)).base_offset == 1
