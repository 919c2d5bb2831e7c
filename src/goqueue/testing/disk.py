"""A disk in memory that loses what was not synced, and fails on demand.

Owns the `Disk` protocol over a simulated tree: handles, errors, and the ways to hurt it. What power loss does
to bytes and to names is written in `disk_model` and `disk_names`; which operation fails, in `disk_faults`. It
keeps the three promises of `goqueue.seams.disk` and no more; without faults it acts as the operating system
does.

The ways to hurt it:

- `crash` is power loss: the seed decides what of the unsynced changes is found afterwards;
- `kill` is the end of the process: all completed operations stay, unsynced as they were;
- `crash_after(n)` cuts the power in the middle of the n-th operation from now, which has then happened in the
  cache and is as unsynced as a change can be. Everything raises `PowerLoss` until `crash` or `kill` decides
  what is left;
- `fail` makes chosen operations raise. A write that fails leaves a seeded part of its data written. A sync
  that fails drops the file's unsynced changes: they stay readable until `crash`, maybe until `kill`, and the next sync
  succeeds without them, as on Linux. A directory sync that fails leaves its names unsynced;
- `capacity_bytes` bounds the sizes of all named files together; `read_only` refuses every change.

Open files die with `crash` and `kill`: using one afterwards raises `DeadHandle`. The same seed and the same
calls give the same disk. All calls are safe from any thread.
"""

from __future__ import annotations

import errno
from pathlib import Path, PurePath
from random import Random
from threading import Lock

from goqueue.seams.disk import Buffer
from goqueue.testing.disk_faults import DeadHandle, Fault, Gate, Operation, PathRule
from goqueue.testing.disk_model import Content, Fate, draw_fate
from goqueue.testing.disk_names import Directory, Names, os_error


class SimFile:
    """An open file of a simulated disk; it outlives its name, but not a crash."""

    __slots__ = ("_content", "_disk", "_generation", "_is_closed", "_is_writable", "_path")

    def __init__(self, disk: SimDisk, path: PurePath, content: Content, *, writable: bool) -> None:
        self._disk = disk
        self._path = path
        self._content = content
        self._generation = disk._generation
        self._is_writable = writable
        self._is_closed = False

    def read_at(self, position: int, size: int) -> bytes:
        disk = self._disk
        with disk._lock:
            self._check_open()
            if error := disk._gate.refusal("read", self._path):
                raise error
            if position < 0 or size < 0:
                raise os_error(errno.EINVAL)
            return self._content.read(position, size)

    def write_at(self, position: int, *parts: Buffer) -> None:
        disk = self._disk
        data = b"".join(parts)
        with disk._lock:
            self._check_open()
            if not self._is_writable:
                raise os_error(errno.EBADF)
            if position < 0:
                raise os_error(errno.EINVAL)
            fits = disk._fitting_bytes(self._content, position, len(data))
            if error := disk._gate.refusal("write", self._path):
                fits = disk._written_before(error, fits)
            elif fits < len(data):
                error = os_error(errno.ENOSPC)
            if fits:
                self._content.write(position, data if fits == len(data) else data[:fits])
                disk._gate.count()
            if error:
                raise error

    def sync(self) -> None:
        disk = self._disk
        with disk._lock:
            self._check_open()
            if error := disk._gate.refusal("sync", self._path):
                self._content.fail_sync()
                raise error
            # Counted first: a sync that the power cuts short has made nothing safe; the crash decides.
            disk._gate.count()
            self._content.sync()

    def descriptor(self) -> int | None:
        return None

    def truncate(self, size: int) -> None:
        disk = self._disk
        with disk._lock:
            self._check_open()
            if error := disk._gate.refusal("truncate", self._path):
                raise error
            if not self._is_writable or size < 0:
                raise os_error(errno.EINVAL)
            self._content.truncate(size)
            disk._gate.count()

    def size(self) -> int:
        with self._disk._lock:
            self._check_open()
            self._disk._gate.check_power()
            return len(self._content.cached)

    def close(self) -> None:
        self._is_closed = True

    def _check_open(self) -> None:
        if self._is_closed:
            raise os_error(errno.EBADF)
        if self._generation != self._disk._generation:
            raise DeadHandle(f"{self._path} was opened before the crash; open it again")


