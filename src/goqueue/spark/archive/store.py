"""The directory of an archive, wherever it is: a local path, or a URI that pyarrow knows (`s3://`, `hdfs://`, `gs://`).

Owns how something is created of which there can be only one. Local files are written under another name and linked to
theirs, which fails if it is taken; what was written is on the disk before. Hadoop refuses to rename onto a name that
is taken. Object stores have no such thing in pyarrow: there, whoever wants a name first claims it with an object of its
own and looks who else does, and gives up if there is anybody. A claim lasts for ten minutes: a process that sleeps for
longer between its look and its write, which is one request, can overwrite what another one has written. Claims are
dated by the clock of whoever makes them: so clocks have to agree within minutes, or a claim counts for longer, or is
taken for a dead one while its owner still writes.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import fs

from goqueue.errors import Conflict, Invalid, Unavailable
from goqueue.seams.clock import Clock, SystemClock
from goqueue.seams.disk import RealDisk
from goqueue.seams.entropy import Entropy, SystemEntropy
from goqueue.spark.archive.blocks import BlockChecksums
from goqueue.spark.archive.paths import normal_path

_CLAIM_MS = 600_000


class ArchiveUnreachable(Unavailable):
    """The directory of an archive cannot be reached, or is not there."""

    code = "archive_unreachable"


class NameTaken(Conflict):
    """Somebody else has created what can be created once."""

    code = "archive_name_taken"


class FileEntry(NamedTuple):
    """A file in the directory; the path begins there."""

    path: str
    bytes: int


class ArchiveStore:
    """Files below one directory; all paths begin there, and are written with slashes."""

    def __init__(
        self,
        path: str,
        *,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
        files: tuple[fs.FileSystem, str] | None = None,
    ) -> None:
        """Open a directory, which need not be there; `files` are a file system and the path in it."""
        self.path = normal_path(path)
        self._clock = clock or SystemClock()
        self._entropy = entropy or SystemEntropy()
        with self._telling():
            opened: tuple[fs.FileSystem, str] = files or fs.FileSystem.from_uri(self.path)
        self._files, self._root = opened
        self._is_local = isinstance(self._files, fs.LocalFileSystem)

    def exists(self, path: str = "") -> bool:
        """Tell whether a file or directory is there."""
        with self._telling():
            return bool(self._files.get_file_info(self._full(path)).type != fs.FileType.NotFound)

    def require_directory(self) -> None:
        """Raise Invalid if something else than a directory is there."""
        with self._telling():
            found = self._files.get_file_info(self._root)
        if found.type == fs.FileType.File:
            raise Invalid(f"{self.path} is a file", hint="name a directory; it is made if it is not there")

    def names(self, directory: str) -> list[str]:
        """Return the names in a directory, sorted; none if it is not there."""
        with self._telling():
            found = self._files.get_file_info(fs.FileSelector(self._full(directory), allow_not_found=True))
        return sorted(each.base_name for each in found)

    def files_below(self, directory: str) -> Iterator[FileEntry]:
        """Yield all files in a directory and those in it."""
        selector = fs.FileSelector(self._full(directory), allow_not_found=True, recursive=True)
        with self._telling():
            found = self._files.get_file_info(selector)
        start = len(self._root.rstrip("/")) + 1
        for each in found:
            if each.type == fs.FileType.File:
                yield FileEntry(each.path[start:], each.size)

    def size(self, path: str) -> int | None:
        """Return how large a file is; None if there is none."""
        with self._telling():
            found = self._files.get_file_info(self._full(path))
        return int(found.size) if found.type == fs.FileType.File else None

    def read(self, path: str) -> bytes:
        """Return a whole file; FileNotFoundError if there is none."""
        with self._telling(), self._files.open_input_stream(self._full(path), compression=None) as opened:
            return bytes(opened.read())

    def open(self, path: str) -> pa.NativeFile:
        """Return a file to read at any place; FileNotFoundError if there is none."""
        with self._telling():
            return self._files.open_input_file(self._full(path))

    def write_to(self, path: str) -> HashingFile:
        """Return a new file to write; it is whole, and durable where that can be had, when it was finished."""
        full = self._full(path)
        with self._telling():
            if self._has_directories:
                self._files.create_dir(str(PurePosixPath(full).parent), recursive=True)
            return HashingFile(self._files.open_output_stream(full, compression=None))

    def sync(self, path: str) -> None:
        """Have a finished file, and its name, on the disk; stores elsewhere see to that themselves."""
        if not self._is_local:
            return
        disk, full = RealDisk(), Path(self._full(path))
        with self._telling():
            opened = disk.open(full, writable=False)
            try:
                opened.sync()
            finally:
                opened.close()
            for directory in full.parents:
                disk.sync_directory(directory)
                # The directory of the archive may be new, too, so its name counts as well.
                if directory == Path(self._root).parent:
                    break

    def delete(self, path: str) -> None:
        """Delete a file; harmless if it is gone."""
        with self._telling(), suppress(FileNotFoundError):
            self._files.delete_file(self._full(path))

    def create(self, path: str, content: bytes) -> None:
        """Create a file with all of its content, or not at all; NameTaken if it is there already.

        If this fails in another way, it may have happened nevertheless: look.
        """
        if self.exists(path):
            raise NameTaken(f"{path} is there already")
        token = self._entropy.token(8).hex()
        if self._is_local or isinstance(self._files, fs.HadoopFileSystem):
            self._create_by_name(path, f"{path}.{token}.new", content)
        else:
            self._create_by_claim(path, token, content)

    def _create_by_name(self, path: str, temporary: str, content: bytes) -> None:
        with self.write_to(temporary) as opened:
            opened.write(content)
        self.sync(temporary)
        try:
            if self._is_local:
                with self._telling():
                    os.link(self._full(temporary), self._full(path))
                self.sync(path)
            else:
                self._move(temporary, path)
        except FileExistsError:
            raise NameTaken(f"{path} is there already") from None
        finally:
            self.delete(temporary)

    def _move(self, source: str, target: str) -> None:
        try:
            with self._telling():
                self._files.move(self._full(source), self._full(target))
        except ArchiveUnreachable as error:
            if self.exists(target) and self.exists(source):
                raise NameTaken(f"{target} is there already") from error
            raise

    def _create_by_claim(self, path: str, token: str, content: bytes) -> None:
        directory, name = path.rpartition("/")[::2]
        now_ms = self._clock.now_ms()
        mine = f"{directory}/{name}.{now_ms:014}-{token}.claim"
        self._put(mine, b"")
        try:
            for other in self.names(directory):
                if not other.startswith(f"{name}.") or not other.endswith(".claim") or f"{directory}/{other}" == mine:
                    continue
                since_ms = int(other[len(name) + 1 :].partition("-")[0])
                if since_ms > now_ms - _CLAIM_MS:
                    ends_at = datetime.fromtimestamp((since_ms + _CLAIM_MS) // 1000, UTC).isoformat()
                    raise NameTaken(
                        f"another job is about to write {path}, and has claimed it with {directory}/{other}",
                        hint=f"if that job is dead, its claim ends at {ends_at}: run this again then",
                    )
                self.delete(f"{directory}/{other}")
            if self.exists(path):
                raise NameTaken(f"{path} is there already")
            self._put(path, content)
        finally:
            self.delete(mine)

    def _put(self, path: str, content: bytes) -> None:
        with self.write_to(path) as opened:
            opened.write(content)

    @property
    def _has_directories(self) -> bool:
        return not isinstance(self._files, fs.S3FileSystem | fs.GcsFileSystem | fs.AzureFileSystem)

    def _full(self, path: str) -> str:
        return f"{self._root.rstrip('/')}/{path}" if path else self._root

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Say of what goes wrong where it was; that a file is not there is another matter."""
        try:
            yield
        except (FileNotFoundError, FileExistsError):
            raise
        except (OSError, pa.ArrowException, ValueError) as error:
            raise ArchiveUnreachable(
                f"the archive at {self.path} cannot be reached: {error}",
                hint="see that the path is right, and that this machine may read it, and every executor as well",
            ) from error


