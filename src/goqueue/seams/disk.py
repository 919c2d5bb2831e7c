"""Files, as the core sees them.

A `Disk` hands out `File`s that are read and written at positions, and it makes three promises that the storage
code is built on; the simulated disk of `goqueue.testing` keeps exactly these and no more:

- file data is durable once `File.sync` has returned;
- a name (created, renamed or removed) is durable once `Disk.sync_directory` of its directory has returned;
- after `File.sync` has raised, the data it should have covered may be gone, and a later `sync` may return
  without bringing it back. So the failed sync of a file is never retried.

All calls block. Paths are absolute or relative to the working directory, as the caller gave them.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import Protocol

from goqueue.errors import DataDirectoryLocked, DataDirectoryUnusable

Buffer = bytes | bytearray | memoryview

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
"""Error numbers of a full disk or a used-up quota."""

# writev takes at most 1,024 parts on Linux and macOS.
_PARTS_MAX = 1024
_SYMLINK = "this is a symbolic link, and GoQueue writes to no file outside of its data directory"


class File(Protocol):
    """An open file. It has no cursor: every read and write names its position."""

    def read_at(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes from `position`; fewer only where the file ends."""
        ...

    def write_at(self, position: int, *parts: Buffer) -> None:
        """Write all `parts` one after the other from `position`; an error may leave some of them written."""
        ...

    def sync(self) -> None:
        """Make the file's data and size durable."""
        ...

    def descriptor(self) -> int | None:
        """Return the number by which the operating system can be asked to sync the file; None if it has none."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file, or extend it with zeros, to `size` bytes."""
        ...

    def size(self) -> int:
        """Return the file's size in bytes."""
        ...

    def close(self) -> None:
        """Close the file; promises nothing about durability. Closing twice is harmless."""
        ...


class Disk(Protocol):
    """A tree of directories and files."""

    def open(self, path: PurePath, *, create: bool = False, writable: bool = True) -> File:
        """Open a file; with `create`, make it if it is absent. FileNotFoundError if it is absent otherwise.

        Where the name is a symbolic link, it is not opened to be written: OSError.
        """
        ...

    def list_directory(self, directory: PurePath) -> list[str]:
        """Return the names in a directory, sorted."""
        ...

    def exists(self, path: PurePath) -> bool:
        """Return whether a file, directory or symbolic link of that name exists."""
        ...

    def is_symlink(self, path: PurePath) -> bool:
        """Return whether the name is a symbolic link, whatever it points at."""
        ...

    def is_directory(self, path: PurePath) -> bool:
        """Return whether the name is a directory."""
        ...

    def size_of(self, path: PurePath) -> int:
        """Return the size in bytes of the file of that name."""
        ...

    def make_directory(self, path: PurePath) -> None:
        """Make a directory and its missing parents; harmless if it exists."""
        ...

    def rename(self, source: PurePath, target: PurePath) -> None:
        """Give a file (or directory) another name in the same file system, replacing a file that has it."""
        ...

    def remove(self, path: PurePath) -> None:
        """Remove a file, or an empty directory."""
        ...

    def sync_directory(self, directory: PurePath) -> None:
        """Make the names in a directory durable."""
        ...

    def free_fraction(self, path: PurePath) -> float:
        """Return which part of the file system below `path` is free, from 0 to 1."""
        ...


def make_durable_directory(disk: Disk, path: PurePath) -> None:
    """Make a directory and its missing parents, and make all the names on the way durable."""
    disk.make_directory(path)
    for parent in path.parents:
        try:
            disk.sync_directory(parent)
        except PermissionError:
            # A directory that we may not even read is none that we made.
            return


def remove_tree(disk: Disk, path: PurePath) -> None:
    """Remove a directory with all that is in it, durably; harmless if it is absent.

    A symbolic link is removed, but not its target.
    """
    if disk.is_symlink(path):
        disk.remove(path)
    elif disk.exists(path):
        for name in disk.list_directory(path):
            if disk.is_directory(path / name) and not disk.is_symlink(path / name):
                remove_tree(disk, path / name)
            else:
                disk.remove(path / name)
        disk.remove(path)
    disk.sync_directory(path.parent)


