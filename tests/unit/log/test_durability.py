"""What a log owes its disk is paid in the right order, also when work overlaps, fails or is interrupted twice."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import PurePath

import pytest

from goqueue.errors import DiskFull, Fenced, LogOffline, Unavailable
from goqueue.log import names
from goqueue.log.checkpoint import Checkpoint, CheckpointFile
from goqueue.log.events import DamageFound
from goqueue.log.flush import IndexWrite
from goqueue.log.log import Log
from goqueue.model.log_settings import Cleanup
from goqueue.records.builder import assemble
from goqueue.records.layout import read_header
from goqueue.testing import Fate, PowerLoss, RecordingSink, SimDisk
from tests.unit.log.log_kit import (
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
    reopen,
    settle,
    stored_batches,
    upkeep,
    values,
)

COMPACTING = replace(SETTINGS, cleanup=Cleanup.COMPACT, min_cleanable_dirty_ratio=0)


def test_flush_that_ends_after_the_log_has_failed_promises_nothing() -> None:
    disk = SimDisk(0)
    log = open_log(disk)
    append(log, batch(b"a"))
    work = log.flush()
    assert work is not None
    # The clean-up after a full disk is told of the failed sync; the flush behind it is told nothing.
    disk.fail(errno.ENOSPC, operation="write", path="*.log")
    disk.fail(errno.EIO, operation="sync", path="*.log")
    with pytest.raises(LogOffline):
        append(log, batch(b"b"))
    work.run()
    log.flushed(work)
    assert log.durable_end == 0


def test_index_of_a_segment_sealed_during_a_flush_is_not_replaced_by_an_older_one() -> None:
    log = open_log(SimDisk(0))
    append(log, batch(b"a"))
    log.checkpoint()
    work = log.flush()
    assert work is not None
    append(log, batch(b"b"))
    log.roll()
    work.run()
    log.flushed(work)
    settle(log)
    sealed = log.segments.sealed[0]
    assert sealed.covered == sealed.size


def test_index_owed_to_a_segment_is_forgotten_when_compaction_replaces_it() -> None:
    disk = SimDisk(0)
    log = open_log(disk, COMPACTING)
    append_segments(log, [keyed((b"k", b"1"))], [keyed((b"k", b"2"))], [keyed((b"k", b"3"))])
    settle(log)
    work = log.compaction(NOW_MS)
    assert work is not None
    replacements = work.run()
    # As if the index of a segment had to be made anew while the pass was under way.
    old = work.segments[0]
    log._open().durability.owe_index(
        IndexWrite(old, old.size, old.next_offset, disk.read_file(names.index_path(old.path)))
    )
    log.compacted(work, replacements)
    settle(log)
    sink = RecordingSink()
    assert values(reopen(disk, COMPACTING, sink)) == [b"2", b"3"]
    assert sink.of(DamageFound) == []


def test_only_the_newest_index_of_a_segment_is_owed() -> None:
    disk = SimDisk(0)
    log = open_log(disk)
    for number in range(20):
        append(log, batch(b"%d" % number))
        flush(log)
        log.checkpoint()
    work = log.upkeep()
    assert work is not None
    assert len(work.index_writes) == len(log.segments)


def test_swap_survives_a_kill_and_then_a_power_loss_during_recovery() -> None:
    for cut in range(1, _operations_of_swap() + 1):
        killed = _disk_killed_in_swap(cut)
        for second in range(1, 14):
            for fate in Fate:
                disk = killed.clone(second)
                disk.crash_after(second)
                try:
                    open_log(disk, COMPACTING)
                except PowerLoss:
                    disk.crash(fate)
                disk.heal()
                found = values(open_log(disk, COMPACTING))
                # The last record of each key, and maybe some that they replace.
                assert found[-1] == b"3"
                assert b"1" in found
                assert set(found) <= {b"1", b"2", b"3"}


def _log_with_pending_swap(disk: SimDisk) -> Log:
    log = open_log(disk, COMPACTING)
    append_segments(log, [keyed((b"k", b"1")), keyed((b"j", b"1"))], [keyed((b"k", b"2"))], [keyed((b"k", b"3"))])
    settle(log)
    work = log.compaction(NOW_MS)
    assert work is not None
    log.compacted(work, work.run())
    return log


def _operations_of_swap() -> int:
    disk = SimDisk(0)
    log = _log_with_pending_swap(disk)
    before = disk.operations
    upkeep(log)
    return disk.operations - before


def _disk_killed_in_swap(cut: int) -> SimDisk:
    disk = SimDisk(0)
    log = _log_with_pending_swap(disk)
    disk.crash_after(cut)
    with pytest.raises(PowerLoss):
        upkeep(log)
    disk.kill()
    return disk


def test_batch_that_nobody_can_open_stays_and_stops_neither_compaction_nor_time_lookup() -> None:
    log = open_log(SimDisk(0), COMPACTING)
    good = keyed((b"k", b"1"))
    hostile = assemble(read_header(good), b"\xff" * 20)
    append_segments(log, [good, hostile], [keyed((b"k", b"2"))], [keyed((b"k", b"3"))])
    settle(log)
    assert compact(log, NOW_MS)
    assert [header.base_offset for header, _ in stored_batches(log)] == [1, 2, 3]
    found = log.offset_for_time(0)
    assert found is not None
    assert found.offset == 1


def test_too_many_open_files_refuse_an_append_and_break_nothing() -> None:
    disk = SimDisk(0)
    log = open_log(disk)
    disk.fail(errno.EMFILE, operation="open", path="*.log")
    with pytest.raises(Unavailable, match="open files"):
        append(log, batch(b"refused"))
    append(log, batch(b"a"))
    assert values(log) == [b"a"]


def test_older_leader_is_fenced() -> None:
    log = open_log(SimDisk(0))
    append(log, batch(b"a"), leader_epoch=3)
    with pytest.raises(Fenced):
        append(log, batch(b"b"), leader_epoch=2)
    assert log.end_offset == 1


def test_silent_producers_are_forgotten_after_their_time() -> None:
    log = open_log(SimDisk(0), replace(SETTINGS, producer_expiration_ms=1000))
    append(log, batch(b"a", producer=7, sequence=0))
    log.expire(NOW_MS + 900)
    log.expire(NOW_MS + 1800)
    assert len(log.producers) == 1
    log.expire(NOW_MS + 1900)
    assert len(log.producers) == 0


def test_log_that_cannot_write_its_indexes_closes_and_opens_again() -> None:
    disk = SimDisk(0)
    log = open_log(disk)
    append_segments(log, [batch(b"a")], [batch(b"b")])
    disk.fail(errno.ENOSPC, operation="write", path="*.index.tmp", times=None)
    log.close()
    disk.heal()
    assert files(disk, ".index") == []
    assert values(open_log(disk)) == [b"a", b"b"]


def test_new_log_on_a_full_disk_is_refused_clearly() -> None:
    disk = SimDisk(0)
    disk.fail(errno.ENOSPC, operation="write", path="checkpoint")
    with pytest.raises(DiskFull, match="cannot be opened"):
        open_log(disk)


def test_checkpoint_has_a_good_slot_after_a_kill_and_a_power_loss_though_both_slots_were_being_written() -> None:
    for seed in range(200):
        disk = SimDisk(seed)
        path = PurePath("checkpoint")
        CheckpointFile(disk, path).commit(Checkpoint(start_offset=1))
        for start_offset in (2, 3):
            file = CheckpointFile(disk, path)
            assert file.load() is not None
            file.note(Checkpoint(start_offset=start_offset))
            if start_offset == 2:
                disk.kill()
        disk.crash()
        found = CheckpointFile(disk, path).load()
        assert found is not None, f"seed {seed}"
        assert found.start_offset >= 2
