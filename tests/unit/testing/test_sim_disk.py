"""The contract of the simulated disk: what survives, what may be lost, and what fails on demand."""

from __future__ import annotations

import errno
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePath

import pytest

from goqueue.seams.disk import Disk
from goqueue.testing import DeadHandle, Fate, PowerLoss, SimDisk

DATA = PurePath("data")
LOG = DATA / "log"
SEEDS = range(300)


def disk_with(content: bytes = b"", *, capacity_bytes: int | None = None) -> SimDisk:
    """Return a disk that holds one durable file."""
    disk = SimDisk(0, capacity_bytes=capacity_bytes)
    disk.write_file(LOG, content)
    return disk


def crashed(disk: SimDisk, seed: int) -> SimDisk:
    """Return what is found if the power fails now."""
    after = disk.clone(seed)
    after.crash()
    return after


def found_after_crashes(disk: SimDisk) -> set[bytes]:
    """Return all contents of the log that power loss can leave."""
    return {crashed(disk, seed).read_file(LOG) for seed in SEEDS}


def test_simulated_disk_is_a_disk() -> None:
    disk: Disk = SimDisk(0)
    assert disk.list_directory(PurePath("/")) == []


def test_synced_data_survives_every_crash() -> None:
    disk = disk_with()
    file = disk.open(LOG)
    file.write_at(0, b"one", b"two")
    file.sync()
    assert found_after_crashes(disk) == {b"onetwo"}


def test_unsynced_write_is_kept_lost_torn_or_zeroed() -> None:
    disk = disk_with(b"head")
    disk.open(LOG).write_at(4, b"tail")
    found = found_after_crashes(disk)
    assert {b"head", b"headtail", b"headt", b"headta\0\0", b"head\0\0il", b"head\0\0\0\0"} <= found
    assert all(content.startswith(b"head") for content in found)


def test_unsynced_overwrite_never_zeroes_what_was_durable() -> None:
    disk = disk_with(b"old!")
    disk.open(LOG).write_at(0, b"new.")
    found = found_after_crashes(disk)
    assert {b"old!", b"new.", b"ned!", b"olw."} <= found
    assert not any(b"\0" in content for content in found)


def test_later_writes_may_arrive_without_earlier_ones() -> None:
    disk = disk_with()
    file = disk.open(LOG)
    for number in range(4):
        file.write_at(number * 2, b"%d." % number)
    found = found_after_crashes(disk)
    assert b"0.1." in found
    assert b"\0\0\0\0\0\x003." in found
    assert b"0.\0\x002.3." in found


def test_large_write_tears_at_sectors() -> None:
    disk = disk_with(b"x" * 100)
    disk.open(LOG).write_at(100, b"y" * 1500)
    bodies = {content for content in found_after_crashes(disk) if len(content) == 1600}
    assert b"x" * 100 + b"y" * 412 + b"\0" * 512 + b"y" * 512 + b"\0" * 64 in bodies


def test_unsynced_truncation_may_or_may_not_have_happened() -> None:
    disk = disk_with(b"abcdef")
    disk.open(LOG).truncate(3)
    assert found_after_crashes(disk) == {b"abcdef", b"abc"}


def test_same_seed_gives_the_same_crash() -> None:
    disk = disk_with()
    file = disk.open(LOG)
    for number in range(20):
        file.write_at(number * 100, bytes([number]) * 100)
    for seed in range(20):
        assert crashed(disk, seed).tree() == crashed(disk, seed).tree()


@pytest.mark.parametrize("fate", list(Fate))
def test_a_crash_can_be_told_its_fate(fate: Fate) -> None:
    disk = disk_with()
    disk.open(LOG).write_at(0, b"ab")
    disk.crash(fate)
    expected = {Fate.ALL: {b"ab"}, Fate.NONE: {b""}, Fate.ZEROS: {b"\0\0"}}
    assert disk.read_file(LOG) in expected.get(fate, {b"", b"a", b"ab", b"a\0", b"\0b", b"\0\0"})


def test_syncing_a_file_does_not_keep_its_name() -> None:
    disk = disk_with()
    file = disk.open(DATA / "new", create=True)
    file.write_at(0, b"content")
    file.sync()
    found = [crashed(disk, seed).tree().get("data/new") for seed in SEEDS]
    assert set(found) == {None, b"content"}
    disk.sync_directory(DATA)
    assert {crashed(disk, seed).tree()["data/new"] for seed in SEEDS} == {b"content"}