class SimDisk:
    """A simulated disk. The working directory of its processes is its root, so `data/log` is `/data/log`."""

    def __init__(self, seed: int, *, capacity_bytes: int | None = None) -> None:
        self.capacity_bytes = capacity_bytes
        self._gate = Gate()
        self._generation = 0
        self._lock = Lock()
        self._chance = Random(seed)
        self._names = Names()

    def open(self, path: PurePath, *, create: bool = False, writable: bool = True) -> SimFile:
        with self._lock:
            self._gate.admit("open", path)
            node = self._names.get(path)
            if isinstance(node, Directory):
                raise os_error(errno.EISDIR, path)
            if self._gate.is_read_only and (writable or (create and node is None)):
                raise os_error(errno.EROFS, path)
            if node is None:
                if not create:
                    raise os_error(errno.ENOENT, path)
                node = Content()
                self._names.link(path, node)
                self._gate.count()
            return SimFile(self, path, node, writable=writable)

    def list_directory(self, directory: PurePath) -> list[str]:
        with self._lock:
            self._gate.admit("list", directory)
            return sorted(self._names.directory(directory).cached)

    def exists(self, path: PurePath) -> bool:
        return self._lookup(path) is not None

    def is_symlink(self, path: PurePath) -> bool:  # noqa: ARG002 - there are none here
        return False

    def is_directory(self, path: PurePath) -> bool:
        return isinstance(self._lookup(path), Directory)

    def size_of(self, path: PurePath) -> int:
        with self._lock:
            self._gate.check_power()
            return len(self._file(path).cached)

    def make_directory(self, path: PurePath) -> None:
        with self._lock:
            self._gate.check_power()
            node = self._names.get(path)
            if isinstance(node, Content):
                raise os_error(errno.EEXIST, path)
            missing = []
            while node is None:
                missing.append(path)
                path = path.parent
                node = self._names.get(path)
            for each in reversed(missing):
                self._gate.admit("make_directory", each)
                self._names.link(each, Directory())
                self._gate.count()

    def rename(self, source: PurePath, target: PurePath) -> None:
        with self._lock:
            self._gate.admit("rename", source, target)
            if self._names.rename(source, target):
                self._gate.count()

    def remove(self, path: PurePath) -> None:
        with self._lock:
            self._gate.admit("remove", path)
            self._names.remove(path)
            self._gate.count()

    def sync_directory(self, directory: PurePath) -> None:
        with self._lock:
            self._gate.admit("sync_directory", directory)
            node = self._names.directory(directory)
            self._gate.count()
            self._names.sync(node)

    def free_fraction(self, path: PurePath) -> float:
        with self._lock:
            self._gate.check_power()
            self._names.find(path)
            if self.capacity_bytes is None:
                return 1.0
            return max(0, self.capacity_bytes - self._used_bytes()) / self.capacity_bytes

    @property
    def operations(self) -> int:
        """How many operations have changed or synced something."""
        return self._gate.operations

    @property
    def read_only(self) -> bool:
        """Whether every change is refused with EROFS; settable."""
        return self._gate.is_read_only

    @read_only.setter
    def read_only(self, value: bool) -> None:
        self._gate.is_read_only = value

    def crash(self, fate: Fate | None = None) -> None:
        """Lose the power and come back with what the medium holds; `fate` replaces the draw by seed."""
        with self._lock:
            if fate is None:
                # Whole-disk extremes are drawn too, or they would be rare on a disk with many files.
                fate = {0: Fate.ALL, 1: Fate.NONE}.get(self._chance.randrange(10))
            self._names.crash(fate or draw_fate(self._chance), self._chance)
            for _, content in self._names.files():
                content.crash(fate or draw_fate(self._chance), self._chance)
            self._restart()

    def kill(self) -> None:
        """End the process and keep the machine: what was written stays, synced or not.

        What a failed sync has dropped stays readable as long as the cache keeps it, which the seed decides.
        """
        with self._lock:
            for _, content in self._names.files():
                if self._chance.random() < 0.5:
                    content.evict()
            self._restart()

    def crash_after(self, operations: int) -> None:
        """Cut the power during the `operations`-th counted operation from now; 1 is the next one.

        A `crash`, `kill` or `heal` before that disarms it.
        """
        self._gate.lose_power_after(operations)

    def fail(
        self,
        number: int,
        *,
        operation: Operation,
        path: PathRule | None = None,
        after: int = 0,
        times: int | None = 1,
    ) -> Fault:
        """Make operations fail with errno `number`: the first `after` that match pass, then `times` fail.

        `path` is a glob as of `PurePath.match`, or a predicate; by default all paths. With `times=None` the
        fault lasts until `heal`. The result counts its hits.
        """
        fault = Fault(number, operation, path, after, times)
        self._gate.faults.append(fault)
        return fault

    def heal(self) -> None:
        """End all faults, `read_only` and an armed power loss; power that is off stays off."""
        with self._lock:
            self._gate.heal()

    def clone(self, seed: int) -> SimDisk:
        """Return a copy with the same files, names and unsynced changes, but no faults and no open files.

        Copies are cheap, so that one state can be crashed with many seeds.
        """
        with self._lock:
            copy = SimDisk(seed, capacity_bytes=self.capacity_bytes)
            copy._names = self._names.clone()
            copy._gate.is_powered = self._gate.is_powered
            return copy

    def read_file(self, path: PurePath) -> bytes:
        """Return the content of a file, whatever faults are armed."""
        with self._lock:
            return bytes(self._file(path).cached)

    def write_file(self, path: PurePath, data: bytes) -> None:
        """Make a file with its directories, durable at once, whatever faults are armed."""
        with self._lock:
            for directory in reversed(path.parents):
                if self._names.get(directory) is None:
                    self._names.link(directory, Directory())
                self._names.sync(self._names.directory(directory.parent))
            if self._names.get(path) is None:
                self._names.link(path, Content())
            self._names.sync(self._names.directory(path.parent))
            self._file(path).replace(data)

    def flip(self, path: PurePath, position: int, mask: int = 0xFF) -> None:
        """Damage one byte on the medium; what was unsynced of the file is durable afterwards."""
        with self._lock:
            content = self._file(path)
            damaged = bytearray(content.cached)
            damaged[position] ^= mask
            content.replace(bytes(damaged))

    def tree(self) -> dict[str, bytes]:
        """Return all files as processes see them, by path from the root, without a leading slash."""
        with self._lock:
            return {path: bytes(content.cached) for path, content in self._names.files()}

    def durable_tree(self) -> dict[str, bytes]:
        """Return the files that are there if nothing unsynced arrives."""
        with self._lock:
            return {path: bytes(content.durable) for path, content in self._names.durable_files()}

    def copy_to_real(self, target: Path) -> None:
        """Write all files below a directory of the real disk."""
        for path, data in self.tree().items():
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            (target / path).write_bytes(data)

    def copy_from_real(self, source: Path) -> None:
        """Take over all files below a directory of the real disk, durably."""
        for path in sorted(source.rglob("*")):
            if path.is_file():
                self.write_file(path.relative_to(source), path.read_bytes())

    def _fitting_bytes(self, content: Content, position: int, size: int) -> int:
        """Return how many of `size` bytes at `position` the capacity allows to write."""
        if self.capacity_bytes is None:
            return size
        free = max(0, self.capacity_bytes - self._used_bytes())
        return max(0, min(size, len(content.cached) + free - position))

    def _written_before(self, error: OSError, size: int) -> int:
        """Return how many of `size` bytes a write left behind before it failed."""
        return 0 if error.errno == errno.EROFS or not size else self._chance.randrange(size)

    def _lookup(self, path: PurePath) -> Content | Directory | None:
        with self._lock:
            self._gate.check_power()
            try:
                return self._names.get(path)
            except NotADirectoryError:
                return None

    def _file(self, path: PurePath) -> Content:
        node = self._names.find(path)
        if isinstance(node, Directory):
            raise os_error(errno.EISDIR, path)
        return node

    def _used_bytes(self) -> int:
        return sum(len(content.cached) for _, content in self._names.files())

    def _restart(self) -> None:
        self._generation += 1
        self._gate.power_on()
