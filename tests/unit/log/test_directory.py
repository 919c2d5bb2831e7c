"""Opening a log puts its directory in order: missing, foreign, stale and unfinished files."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import PurePath

import pytest

from goqueue.errors import CorruptLog, LogOffline
from goqueue.log import names
from goqueue.log.events import CheckpointLost, DamageFound, ForeignFile, IndexRebuilt
from goqueue.log.log import Log
from goqueue.log.sidecar import read_head
from goqueue.model.log_settings import Cleanup
from goqueue.testing import RecordingSink, SimDisk
from tests.unit.log.log_kit import (
    DIRECTORY,
    NOW_MS,
    SETTINGS,
    append,
    append_segments,
    batch,
    files,
    keyed,
    open_log,
    readable,
    remove_files,
    reopen,
    settle,
    values,
)

COMPACTING = replace(SETTINGS, cleanup=Cleanup.COMPACT, min_cleanable_dirty_ratio=0)
ALL = [b"0", b"1", b"2", b"3", b"4", b"5"]


def path_of(base: int, suffix: str = names.LOG) -> PurePath:
    return DIRECTORY / f"{base:020d}{suffix}"


@pytest.fixture
def disk() -> SimDisk:
    """A disk with a cleanly closed log of three segments with two records each."""
    disk = SimDisk(0)
    log = open_log(disk)
    append_segments(log, *([batch(b"%d" % (at)), batch(b"%d" % (at + 1))] for at in (0, 2, 4)))
    log.close()
    return disk


def test_log_in_a_new_directory_is_empty_and_survives_a_power_loss() -> None:
    disk = SimDisk(0)
    assert (open_log(disk).start_offset, open_log(disk).end_offset) == (0, 0)
    disk.crash()
    log = open_log(disk)
    append(log, batch(b"a"))
    settle(log)
    disk.crash()
    assert values(open_log(disk)) == [b"a"]


def test_clean_log_opens_without_checking_its_sealed_segments(disk: SimDisk) -> None:
    reads = disk.fail(5, operation="read", path=lambda path: path.name in (path_of(0).name, path_of(2).name))
    assert open_log(disk).end_offset == 6
    assert reads.hits == 0


@pytest.mark.parametrize("base", [0, 2, 4])
@pytest.mark.parametrize("has_indexes", [True, False])
def test_missing_segment_is_damage_and_the_others_are_readable(disk: SimDisk, base: int, has_indexes: bool) -> None:
    disk.remove(path_of(base))
    disk.remove(path_of(base, names.INDEX))
    if not has_indexes:
        remove_files(disk, names.INDEX)
    sink = RecordingSink()
    log = open_log(disk, sink=sink)
    assert sink.of(DamageFound)
    assert set(readable(log)) == set(range(6)) - {base, base + 1}
    assert append(log, batch(b"next"))[0].base_offset == 6
    settle(log)
    assert set(readable(reopen(disk))) == set(range(7)) - {base, base + 1}


def test_log_whose_segments_are_all_gone_goes_on_behind_them_and_says_so(disk: SimDisk) -> None:
    remove_files(disk, names.LOG)
    sink = RecordingSink()
    log = open_log(disk, sink=sink)
    assert sink.of(DamageFound)
    assert append(log, batch(b"next"))[0].base_offset >= 6


def test_missing_index_is_made_again(disk: SimDisk) -> None:
    remove_files(disk, names.INDEX)
    log = open_log(disk)
    assert values(log) == ALL
    log.close()
    assert len(files(disk, names.INDEX)) == 3


@pytest.mark.parametrize("base", [0, 2, 4])
def test_index_that_is_too_long_is_not_believed(disk: SimDisk, base: int) -> None:
    path = path_of(base, names.INDEX)
    disk.write_file(path, disk.read_file(path) + b"more")
    sink = RecordingSink()
    assert values(open_log(disk, sink=sink)) == ALL
    assert [event.path for event in sink.of(IndexRebuilt)] == [str(path)]
    assert not sink.of(DamageFound)


@pytest.mark.parametrize("base", [2, 4])
def test_index_of_another_segment_is_not_believed(disk: SimDisk, base: int) -> None:
    disk.write_file(path_of(base, names.INDEX), disk.read_file(path_of(0, names.INDEX)))
    sink = RecordingSink()
    assert values(open_log(disk, sink=sink)) == ALL
    assert sink.of(IndexRebuilt)


def test_index_that_goes_bad_while_the_log_is_open_is_made_again(disk: SimDisk) -> None:
    sink = RecordingSink()
    log = open_log(disk, sink=sink)
    disk.write_file(path_of(2, names.INDEX), b"not an index")
    assert values(log) == ALL
    assert sink.of(IndexRebuilt)


def test_stale_index_of_a_longer_segment_is_damage_and_not_a_reason_to_reuse_offsets(disk: SimDisk) -> None:
    data = disk.read_file(path_of(4))
    disk.write_file(path_of(4), data[: len(data) // 2])
    sink = RecordingSink()
    log = open_log(disk, sink=sink)
    assert [(event.first_offset, event.end_offset) for event in sink.of(DamageFound)] == [(5, 6)]
    assert log.end_offset == 6


def test_index_without_its_segment_is_removed(disk: SimDisk) -> None:
    disk.write_file(path_of(9, names.INDEX), disk.read_file(path_of(4, names.INDEX)))
    assert values(open_log(disk)) == ALL
    assert not disk.exists(path_of(9, names.INDEX))


def test_foreign_files_are_reported_and_left_alone(disk: SimDisk) -> None:
    foreign = ["notes.txt", "00000000000000000000.log.bak", "123.log", "00000000000000000000.LOG"]
    for name in foreign:
        disk.write_file(DIRECTORY / name, b"mine")
    disk.make_directory(DIRECTORY / "folder")
    sink = RecordingSink()
    assert values(open_log(disk, sink=sink)) == ALL
    assert {event.name for event in sink.of(ForeignFile)} == {*foreign, "folder"}
    assert all(disk.read_file(DIRECTORY / name) == b"mine" for name in foreign)


def test_overlapping_segments_are_refused_with_the_name_of_the_second(disk: SimDisk) -> None:
    disk.write_file(path_of(3), disk.read_file(path_of(2)))
    before = disk.tree()
    with pytest.raises(CorruptLog) as caught:
        open_log(disk)
    assert caught.value.path.endswith(path_of(3).name)
    assert disk.tree() == before


@pytest.mark.parametrize("suffix", [names.LOG, names.INDEX])
def test_directory_in_the_place_of_a_file_is_an_error_that_changes_nothing(disk: SimDisk, suffix: str) -> None:
    path = path_of(2, suffix)
    disk.remove(path)
    disk.make_directory(path)
    before = disk.tree()
    with pytest.raises(LogOffline, match="Is a directory"):
        open_log(disk)
    assert disk.tree() == before


def test_lost_checkpoint_is_reported_and_made_again(disk: SimDisk) -> None:
    disk.remove(DIRECTORY / names.CHECKPOINT)
    sink = RecordingSink()
    assert values(open_log(disk, sink=sink)) == ALL
    assert len(sink.of(CheckpointLost)) == 1
    sink = RecordingSink()
    assert values(reopen(disk, sink=sink)) == ALL
    assert not sink.of(CheckpointLost)


def test_unfinished_index_is_removed(disk: SimDisk) -> None:
    disk.write_file(path_of(0, ".index.tmp"), b"half of an index")
    assert values(open_log(disk)) == ALL
    assert not files(disk, names.TEMPORARY)


@pytest.mark.parametrize("base", [0, 2, 4])
def test_unfinished_compaction_is_thrown_away(disk: SimDisk, base: int) -> None:
    for suffix in (".log.cleaned", ".index.cleaned", ".index.swap", ".index.cleaned.tmp"):
        disk.write_file(path_of(base, suffix), b"anything")
    assert values(open_log(disk)) == ALL
    assert not files(disk, names.CLEANED)
    assert not files(disk, names.SWAP)


def compacted_but_not_swapped() -> SimDisk:
    """Return a disk whose first two segments are replaced by one committed `.swap`."""
    disk = SimDisk(0)
    log = open_log(disk, COMPACTING)
    append_segments(log, [keyed((b"k", b"old"))], [keyed((b"k", b"new"))], [keyed((b"other", b"last"))])
    settle(log)
    work = log.compaction(NOW_MS)
    assert work is not None
    log.compacted(work, work.run())
    disk.kill()
    for name in files(disk, names.CLEANED):
        disk.rename(DIRECTORY / name, DIRECTORY / name.replace(names.CLEANED, names.SWAP))
    return disk


def swap_states() -> list[tuple[str, ...]]:
    """Return what may be gone of the replaced files, in each order that a crash can leave."""
    replaced = [path_of(base, suffix).name for base in (0, 1) for suffix in (names.LOG, names.INDEX)]
    return [gone for count in range(len(replaced) + 1) for gone in combinations(replaced, count)]


@pytest.mark.parametrize("gone", swap_states(), ids=lambda gone: f"{len(gone)} gone")
def test_committed_swap_is_finished_whatever_is_left_of_what_it_replaces(gone: tuple[str, ...]) -> None:
    disk = compacted_but_not_swapped()
    for name in gone:
        disk.remove(DIRECTORY / name)
    log = open_log(disk, COMPACTING)
    assert values(log) == [b"new", b"last"]
    assert (log.start_offset, log.end_offset) == (0, 3)
    assert not files(disk, names.SWAP)
    assert read_head(disk, path_of(0)).is_compacted


def test_committed_swap_whose_index_took_its_place_already_is_finished() -> None:
    disk = compacted_but_not_swapped()
    for base in (0, 1):
        disk.remove(path_of(base))
        disk.remove(path_of(base, names.INDEX))
    disk.rename(path_of(0, ".index.swap"), path_of(0, names.INDEX))
    assert values(open_log(disk, COMPACTING)) == [b"new", b"last"]


def test_committed_swap_without_any_index_is_refused_and_nothing_is_removed() -> None:
    disk = compacted_but_not_swapped()
    for name in (path_of(0, ".index.swap"), path_of(0, names.INDEX)):
        disk.remove(name)
    before = disk.tree()
    with pytest.raises(CorruptLog):
        open_log(disk, COMPACTING)
    assert disk.tree() == before


def test_two_logs_do_not_share_anything() -> None:
    disk = SimDisk(0)
    logs = [Log(disk, PurePath("data") / name, SETTINGS) for name in ("a-0", "a-1")]
    for number, log in enumerate(logs):
        append(log, batch(b"%d" % number))
        log.close()
    assert [values(Log(disk, log.directory, SETTINGS)) for log in logs] == [[b"0"], [b"1"]]
