"""A failing disk costs what cannot be written, never what was acknowledged, and never another log."""

from __future__ import annotations

import errno
from contextlib import suppress
from pathlib import PurePath

import pytest

from goqueue.errors import DiskFull, LogOffline, Unavailable
from goqueue.log import names
from goqueue.log.events import DamageFound, UpkeepFailed, WentOffline
from goqueue.log.log import Log
from goqueue.machines.producer import Duplicate, Fresh
from goqueue.records.layout import read_header
from goqueue.testing import Fate, Operation, RecordingSink, SimDisk
from tests.unit.log.log_kit import (
    DIRECTORY,
    SETTINGS,
    append,
    append_segments,
    batch,
    files,
    flush,
    open_log,
    reopen,
    settle,
    upkeep,
    values,
)


def used_bytes(disk: SimDisk) -> int:
    return sum(len(data) for data in disk.tree().values())


@pytest.mark.parametrize("room", range(0, 140, 7))
def test_full_disk_leaves_the_log_as_it_was(room: int) -> None:
    disk = SimDisk(0)
    log = open_log(disk)
    append(log, batch(b"before", producer=1, sequence=0))
    settle(log)
    tree = disk.tree()
    disk.capacity_bytes = used_bytes(disk) + room
    with pytest.raises(DiskFull) as caught:
        append(log, batch(b"lost", producer=1, sequence=1), batch(b"lost too", producer=1, sequence=2))
    assert caught.value.retriable
    assert disk.tree() == tree
    assert (log.end_offset, log.fault, values(log)) == (1, "", [b"before"])
    disk.capacity_bytes = None
    assert append(log, batch(b"x"))[0].base_offset == 1
    flush(log)
    assert values(reopen(disk)) == [b"before", b"x"]


def test_failed_append_is_no_phantom_after_a_restart() -> None:
    disk = SimDisk(0)
    log = open_log(disk)
    append(log, batch(b"before"))
    disk.capacity_bytes = used_bytes(disk) + 100
    with pytest.raises(DiskFull):
        append(log, batch(b"a"), batch(b"b"))
    disk.capacity_bytes = None
    assert values(reopen(disk)) == [b"before"]


def test_retry_of_a_failed_append_is_no_duplicate() -> None:
    disk = SimDisk(0)
    log = open_log(disk)
    sent = batch(b"once", producer=1, sequence=0)
    disk.fail(errno.ENOSPC, operation="write", path="*.log")
    with pytest.raises(DiskFull):
        append(log, sent)
    assert log.producers.decide(read_header(sent)) == Fresh()
    append(log, sent)
    assert log.producers.decide(read_header(sent)) == Duplicate(0)
    assert values(log) == [b"once"]


def test_full_disk_at_the_start_of_a_segment_leaves_the_log_writable() -> None:
    disk = SimDisk(0)
    log = open_log(disk)
    append(log, batch(b"x" * 900))
    disk.fail(errno.ENOSPC, operation="open", path="*.log")
    with pytest.raises(DiskFull):
        append(log, batch(b"y" * 900))
    assert (log.end_offset, log.fault, len(log.segments)) == (1, "", 1)
    assert append(log, batch(b"y" * 900))[0].base_offset == 1
    flush(log)
    assert values(reopen(disk)) == [b"x" * 900, b"y" * 900]


def test_full_disk_right_after_a_roll_leaves_the_log_writable() -> None:
    disk = SimDisk(0)
    log = open_log(disk)
    append(log, batch(b"x" * 900))
    disk.fail(errno.ENOSPC, operation="write", path="*.log")
    with pytest.raises(DiskFull):
        append(log, batch(b"y" * 900))
    flush(log)
    assert values(reopen(disk)) == [b"x" * 900]
    log = open_log(disk)
    assert append(log, batch(b"y" * 900))[0].base_offset == 1
    assert values(log) == [b"x" * 900, b"y" * 900]


def test_failed_index_write_is_reported_and_tried_again() -> None:
    disk = SimDisk(0)
    sink = RecordingSink()
    log = open_log(disk, sink=sink)
    append_segments(log, [batch(b"a")], [batch(b"b")])
    flush(log)
    disk.fail(errno.ENOSPC, operation="write", path="*.index.tmp")
    work = log.upkeep()
    assert work is not None
    with pytest.raises(OSError, match="No space") as caught:
        work.run()
    log.upkept(work, caught.value)
    assert len(sink.of(UpkeepFailed)) == 1
    append(log, batch(b"c"))
    assert values(log) == [b"a", b"b", b"c"]
    upkeep(log)
    assert files(disk, names.INDEX) == [f"{0:020d}.index"]
    assert not files(disk, names.TEMPORARY)


