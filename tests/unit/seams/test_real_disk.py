"""The contract of the operating system's disk, as far as one process can see it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from goqueue.errors import DataDirectoryLocked, LogOffline
from goqueue.log.log import Log
from goqueue.model.log_settings import LogSettings
from goqueue.seams.disk import Disk, RealDisk, lock_directory, remove_tree, unusable_directory


def test_real_disk_is_a_disk(tmp_path: Path) -> None:
    disk: Disk = RealDisk()
    assert disk.list_directory(tmp_path) == []


def test_parts_are_written_one_after_the_other(tmp_path: Path) -> None:
    file = RealDisk().open(tmp_path / "file", create=True)
    file.write_at(3, b"one", bytearray(b"two"), memoryview(b"three"))
    file.write_at(0, b"abc")
    file.sync()
    assert file.read_at(0, 100) == b"abconetwothree"
    assert file.size() == 14
    file.close()


def test_more_parts_are_written_than_one_system_call_takes(tmp_path: Path) -> None:
    parts = [b"%05d" % number for number in range(2500)]
    file = RealDisk().open(tmp_path / "file", create=True)
    file.write_at(1, *parts)
    assert file.read_at(1, 20_000) == b"".join(parts)
    file.close()


def test_read_returns_less_only_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    file = RealDisk().open(tmp_path / "file", writable=False)
    assert file.read_at(0, 3) == b"con"
    assert file.read_at(4, 100) == b"ent"
    assert file.read_at(100, 1) == b""
    file.close()


def test_truncation_cuts_and_extends_with_zeros(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    file = RealDisk().open(tmp_path / "file")
    file.truncate(3)
    file.truncate(5)
    assert file.read_at(0, 100) == b"con\0\0"
    file.close()


def test_file_can_be_closed_twice_and_not_used_afterwards(tmp_path: Path) -> None:
    file = RealDisk().open(tmp_path / "file", create=True)
    file.close()
    file.close()
    with pytest.raises(OSError) as raised:
        file.read_at(0, 1)
    assert raised.value.errno == errno.EBADF


def test_file_opened_for_reading_refuses_writes(tmp_path: Path) -> None:
    file = RealDisk().open(tmp_path / "file", create=True, writable=False)
    with pytest.raises(OSError) as raised:
        file.write_at(0, b"x")
    assert raised.value.errno == errno.EBADF
    file.close()


def test_absent_file_is_made_only_on_request(tmp_path: Path) -> None:
    disk = RealDisk()
    with pytest.raises(FileNotFoundError):
        disk.open(tmp_path / "file")
    disk.open(tmp_path / "file", create=True).close()
    disk.open(tmp_path / "file", create=True).close()
    assert disk.list_directory(tmp_path) == ["file"]


def test_directories_are_made_with_their_parents_and_listed_sorted(tmp_path: Path) -> None:
    disk = RealDisk()
    for name in ("c", "a", "b"):
        disk.make_directory(tmp_path / "deep" / name)
    disk.make_directory(tmp_path / "deep")
    assert disk.list_directory(tmp_path / "deep") == ["a", "b", "c"]
    assert disk.is_directory(tmp_path / "deep" / "a")
    disk.sync_directory(tmp_path / "deep")


def test_rename_replaces_a_file(tmp_path: Path) -> None:
    disk = RealDisk()
    (tmp_path / "new").write_bytes(b"new")
    (tmp_path / "old").write_bytes(b"older")
    disk.rename(tmp_path / "new", tmp_path / "old")
    assert disk.list_directory(tmp_path) == ["old"]
    assert disk.size_of(tmp_path / "old") == 3


def test_files_and_empty_directories_can_be_removed(tmp_path: Path) -> None:
    disk = RealDisk()
    disk.make_directory(tmp_path / "directory")
    disk.open(tmp_path / "directory" / "file", create=True).close()
    with pytest.raises(OSError) as raised:
        disk.remove(tmp_path / "directory")
    assert raised.value.errno == errno.ENOTEMPTY
    disk.remove(tmp_path / "directory" / "file")
    disk.remove(tmp_path / "directory")
    assert not disk.exists(tmp_path / "directory")


def test_free_fraction_is_a_fraction(tmp_path: Path) -> None:
    assert 0 <= RealDisk().free_fraction(tmp_path) <= 1


def test_data_directory_has_one_owner_at_a_time(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    with (
        lock_directory(directory),
        pytest.raises(DataDirectoryLocked, match="in use"),
        lock_directory(directory),
    ):
        pass
    with lock_directory(directory):
        assert RealDisk().list_directory(directory) == ["lock"]


def test_a_symbolic_link_is_not_written_through(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    foreign.write_bytes(b"precious")
    link = tmp_path / "checkpoint"
    link.symlink_to(foreign)
    for create in (False, True):
        with pytest.raises(OSError, match="symbolic link") as refused:
            RealDisk().open(link, create=create)
        assert refused.value.errno == errno.ELOOP
    assert foreign.read_bytes() == b"precious"
    assert RealDisk().open(link, writable=False).read_at(0, 100) == b"precious"


def test_a_log_whose_checkpoint_is_a_symbolic_link_leaves_the_foreign_file_alone(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    foreign.write_bytes(b"precious")
    directory = tmp_path / "t-0"
    directory.mkdir()
    (directory / "checkpoint").symlink_to(foreign)
    with pytest.raises(LogOffline, match="symbolic link"):
        Log(RealDisk(), directory, LogSettings())
    assert foreign.read_bytes() == b"precious"


@pytest.mark.parametrize("is_dangling", [False, True])
def test_removing_a_tree_removes_symbolic_links_and_not_what_they_point_at(tmp_path: Path, is_dangling: bool) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "file").write_bytes(b"precious")
    target = tmp_path / "missing" if is_dangling else foreign
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "inner").symlink_to(target, target_is_directory=True)
    link = tmp_path / "link"
    link.symlink_to(target, target_is_directory=True)
    for path in (tree, link):
        remove_tree(RealDisk(), path)
        assert not path.is_symlink()
        assert not path.exists()
    assert (foreign / "file").read_bytes() == b"precious"


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.EACCES, f"cannot be made: user {os.geteuid()} may not write to {{parent}}"),
        (errno.EROFS, "cannot be made: the file system of {parent} is read-only"),
        (errno.ENOSPC, "cannot be made: the disk is full"),
        (errno.EIO, "cannot be made: Input/output error"),
    ],
)
def test_data_directory_that_cannot_be_made_says_why(number: int, reason: str, tmp_path: Path) -> None:
    wanted = tmp_path / "deep" / "data"
    error = unusable_directory(wanted, OSError(number, os.strerror(number)), "made")
    assert error.message == f"the data directory {wanted} {reason.format(parent=tmp_path)}"
    assert "--data-dir" in error.hint
