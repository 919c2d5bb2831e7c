"""Logs are cut back by offset and by leader epoch, emptied, and shortened at their start."""

from __future__ import annotations

import pytest

from goqueue.errors import Conflict, OffsetOutOfRange
from goqueue.log import names
from goqueue.log.batches import check_batches
from goqueue.log.epochs import EpochEnd, LeaderEpochs
from goqueue.log.events import SegmentsExpired, Truncated
from goqueue.log.log import Log
from goqueue.log.segment import EpochStart
from goqueue.machines.producer import Duplicate
from goqueue.records.layout import read_header
from goqueue.testing import Fate, RecordingSink, SimDisk
from tests.unit.log.log_kit import (
    append,
    append_segments,
    batch,
    files,
    flush,
    in_transaction,
    open_log,
    readable,
    remove_files,
    reopen,
    settle,
    stored_batches,
    upkeep,
    values,
)


def log_of_segments(disk: SimDisk, count: int) -> Log:
    """Return a log with one record in each of its segments, all durable, with index files."""
    log = open_log(disk)
    append_segments(log, *([batch(b"%d" % number)] for number in range(count)))
    settle(log)
    return log


@pytest.mark.parametrize("offset", range(7))
def test_truncation_removes_every_batch_that_reaches_beyond_the_offset(offset: int) -> None:
    disk = SimDisk(0)
    sink = RecordingSink()
    log = open_log(disk, sink=sink)
    append_segments(log, [batch(b"0", b"1")], [batch(b"2"), batch(b"3", b"4")], [batch(b"5")])
    log.truncate(offset)
    borders = [0, 2, 3, 5, 6]
    end = max(border for border in borders if border <= offset)
    assert (log.end_offset, log.durable_end) == (end, end if offset < 6 else 0)
    assert len(sink.of(Truncated)) == (offset < 6)
    assert set(readable(log)) == set(range(end))
    if offset < 6:
        disk.crash(Fate.NONE)
        log = open_log(disk)
    assert set(readable(log)) == set(range(end))
    assert append(log, batch(b"next"))[0].base_offset == end
    assert set(readable(reopen(disk))) == set(range(end + 1))


def test_truncation_takes_the_producers_back_to_where_they_were() -> None:
    disk = SimDisk(0)
    log = open_log(disk)
    batches = [batch(b"%d" % number, producer=1, sequence=number) for number in range(6)]
    append_segments(log, batches[:2], batches[2:4], batches[4:])
    settle(log)
    states = []
    for end in range(5, -1, -1):
        log.truncate(end)
        states.append(log.producers.encode())
        if end:
            assert log.producers.decide(read_header(batches[end - 1])) == Duplicate(end - 1)
    fold = open_log(SimDisk(1))
    for number, state in enumerate(reversed(states)):
        assert fold.producers.encode() == state
        append(fold, batches[number])


def test_truncation_of_an_open_transaction_moves_the_last_stable_offset() -> None:
    log = open_log(SimDisk(0))
    append(log, batch(b"a"))
    append(log, in_transaction(b"open", producer=1, sequence=0))
    assert log.last_stable_offset == 1
    log.truncate(1)
    append(log, batch(b"b"))
    assert log.last_stable_offset == 2


def test_truncation_below_the_start_is_refused() -> None:
    log = log_of_segments(SimDisk(0), 3)
    log.delete_before(2)
    with pytest.raises(OffsetOutOfRange):
        log.truncate(1)


def test_truncation_waits_for_work_that_is_under_way() -> None:
    log = log_of_segments(SimDisk(0), 2)
    append(log, batch(b"more"))
    work = log.flush()
    assert work is not None
    for cut in (log.truncate, log.reset):
        with pytest.raises(Conflict):
            cut(1)
    work.run()
    log.flushed(work)
    log.truncate(1)
    assert log.end_offset == 1


def test_truncation_forgets_the_epochs_behind_it() -> None:
    log = open_log(SimDisk(0))
    for epoch in (1, 3, 4):
        append(log, batch(b"a", b"b"), leader_epoch=epoch)
    log.truncate(4)
    assert list(log.epochs) == [EpochStart(1, 0), EpochStart(3, 2)]