def test_syncing_a_directory_does_not_keep_its_own_name() -> None:
    disk = disk_with()
    disk.make_directory(DATA / "one" / "two")
    disk.open(DATA / "one" / "two" / "file", create=True)
    disk.sync_directory(DATA / "one" / "two")
    disk.sync_directory(DATA / "one")
    assert {crashed(disk, seed).exists(DATA / "one") for seed in SEEDS} == {True, False}
    disk.sync_directory(DATA)
    assert all(crashed(disk, seed).exists(DATA / "one" / "two" / "file") for seed in SEEDS)


def test_unsynced_names_persist_independently_of_each_other() -> None:
    disk = disk_with()
    disk.open(DATA / "a", create=True)
    disk.open(DATA / "b", create=True)
    disk.remove(LOG)
    found = {tuple(crashed(disk, seed).list_directory(DATA)) for seed in SEEDS}
    assert len(found) == 8


def test_rename_leaves_the_old_or_the_new_content_under_its_name() -> None:
    disk = disk_with(b"old")
    disk.write_file(DATA / "new", b"new")
    disk.rename(DATA / "new", LOG)
    found = [crashed(disk, seed).tree() for seed in SEEDS]
    before, after = {"data/log": b"old", "data/new": b"new"}, {"data/log": b"new"}
    assert before in found
    assert after in found
    assert all(tree in (before, after) for tree in found)


def test_rename_into_another_directory_never_loses_the_file() -> None:
    disk = disk_with(b"content")
    disk.make_directory(PurePath("other/deep"))
    disk.rename(LOG, PurePath("other/deep/log"))
    disk.remove(DATA)
    disk.sync_directory(PurePath("other/deep"))
    for seed in SEEDS:
        assert list(crashed(disk, seed).tree().values()) == [b"content"]


def test_open_file_outlives_rename_and_removal() -> None:
    disk = disk_with(b"content")
    file = disk.open(LOG)
    disk.rename(LOG, DATA / "other")
    disk.remove(DATA / "other")
    file.write_at(7, b"!")
    assert file.read_at(0, 100) == b"content!"
    assert disk.tree() == {}


def test_killed_process_loses_no_completed_write_but_its_files() -> None:
    disk = disk_with()
    file = disk.open(DATA / "new", create=True)
    file.write_at(0, b"content")
    disk.kill()
    assert disk.read_file(DATA / "new") == b"content"
    with pytest.raises(DeadHandle, match="opened before the crash"):
        file.read_at(0, 1)
    file.close()
    disk.crash(Fate.NONE)
    assert not disk.exists(DATA / "new")


def test_power_can_fail_during_every_operation() -> None:
    def workload(disk: SimDisk) -> None:
        file = disk.open(DATA / "new", create=True)
        file.write_at(0, b"content")
        file.sync()
        disk.rename(DATA / "new", LOG)
        disk.sync_directory(DATA)

    whole = disk_with(b"old")
    workload(whole)
    assert whole.operations == 5
    outcomes = []
    for operation in range(1, whole.operations + 1):
        disk = disk_with(b"old")
        disk.crash_after(operation)
        with pytest.raises(PowerLoss):
            workload(disk)
        with pytest.raises(PowerLoss, match="call crash"):
            disk.exists(LOG)
        outcomes.append({crashed(disk, seed).tree()["data/log"] for seed in SEEDS})
    assert outcomes == [{b"old"}, {b"old"}, {b"old"}, {b"old", b"content"}, {b"old", b"content"}]


def test_interrupted_sync_makes_only_part_of_the_data_durable() -> None:
    disk = disk_with()
    file = disk.open(LOG)
    file.write_at(0, b"content")
    disk.crash_after(1)
    with pytest.raises(PowerLoss):
        file.sync()
    assert {b"", b"con", b"content"} <= found_after_crashes(disk)


def test_failed_sync_drops_the_data_and_the_next_one_lies() -> None:
    disk = disk_with()
    fault = disk.fail(errno.EIO, operation="sync", path="data/*")
    file = disk.open(LOG)
    file.write_at(0, b"lost")
    with pytest.raises(OSError) as raised:
        file.sync()
    assert (raised.value.errno, fault.hits) == (errno.EIO, 1)
    file.write_at(4, b"kept")
    file.sync()
    assert file.read_at(0, 100) == b"lostkept"
    found_after_kills = set()
    for seed in range(20):
        killed = disk.clone(seed)
        killed.kill()
        found_after_kills.add(killed.read_file(LOG))
        assert found_after_crashes(killed) == {b"\0\0\0\0kept"}
    assert found_after_kills == {b"lostkept", b"\0\0\0\0kept"}