@pytest.mark.parametrize("operation", ["write", "truncate"])
def test_broken_write_takes_the_log_offline_and_leaves_it_readable(operation: str) -> None:
    disk = SimDisk(0)
    sink = RecordingSink()
    log = open_log(disk, sink=sink)
    append(log, batch(b"acknowledged"))
    flush(log)
    if operation == "truncate":
        disk.fail(errno.ENOSPC, operation="write", path="*.log")
        disk.fail(errno.EIO, operation="truncate", path="*.log")
    else:
        disk.fail(errno.EIO, operation="write", path="*.log")
    with pytest.raises(LogOffline):
        append(log, batch(b"lost"))
    with pytest.raises(LogOffline):
        append(log, batch(b"refused"))
    assert len(sink.of(WentOffline)) == 1
    assert (log.end_offset, log.flush(), log.upkeep(), values(log)) == (1, None, None, [b"acknowledged"])
    log.close()
    assert values(reopen(disk)) == [b"acknowledged"]


def test_failed_sync_is_never_tried_again_and_promises_nothing() -> None:
    disk = SimDisk(0)
    log = open_log(disk)
    append(log, batch(b"acknowledged"))
    flush(log)
    append(log, batch(b"not acknowledged"))
    disk.fail(errno.EIO, operation="sync", path="*.log")
    work = log.flush()
    assert work is not None
    with pytest.raises(OSError, match="Input/output"):
        work.run()
    log.go_offline("the disk failed")
    assert (log.durable_end, log.flush(), log.fault) == (1, None, "the disk failed")
    with pytest.raises(LogOffline):
        append(log, batch(b"refused"))
    for change in (log.truncate, log.delete_before, log.expire, log.reset):
        with pytest.raises(LogOffline):
            change(1)
    with pytest.raises(LogOffline):
        log.roll()
    log.close()
    sink = RecordingSink()
    log = reopen(disk, sink=sink)
    # What was not acknowledged may be found in the page cache; if so, it is durable by now.
    found = values(log)
    assert found[0] == b"acknowledged"
    assert not sink.of(DamageFound)
    assert append(log, batch(b"next"))[0].base_offset == len(found)
    disk.crash(Fate.NONE)
    assert values(open_log(disk)) == found


def test_failed_directory_sync_promises_nothing() -> None:
    disk = SimDisk(0)
    log = open_log(disk)
    append(log, batch(b"acknowledged"))
    flush(log)
    log.roll()
    append(log, batch(b"in a file without a durable name"))
    disk.fail(errno.EIO, operation="sync_directory")
    work = log.flush()
    assert work is not None
    with pytest.raises(OSError, match="Input/output"):
        work.run()
    log.go_offline("the disk failed")
    assert log.durable_end == 1
    disk.crash(Fate.NONE)
    assert values(open_log(disk)) == [b"acknowledged"]


def test_failed_read_surfaces_and_the_next_one_works() -> None:
    disk = SimDisk(0)
    log = open_log(disk)
    append_segments(log, [batch(b"a")], [batch(b"b")])
    settle(log)
    for offset in (0, 1):
        disk.fail(errno.EIO, operation="read", path="*.log")
        with pytest.raises(Unavailable, match=r"\.log cannot be read at offset"):
            log.read(offset, bytes_max=1)
        assert read_header(log.read(offset, bytes_max=1)).base_offset == offset
    disk.fail(errno.EIO, operation="read", path="*.log")
    with pytest.raises(Unavailable, match=r"\.log cannot be read"):
        log.offset_for_time(0)
    assert append(log, batch(b"c"))[0].base_offset == 2
    assert values(log) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("suffix", ["*.index", "*.log", "checkpoint"])
def test_unreadable_file_at_the_start_is_an_error_that_costs_nothing(suffix: str) -> None:
    disk = SimDisk(0)
    log = open_log(disk)
    append_segments(log, [batch(b"a")], [batch(b"b")])
    settle(log)
    disk.kill()
    tree = disk.tree()
    fault = disk.fail(errno.EIO, operation="read", path=suffix)
    with pytest.raises(LogOffline, match="Input/output"):
        open_log(disk)
    assert fault.hits == 1
    assert disk.tree() == tree
    assert values(open_log(disk)) == [b"a", b"b"]


def test_directory_that_cannot_be_listed_is_an_error_that_costs_nothing() -> None:
    disk = SimDisk(0)
    log = open_log(disk)
    append(log, batch(b"a"))
    log.close()
    disk.fail(errno.EIO, operation="list")
    with pytest.raises(LogOffline, match="Input/output"):
        open_log(disk)
    assert values(open_log(disk)) == [b"a"]