def test_reset_empties_the_log_and_goes_on_at_the_offset() -> None:
    disk = SimDisk(0)
    log = log_of_segments(disk, 3)
    log.reset(100)
    assert (log.start_offset, log.durable_end, log.end_offset, list(log.epochs)) == (100, 100, 100, [])
    assert append(log, batch(b"first"))[0].base_offset == 100
    flush(log)
    disk.crash(Fate.NONE)
    log = open_log(disk)
    assert (log.start_offset, values(log)) == (100, [b"first"])
    assert files(disk, names.LOG) == [f"{100:020d}.log"]


def test_reset_to_an_offset_inside_of_the_log_empties_it_as_well() -> None:
    disk = SimDisk(0)
    log = log_of_segments(disk, 3)
    log.reset(1)
    assert (log.start_offset, log.end_offset, values(log)) == (1, 1, [])
    assert values(reopen(disk)) == []


def test_deleted_records_come_back_after_a_crash_unless_the_deletion_was_flushed() -> None:
    disk = SimDisk(0)
    log = log_of_segments(disk, 4)
    log.delete_before(2)
    assert log.start_offset == 2
    copy = disk.clone(1)
    copy.crash(Fate.NONE)
    assert open_log(copy).start_offset == 0
    flush(log)
    disk.crash(Fate.NONE)
    assert (open_log(disk).start_offset, values(open_log(disk))) == (2, [b"2", b"3"])


def test_deletion_removes_whole_segments_once_it_is_durable() -> None:
    disk = SimDisk(0)
    sink = RecordingSink()
    log_of_segments(disk, 4).close()
    log = open_log(disk, sink=sink)
    log.delete_before(2)
    assert [(event.segments, event.start_offset) for event in sink.of(SegmentsExpired)] == [(2, 2)]
    upkeep(log)
    assert len(files(disk, names.LOG)) == 4
    settle(log)
    assert files(disk, names.LOG) == [f"{base:020d}.log" for base in (2, 3)]
    assert files(disk, names.INDEX) == [f"{base:020d}.index" for base in (2, 3)]


def test_deletion_inside_of_a_segment_hides_the_records_before_it() -> None:
    disk = SimDisk(0)
    log = open_log(disk)
    append(log, batch(b"0", b"1", b"2"))
    log.delete_before(2)
    assert values(log) == [b"2"]
    flush(log)
    assert values(reopen(disk)) == [b"2"]


def test_deletion_beyond_the_end_is_refused() -> None:
    log = log_of_segments(SimDisk(0), 2)
    for offset in (-1, 3):
        with pytest.raises(OffsetOutOfRange):
            log.delete_before(offset)
    log.delete_before(2)
    assert values(log) == []


@pytest.mark.parametrize("fate", list(Fate))
def test_deletion_beyond_the_durable_end_gives_no_offset_twice(fate: Fate) -> None:
    disk = SimDisk(0)
    log = log_of_segments(disk, 2)
    append(log, batch(b"not durable"))
    log.delete_before(3)
    work = log.flush()
    assert work is not None
    disk.crash(fate)
    log = open_log(disk)
    assert log.start_offset in (0, 3)
    assert log.end_offset in ((2, 3) if log.start_offset == 0 else (3,))


def test_deletion_trims_the_epochs_before_the_start() -> None:
    disk = SimDisk(0)
    log = open_log(disk)
    for epoch in (1, 2, 5):
        append(log, batch(b"a", b"b"), leader_epoch=epoch)
        log.roll()
    log.delete_before(3)
    assert list(log.epochs) == [EpochStart(2, 2), EpochStart(5, 4)]
    settle(log)
    assert list(reopen(disk).epochs) == [EpochStart(2, 2), EpochStart(5, 4)]


def test_producers_outlive_the_segments_that_they_wrote_to() -> None:
    disk = SimDisk(0)
    log = open_log(disk)
    written = batch(b"first", producer=1, sequence=0)
    append_segments(log, [written], [batch(b"second")], [batch(b"third")])
    settle(log)
    log.delete_before(2)
    settle(log)
    settle(log)
    assert len(files(disk, names.LOG)) == 1
    assert log.producers.decide(read_header(written)) == Duplicate(0)
    assert reopen(disk).producers.decide(read_header(written)) == Duplicate(0)