def test_failed_directory_sync_leaves_names_unsynced() -> None:
    disk = disk_with()
    disk.open(DATA / "new", create=True)
    disk.fail(errno.EIO, operation="sync_directory")
    with pytest.raises(OSError, match="data"):
        disk.sync_directory(DATA)
    assert {crashed(disk, seed).exists(DATA / "new") for seed in SEEDS} == {True, False}


def test_fault_strikes_only_its_operation_its_paths_and_its_turn() -> None:
    disk = disk_with(b"content")
    disk.write_file(DATA / "index", b"content")
    fault = disk.fail(errno.EIO, operation="read", path=lambda path: path.name == "log", after=1, times=2)
    log, index = disk.open(LOG), disk.open(DATA / "index")
    results = []
    for _ in range(5):
        assert index.read_at(0, 1) == b"c"
        try:
            results.append(log.read_at(0, 1))
        except OSError:
            results.append(b"")
    assert results == [b"c", b"", b"", b"c", b"c"]
    assert fault.hits == 2


def test_fault_without_end_lasts_until_healed() -> None:
    disk = disk_with()
    disk.fail(errno.EMFILE, operation="open", times=None)
    for _ in range(3):
        with pytest.raises(OSError, match="data/log"):
            disk.open(LOG)
    disk.heal()
    disk.open(LOG)


def test_failed_write_may_leave_a_part_of_its_data() -> None:
    found = set()
    for seed in SEEDS:
        disk = disk_with().clone(seed)
        disk.fail(errno.EIO, operation="write")
        with pytest.raises(OSError):
            disk.open(LOG).write_at(0, b"abc")
        found.add(disk.read_file(LOG))
    assert found == {b"", b"a", b"ab"}


def test_full_disk_takes_what_fits() -> None:
    disk = disk_with(b"1234", capacity_bytes=10)
    file = disk.open(LOG)
    with pytest.raises(OSError) as raised:
        file.write_at(4, b"567890abc")
    assert raised.value.errno == errno.ENOSPC
    assert disk.read_file(LOG) == b"1234567890"
    assert disk.free_fraction(DATA) == 0
    file.write_at(0, b"0123456789")
    file.truncate(5)
    assert disk.free_fraction(DATA) == 0.5


def test_read_only_disk_refuses_every_change_and_serves_reads() -> None:
    disk = disk_with(b"content")
    file = disk.open(LOG)
    disk.read_only = True
    for change in (
        lambda: file.write_at(0, b"x"),
        lambda: file.truncate(0),
        file.sync,
        lambda: disk.open(LOG),
        lambda: disk.open(DATA / "new", create=True),
        lambda: disk.make_directory(DATA / "new"),
        lambda: disk.rename(LOG, DATA / "new"),
        lambda: disk.remove(LOG),
        lambda: disk.sync_directory(DATA),
    ):
        with pytest.raises(OSError) as raised:
            change()
        assert raised.value.errno == errno.EROFS
    assert disk.open(LOG, writable=False).read_at(0, 100) == b"content"
    assert disk.tree() == {"data/log": b"content"}


def test_clone_and_original_go_their_own_ways() -> None:
    disk = disk_with(b"shared")
    file = disk.open(LOG)
    file.write_at(6, b"!")
    clone = disk.clone(1)
    clone.open(LOG).write_at(0, b"S")
    file.write_at(0, b"Z")
    file.sync()
    clone.remove(LOG)
    clone.crash(Fate.NONE)
    assert disk.durable_tree() == {"data/log": b"Zhared!"}
    assert clone.tree() == {"data/log": b"shared"}


def test_flipped_byte_is_read_before_and_after_a_crash() -> None:
    disk = disk_with(b"abc")
    disk.flip(LOG, 1, 0x01)
    assert disk.read_file(LOG) == b"acc"
    assert found_after_crashes(disk) == {b"acc"}


def test_tree_moves_to_the_real_disk_and_back(tmp_path: Path) -> None:
    disk = disk_with(b"content")
    disk.copy_to_real(tmp_path)
    assert (tmp_path / LOG).read_bytes() == b"content"
    other = SimDisk(0)
    other.copy_from_real(tmp_path)
    assert other.durable_tree() == disk.tree()


def test_threads_share_a_disk() -> None:
    disk = disk_with()
    file = disk.open(LOG)

    def write(number: int) -> None:
        file.write_at(number, bytes([number]))
        file.sync()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(200)))
    assert disk.durable_tree() == {"data/log": bytes(range(200))}