CUT_FAULTS: list[tuple[Operation, str, int]] = [
    ("write", "checkpoint", 0),
    ("write", "checkpoint", 1),
    ("sync", "checkpoint", 0),
    ("sync", "checkpoint", 1),
    ("truncate", "*.log", 0),
    ("sync", "*.log", 0),
    ("open", "*.log", 0),
    ("read", "*.log", 0),
]


@pytest.mark.parametrize("fate", [Fate.NONE, Fate.ALL])
@pytest.mark.parametrize(("operation", "path", "after"), CUT_FAULTS)
def test_nothing_acknowledged_after_a_failed_truncation_is_lost(
    operation: Operation, path: str, after: int, fate: Fate
) -> None:
    disk = SimDisk(0)
    log = open_log(disk)
    append(log, batch(b"0"), batch(b"1"), batch(b"2"))
    settle(log)
    disk.fail(errno.EIO, operation=operation, path=path, after=after)
    with pytest.raises((OSError, LogOffline)):
        log.truncate(1)
    acknowledged = False
    with suppress(LogOffline):
        append(log, batch(b"acknowledged"))
        flush(log)
        acknowledged = True
    disk.crash(fate)
    assert not acknowledged or values(open_log(disk))[-1] == b"acknowledged"


def read_only(disk: SimDisk) -> SimDisk:
    disk.kill()
    disk.read_only = True
    return disk


@pytest.mark.parametrize("is_closed", [True, False])
def test_log_on_a_read_only_disk_is_readable_and_takes_no_appends(is_closed: bool) -> None:
    disk = SimDisk(0)
    log = open_log(disk)
    append_segments(log, [batch(b"a")], [batch(b"b")])
    if is_closed:
        log.close()
    else:
        flush(log)
    log = open_log(read_only(disk))
    assert values(log) == [b"a", b"b"]
    with pytest.raises(LogOffline):
        append(log, batch(b"c"))
    assert (log.flush(), log.upkeep()) == (None, None)
    log.close()


def test_torn_tail_on_a_read_only_disk_is_hidden() -> None:
    disk = SimDisk(0)
    log = open_log(disk)
    append(log, batch(b"a"))
    flush(log)
    append(log, batch(b"torn"))
    path = log.segments.active.path
    disk.write_file(path, disk.read_file(path)[:-3])
    log = open_log(read_only(disk))
    assert values(log) == [b"a"]
    assert log.end_offset == 1


@pytest.mark.parametrize("name", [f"{0:020d}.index.tmp", f"{0:020d}.log.cleaned", f"{7:020d}.index"])
def test_unfinished_work_does_not_keep_a_read_only_log_from_opening(name: str) -> None:
    disk = SimDisk(0)
    log = open_log(disk)
    append(log, batch(b"a"))
    log.close()
    disk.write_file(DIRECTORY / name, b"half")
    assert values(open_log(read_only(disk))) == [b"a"]


def test_torn_segment_before_the_last_does_not_keep_a_read_only_log_from_opening() -> None:
    disk = SimDisk(0)
    log = open_log(disk)
    append(log, batch(b"a"))
    flush(log)
    append(log, batch(b"torn"))
    path = log.segments.active.path
    log.roll()
    append(log, batch(b"beyond the torn one"))
    disk.write_file(path, disk.read_file(path)[:-3])
    log = open_log(read_only(disk))
    assert values(log) == [b"a"]


def test_fault_of_one_log_leaves_the_others_alone() -> None:
    disk = SimDisk(0)
    sick, well = (Log(disk, PurePath("data") / name, SETTINGS) for name in ("sick", "well"))
    disk.fail(errno.EIO, operation="write", path="data/sick/*", times=None)
    with pytest.raises(LogOffline):
        append(sick, batch(b"lost"))
    append(well, batch(b"kept"))
    flush(well)
    assert (well.durable_end, values(well)) == (1, [b"kept"])


def test_close_makes_everything_durable() -> None:
    disk = SimDisk(0)
    log = open_log(disk)
    append_segments(log, [batch(b"a")], [batch(b"b")])
    log.close()
    disk.crash(Fate.NONE)
    assert values(open_log(disk)) == [b"a", b"b"]


def test_nothing_is_durable_before_its_flush_has_run() -> None:
    disk = SimDisk(0)
    log = open_log(disk)
    append(log, batch(b"a"))
    work = log.flush()
    assert work is not None
    assert (log.durable_end, log.flush()) == (0, None)
    work.run()
    append(log, batch(b"behind the flush"))
    log.flushed(work)
    assert log.durable_end == 1
    disk.crash(Fate.NONE)
    assert values(open_log(disk)) == [b"a"]