class HashingFile:
    """A file that is written from its start to its end, and knows its size and checksum."""

    def __init__(self, opened: pa.NativeFile) -> None:
        self._opened = opened
        self._hash = hashlib.sha256()
        self._bytes = 0
        self._tail = hashlib.sha256()
        self._tail_start = 0
        self.blocks = BlockChecksums()

    def write(self, part: Any) -> int:
        """Write bytes, or what has them in a buffer."""
        raw = memoryview(part).cast("B")
        self._hash.update(raw)
        self._tail.update(raw)
        self.blocks.update(raw)
        self._opened.write(raw)
        self._bytes += len(raw)
        return len(raw)

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self._bytes

    def flush(self) -> None:
        """Hand on what was written."""
        self._opened.flush()

    @property
    def closed(self) -> bool:
        """Whether nothing can be written any more."""
        return bool(self._opened.closed)

    def writable(self) -> bool:
        """Tell that it can be written."""
        return True

    def readable(self) -> bool:
        """Tell that it cannot be read."""
        return False

    def seekable(self) -> bool:
        """Tell that it is written from start to end."""
        return False

    def close(self) -> None:
        """End the file."""
        self._opened.close()

    def begin_tail(self) -> None:
        """Have what is written from now on counted by itself, too."""
        self._tail, self._tail_start = hashlib.sha256(), self._bytes

    @property
    def sha256(self) -> str:
        """The checksum of what was written."""
        return self._hash.hexdigest()

    @property
    def tail_bytes(self) -> int:
        """How many bytes the tail has."""
        return self._bytes - self._tail_start

    @property
    def tail_sha256(self) -> str:
        """The checksum of the tail."""
        return self._tail.hexdigest()

    def __enter__(self) -> HashingFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close()


def sha256_of(raw: bytes) -> str:
    """Return the checksum of bytes."""
    return hashlib.sha256(raw).hexdigest()
