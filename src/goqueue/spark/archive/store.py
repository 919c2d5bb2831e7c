"""The directory of an archive: a local path, or a URI that pyarrow knows (`s3://`, `hdfs://`, `gs://`).

Owns the exclusive creation of files. A local file is written and synced under a temporary name, then linked to its
name, which fails if the name exists. Hadoop refuses to rename onto an existing name. pyarrow has no exclusive creation
for object stores: there a job first writes a claim object, lists the claims of others, and gives up if there are any. A
claim lasts ten minutes: a process that is suspended for longer between the listing and the write can overwrite another
job's file. Claims carry the time of their writer's clock, so clocks must agree within minutes; otherwise a claim lasts
longer, or is ignored while its owner still writes.
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
    """The directory of an archive cannot be reached or does not exist."""

    code = "archive_unreachable"


class NameTaken(Conflict):
    """Another job has created the file."""

    code = "archive_name_taken"


class FileEntry(NamedTuple):
    """A file and its path in the directory."""

    path: str
    bytes: int


class ArchiveStore:
    """Files below one directory; paths are relative to it, with slashes."""

    def __init__(
        self,
        path: str,
        *,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
        files: tuple[fs.FileSystem, str] | None = None,
    ) -> None:
        """Open a directory, which need not exist; `files` are a file system and the path in it."""
        self.path = normal_path(path)
        self._clock = clock or SystemClock()
        self._entropy = entropy or SystemEntropy()
        with self._telling():
            opened: tuple[fs.FileSystem, str] = files or fs.FileSystem.from_uri(self.path)
        self._files, self._root = opened
        self._is_local = isinstance(self._files, fs.LocalFileSystem)

    def exists(self, path: str = "") -> bool:
        """Return whether a file or directory exists."""
        with self._telling():
            return bool(self._files.get_file_info(self._full(path)).type != fs.FileType.NotFound)

    def require_directory(self) -> None:
        """Raise Invalid if the path is a file."""
        with self._telling():
            found = self._files.get_file_info(self._root)
        if found.type == fs.FileType.File:
            raise Invalid(f"{self.path} is a file", hint="name a directory; it is created if missing")

    def names(self, directory: str) -> list[str]:
        """Return the names in a directory, sorted; none if it does not exist."""
        with self._telling():
            found = self._files.get_file_info(fs.FileSelector(self._full(directory), allow_not_found=True))
        return sorted(each.base_name for each in found)

    def files_below(self, directory: str) -> Iterator[FileEntry]:
        """Yield all files below a directory."""
        selector = fs.FileSelector(self._full(directory), allow_not_found=True, recursive=True)
        with self._telling():
            found = self._files.get_file_info(selector)
        start = len(self._root.rstrip("/")) + 1
        for each in found:
            if each.type == fs.FileType.File:
                yield FileEntry(each.path[start:], each.size)

    def size(self, path: str) -> int | None:
        """Return the size of a file; None if it does not exist."""
        with self._telling():
            found = self._files.get_file_info(self._full(path))
        return int(found.size) if found.type == fs.FileType.File else None

    def read(self, path: str) -> bytes:
        """Return the content of a file; FileNotFoundError if it does not exist."""
        with self._telling(), self._files.open_input_stream(self._full(path), compression=None) as opened:
            return bytes(opened.read())

    def open(self, path: str) -> pa.NativeFile:
        """Open a file for random access; FileNotFoundError if it does not exist."""
        with self._telling():
            return self._files.open_input_file(self._full(path))

    def write_to(self, path: str) -> HashingFile:
        """Create a file for writing; it is complete after `close`."""
        full = self._full(path)
        with self._telling():
            if self._has_directories:
                self._files.create_dir(str(PurePosixPath(full).parent), recursive=True)
            return HashingFile(self._files.open_output_stream(full, compression=None))

    def sync(self, path: str) -> None:
        """Sync a closed file and its name to the disk; does nothing for other stores."""
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
                # # The directory of the archive may be new, so its name is synced as well.
                if directory == Path(self._root).parent:
                    break

    def delete(self, path: str) -> None:
        """Delete a file, if it exists."""
        with self._telling(), suppress(FileNotFoundError):
            self._files.delete_file(self._full(path))

    def create(self, path: str, content: bytes) -> None:
        """Create a file atomically; NameTaken if it exists.

        After any other error, the file may exist.
        """
        if self.exists(path):
            raise NameTaken(f"{path} exists already")
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
            raise NameTaken(f"{path} exists already") from None
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
                        f"another job is about to write {path} and has claimed it with {directory}/{other}",
                        hint=f"if that job is dead, run this again after {ends_at}, when its claim ends",
                    )
                self.delete(f"{directory}/{other}")
            if self.exists(path):
                raise NameTaken(f"{path} exists already")
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
        """Turn errors other than missing or existing files into ArchiveUnreachable."""
        try:
            yield
        except (FileNotFoundError, FileExistsError):
            raise
        except (OSError, pa.ArrowException, ValueError) as error:
            raise ArchiveUnreachable(
                f"the archive at {self.path} cannot be reached: {error}",
                hint="check the path, and that this machine and every executor can read it",
            ) from error


class HashingFile:
    """A file for sequential writing that computes its size and checksums."""

    def __init__(self, opened: pa.NativeFile) -> None:
        self._opened = opened
        self._hash = hashlib.sha256()
        self._bytes = 0
        self._tail = hashlib.sha256()
        self._tail_start = 0
        self.blocks = BlockChecksums()

    def write(self, part: Any) -> int:
        """Write bytes or a buffer."""
        raw = memoryview(part).cast("B")
        self._hash.update(raw)
        self._tail.update(raw)
        self.blocks.update(raw)
        self._opened.write(raw)
        self._bytes += len(raw)
        return len(raw)

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self._bytes

    def flush(self) -> None:
        """Flush the file."""
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
        """Close the file."""
        self._opened.close()

    def begin_tail(self) -> None:
        """Begin the tail, which has a size and a checksum of its own."""
        self._tail, self._tail_start = hashlib.sha256(), self._bytes

    @property
    def sha256(self) -> str:
        """The checksum of the file."""
        return self._hash.hexdigest()

    @property
    def tail_bytes(self) -> int:
        """The size of the tail."""
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
