"""Logs that are not opened before they are used: what they know, what wakes them, and what they find then."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import PurePath

import pytest

from goqueue.errors import CorruptLog, LogOffline
from goqueue.log.batches import check_batches
from goqueue.log.closed_state import NEVER_MS, NEVER_WRITTEN, ClosedState, decode, encode
from goqueue.log.events import CheckpointLost, OpenFailed
from goqueue.log.log import Log
from goqueue.model.log_settings import Cleanup, LogSettings
from goqueue.seams.disk import remove_tree
from goqueue.testing import Fate, RecordingSink, SimDisk
from tests.unit.log.log_kit import batch

DIRECTORY = PurePath("data/t-0")
SETTINGS = LogSettings(segment_bytes=1024)


def _append(log: Log, count: int = 1) -> None:
    for _ in range(count):
        log.append(check_batches(batch(b"x" * 100, timestamp=1000), bytes_max=1000), leader_epoch=log.leader_epoch)


def _flush(log: Log) -> None:
    while (flush := log.flush()) is not None:
        flush.run()
        log.flushed(flush)


def _closed(disk: SimDisk, count: int = 20) -> ClosedState:
    log = Log(disk, DIRECTORY, SETTINGS)
    _append(log, count)
    log.close()
    rest = log.closed_state()
    assert rest is not None
    return rest


def test_a_log_that_was_never_written_to_has_no_files_and_can_be_asked_everything() -> None:
    disk = SimDisk(0)
    disk.make_directory(PurePath("data"))
    log = Log(disk, DIRECTORY, SETTINGS, closed_state=NEVER_WRITTEN)
    assert (log.start_offset, log.end_offset, log.durable_end, log.last_stable_offset) == (0, 0, 0, 0)
    assert log.read(0, bytes_max=1000) == b""
    assert log.offset_for_time(0) is None
    assert log.due_ms() == NEVER_MS
    assert log.is_unopened
    assert log.end_of_epoch(5) is None
    log.expire(10**12)
    assert log.flush() is None
    log.close()
    assert log.closed_state() is None
    assert not disk.exists(DIRECTORY)


def test_the_first_append_makes_the_files_and_the_first_flush_makes_them_durable() -> None:
    disk = SimDisk(0)
    log = Log(disk, DIRECTORY, SETTINGS, closed_state=NEVER_WRITTEN)
    _append(log)
    assert (log.end_offset, log.durable_end, log.is_unmarked) == (1, 0, True)
    _flush(log)
    assert log.durable_end == 1
    disk.crash(Fate.NONE)
    sink = RecordingSink()
    assert Log(disk, DIRECTORY, SETTINGS, sink).end_offset == 1
    assert sink.of(CheckpointLost) == []


@pytest.mark.parametrize("fate", [Fate.NONE, Fate.ALL])
def test_a_crash_before_the_first_flush_leaves_a_log_that_can_be_used(fate: Fate) -> None:
    disk = SimDisk(0)
    disk.make_directory(PurePath("data"))
    disk.sync_directory(PurePath())
    log = Log(disk, DIRECTORY, SETTINGS, closed_state=NEVER_WRITTEN)
    _append(log)
    disk.crash(fate)
    sink = RecordingSink()
    again = Log(disk, DIRECTORY, SETTINGS, sink)
    assert again.end_offset in (0, 1)
    assert sink.of(CheckpointLost) == []
    _append(again)
    again.close()
    assert Log(disk, DIRECTORY, SETTINGS).end_offset == again.end_offset


def test_a_log_asleep_knows_its_bounds_without_its_files_and_wakes_when_it_is_read() -> None:
    disk = SimDisk(0)
    rest = _closed(disk)
    assert next(decode(encode([rest]))) == rest
    log = Log(disk, DIRECTORY, SETTINGS, closed_state=rest)
    known = (log.start_offset, log.end_offset, log.durable_end, log.size_bytes, log.segment_count, log.leader_epoch)
    assert log.is_unopened
    assert log.read(20, bytes_max=1000) == b""
    assert log.is_unopened
    assert log.read(0, bytes_max=10_000)
    assert not log.is_unopened
    woken = (log.start_offset, log.end_offset, log.durable_end, log.size_bytes, log.segment_count, log.leader_epoch)
    assert woken == known
    assert log.was_clean
    _append(log)
    log.close()
    assert Log(disk, DIRECTORY, SETTINGS).end_offset == 21


def test_closing_a_log_that_nothing_woke_touches_no_file() -> None:
    disk = SimDisk(0)
    rest = _closed(disk)
    before = {name: disk.open(DIRECTORY / name).read_at(0, 5000) for name in disk.list_directory(DIRECTORY)}
    log = Log(disk, DIRECTORY, SETTINGS, closed_state=rest)
    log.close()
    assert log.closed_state() == rest
    assert {name: disk.open(DIRECTORY / name).read_at(0, 5000) for name in disk.list_directory(DIRECTORY)} == before


def test_a_log_whose_files_are_gone_is_reported_and_not_taken_for_an_empty_one() -> None:
    disk = SimDisk(0)
    rest = _closed(disk)
    for name in disk.list_directory(DIRECTORY):
        disk.remove(DIRECTORY / name)
    disk.remove(DIRECTORY)
    log = Log(disk, DIRECTORY, SETTINGS, closed_state=rest)
    for _ in range(2):
        with pytest.raises(CorruptLog, match="its directory is missing"):
            log.read(0, bytes_max=1000)
    assert log.fault
    assert log.closed_state() is None
    assert not disk.exists(DIRECTORY)


def test_a_log_that_lost_its_end_while_it_slept_takes_no_appends() -> None:
    disk = SimDisk(0)
    rest = _closed(disk)
    for name in disk.list_directory(DIRECTORY):
        disk.remove(DIRECTORY / name)
    log = Log(disk, DIRECTORY, SETTINGS, closed_state=rest)
    with pytest.raises(CorruptLog, match="it holds offsets 0 to 0"):
        _append(log)


def test_a_log_that_has_grown_since_it_was_described_is_taken_as_it_is() -> None:
    disk = SimDisk(0)
    rest = _closed(disk)
    other = Log(disk, DIRECTORY, SETTINGS)
    _append(other)
    other.close()
    log = Log(disk, DIRECTORY, SETTINGS, closed_state=rest)
    _append(log)
    assert log.end_offset == 22


@pytest.mark.parametrize(
    ("settings", "due_ms"),
    [
        (LogSettings(retention_ms=500, segment_ms=10_000), 1500),
        (LogSettings(retention_ms=-1, segment_ms=10_000), 11_000),
        (LogSettings(retention_ms=-1, retention_bytes=100), 0),
        (LogSettings(cleanup=Cleanup.COMPACT), 0),
    ],
)
def test_a_log_asleep_knows_when_upkeep_has_something_to_do(settings: LogSettings, due_ms: int) -> None:
    disk = SimDisk(0)
    log = Log(disk, DIRECTORY, settings, closed_state=_closed(disk))
    assert log.due_ms() == due_ms
    assert log.is_unopened


def test_a_log_that_the_disk_does_not_give_now_is_reported_once_and_opened_when_it_can_be() -> None:
    disk = SimDisk(0)
    rest = _closed(disk)
    sink = RecordingSink()
    log = Log(disk, DIRECTORY, SETTINGS, sink, closed_state=rest)
    disk.fail(errno.EIO, operation="list", times=None)
    for _ in range(3):
        with pytest.raises(LogOffline, match="cannot be opened"):
            log.read(0, bytes_max=1000)
    assert "cannot be opened" in log.obstacle
    assert not log.fault
    assert len(sink.of(OpenFailed)) == 1
    disk.heal()
    assert log.read(0, bytes_max=1000)
    assert not log.obstacle


def _cut_segment(disk: SimDisk) -> None:
    name = next(name for name in disk.list_directory(DIRECTORY) if name.endswith(".log"))
    disk.write_file(DIRECTORY / name, disk.read_file(DIRECTORY / name)[:-1])


def _remove_directory(disk: SimDisk) -> None:
    remove_tree(disk, DIRECTORY)


def _remove_segment(disk: SimDisk) -> None:
    disk.remove(DIRECTORY / next(name for name in disk.list_directory(DIRECTORY) if name.endswith(".log")))


def _ruin_checkpoint(disk: SimDisk) -> None:
    disk.write_file(DIRECTORY / "checkpoint", bytes(1024))


def _append_elsewhere(disk: SimDisk) -> None:
    log = Log(disk, DIRECTORY, SETTINGS)
    _append(log)
    log.close()


@pytest.mark.parametrize(
    "change", [_cut_segment, _remove_directory, _remove_segment, _ruin_checkpoint, _append_elsewhere]
)
def test_a_look_at_a_log_asleep_tells_when_its_files_are_others_and_opens_nothing(
    change: Callable[[SimDisk], None],
) -> None:
    disk = SimDisk(0)
    log = Log(disk, DIRECTORY, SETTINGS, closed_state=_closed(disk))
    look = log.closed_state_check()
    assert look is not None
    assert look() == ""
    change(disk)
    before = disk.tree()
    assert look() != ""
    assert log.is_unopened
    assert disk.tree() == before