class RealFile:
    """A file of the operating system."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def read_at(self, position: int, size: int) -> bytes:
        data = os.pread(self._fd, size, position)
        if len(data) == size or not data:
            return data
        return self._read_rest(position, size, data)

    def _read_rest(self, position: int, size: int, first: bytes) -> bytes:
        parts = [first]
        got = len(first)
        while got < size and (part := os.pread(self._fd, size - got, position + got)):
            parts.append(part)
            got += len(part)
        return b"".join(parts)

    def write_at(self, position: int, *parts: Buffer) -> None:
        if len(parts) == 1:
            written = os.pwrite(self._fd, parts[0], position)
            if written == len(parts[0]):
                return
        else:
            if position < 0:  # pwritev takes -1 for the file's own cursor
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
            written = os.pwritev(self._fd, parts[:_PARTS_MAX], position)
        # Whatever one call did not take is written piece by piece: rare, and never the fast path.
        for part in parts:
            if written >= len(part):
                written -= len(part)
                position += len(part)
                continue
            rest = memoryview(part)[written:]
            position += written
            written = 0
            while rest:
                count = os.pwrite(self._fd, rest, position)
                rest = rest[count:]
                position += count

    def sync(self) -> None:
        if sys.platform == "darwin":
            # There, fsync leaves the data in the drive's own cache.
            fcntl.fcntl(self._fd, fcntl.F_FULLFSYNC)
        else:
            os.fdatasync(self._fd)

    def descriptor(self) -> int | None:
        return self._fd

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class RealDisk:
    """The operating system's file systems."""

    def open(self, path: PurePath, *, create: bool = False, writable: bool = True) -> RealFile:
        flags = (os.O_RDWR | os.O_NOFOLLOW if writable else os.O_RDONLY) | (os.O_CREAT if create else 0) | os.O_CLOEXEC
        try:
            return RealFile(os.open(path, flags, 0o640))
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            raise OSError(errno.ELOOP, _SYMLINK, str(path)) from error

    def list_directory(self, directory: PurePath) -> list[str]:
        return sorted(entry.name for entry in Path(directory).iterdir())

    def exists(self, path: PurePath) -> bool:
        return os.path.lexists(path)

    def is_directory(self, path: PurePath) -> bool:
        return Path(path).is_dir()

    def size_of(self, path: PurePath) -> int:
        return Path(path).stat().st_size

    def make_directory(self, path: PurePath) -> None:
        Path(path).mkdir(mode=0o750, parents=True, exist_ok=True)

    def rename(self, source: PurePath, target: PurePath) -> None:
        Path(source).replace(target)

    def remove(self, path: PurePath) -> None:
        if self.is_directory(path) and not Path(path).is_symlink():
            Path(path).rmdir()
        else:
            Path(path).unlink()

    def is_symlink(self, path: PurePath) -> bool:
        return Path(path).is_symlink()

    def sync_directory(self, directory: PurePath) -> None:
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def free_fraction(self, path: PurePath) -> float:
        stat = os.statvfs(path)
        return stat.f_bavail / stat.f_blocks if stat.f_blocks else 1.0


@contextmanager
def lock_directory(directory: Path) -> Iterator[None]:
    """Own a data directory for the length of the block, and make it if it is absent.

    DataDirectoryLocked if another process owns it, DataDirectoryUnusable if it cannot be made or written to.
    """
    try:
        directory.mkdir(mode=0o750, parents=True, exist_ok=True)
    except OSError as error:
        raise unusable_directory(directory, error, "made") from error
    try:
        fd = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    except OSError as error:
        raise unusable_directory(directory, error, "used") from error
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DataDirectoryLocked(
                f"{directory} is in use by another process", hint="stop it, or choose another --data-dir"
            ) from None
        yield
    finally:
        os.close(fd)


def unusable_directory(directory: Path, error: OSError, act: str) -> DataDirectoryUnusable:
    """Return the error for a data directory that cannot be created or used, with a hint."""
    # The nearest name on the way that exists is the one that stands in the way.
    existing = next((each for each in (directory, *directory.parents) if os.path.lexists(each)), directory)
    place = "it" if existing == directory else str(existing)
    hint = "choose another --data-dir"
    if error.errno in {errno.EACCES, errno.EPERM}:
        reason = f"user {os.geteuid()} may not write to {existing}"
        hint = f"give that user the right to write there, or {hint}"
    elif error.errno == errno.EROFS:
        reason = f"the file system of {existing} is read-only"
    elif error.errno in NO_ROOM:
        reason = "the disk is full"
        hint = f"make room, or {hint}"
    elif not existing.is_dir():
        act = "used" if existing == directory else act
        reason = f"{place} is {'a file' if existing.is_file() else 'no directory'}"
    else:
        reason = error.strerror or str(error)
    return DataDirectoryUnusable(f"the data directory {directory} cannot be {act}: {reason}", hint=hint)