def test_epoch_ends_where_the_next_one_begins() -> None:
    epochs = LeaderEpochs([EpochStart(1, 0), EpochStart(3, 10), EpochStart(4, 20)])
    assert epochs.end_of(0, 30) is None
    assert epochs.end_of(1, 30) == EpochEnd(1, 10)
    assert epochs.end_of(2, 30) == EpochEnd(1, 10)
    assert epochs.end_of(3, 30) == EpochEnd(3, 20)
    assert epochs.end_of(4, 30) == EpochEnd(4, 30)
    assert epochs.end_of(5, 30) is None


def test_epochs_are_the_same_after_a_restart_with_and_without_index_files() -> None:
    disk = SimDisk(0)
    log = open_log(disk)
    for epoch in (0, 0, 2, 2, 7):
        append(log, batch(b"a"), leader_epoch=epoch)
        log.roll()
    before = list(log.epochs)
    log.close()
    assert list(open_log(disk).epochs) == before
    remove_files(disk, names.INDEX)
    assert list(open_log(disk).epochs) == before


HISTORIES = {
    "behind": ([(0, 3)], [(0, 5)]),
    "equal": ([(0, 3), (1, 2)], [(0, 3), (1, 2)]),
    "longer in the same epoch": ([(0, 5)], [(0, 3), (1, 2)]),
    "own epoch that the leader never had": ([(0, 3), (1, 4)], [(0, 3), (2, 2)]),
    "two fast changes of leader": ([(0, 2), (1, 1), (2, 2)], [(0, 4), (3, 1)]),
    "interleaved epochs": ([(0, 2), (1, 2), (3, 2)], [(0, 2), (2, 2), (4, 1)]),
    "nothing in common": ([(1, 3)], [(2, 3)]),
    "common epoch of different length on both sides": ([(0, 4), (2, 3)], [(0, 6), (3, 1)]),
}


def replica(disk: SimDisk, history: list[tuple[int, int]]) -> Log:
    """Return a log with one batch for each record of the history, a list of epochs and how many records each wrote."""
    log = open_log(disk)
    for epoch, count in history:
        for _ in range(count):
            append(log, batch(b"epoch %d, offset %d" % (epoch, log.end_offset)), leader_epoch=epoch)
    return log


def follow(follower: Log, leader: Log) -> None:
    """Cut the follower back to where the two agree, then copy what it lacks."""
    while follower.epochs.latest >= 0:
        asked = follower.epochs.latest
        answer = leader.end_of_epoch(asked) or EpochEnd(-1, leader.start_offset)
        follower.truncate_to_leader(answer)
        if answer.epoch == asked or follower.epochs.latest in (answer.epoch, asked):
            break
    while data := leader.read(follower.end_offset, bytes_max=200):
        follower.append_assigned(check_batches(bytearray(data), bytes_max=10_000))


@pytest.mark.parametrize("case", HISTORIES)
@pytest.mark.parametrize("is_restarted", [False, True])
def test_diverged_follower_becomes_equal_to_its_leader(case: str, is_restarted: bool) -> None:
    mine, theirs = HISTORIES[case]
    disk = SimDisk(0)
    follower, leader = replica(disk, mine), replica(SimDisk(1), theirs)
    flush(follower)
    if is_restarted:
        follower = reopen(disk)
    follow(follower, leader)
    assert list(stored_batches(follower)) == list(stored_batches(leader))
    assert list(follower.epochs) == list(leader.epochs)


def test_truncation_to_the_leader_keeps_what_both_have() -> None:
    follower, leader = replica(SimDisk(0), [(0, 4), (2, 3)]), replica(SimDisk(1), [(0, 6), (3, 1)])
    answer = leader.end_of_epoch(2)
    assert answer == EpochEnd(0, 6)
    assert follower.truncate_to_leader(answer) == 4
