"""A log's directory, as recovery changes it.

On a read-only disk every change is skipped, and `is_read_only` tells: the log can be read all the same.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import PurePath

from goqueue.log import names
from goqueue.log.tidy import list_bases, tidy
from goqueue.seams.disk import Disk
from goqueue.seams.sink import Sink

_REWRITE_BYTES = 1024 * 1024


class LogDirectory:
    """The files of one log while it is being opened; nobody else touches them then."""

    def __init__(self, disk: Disk, path: PurePath, sink: Sink) -> None:
        self._disk = disk
        self._path = path
        self._sink = sink
        self.is_read_only = False

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Change something on the disk, or take note that it cannot be changed."""
        try:
            yield
        except OSError as error:
            if error.errno != errno.EROFS:
                raise
            self.is_read_only = True

    def tidy(self) -> list[int]:
        """Put the names in order and return the base offsets of the segments."""
        with self.changing():
            return tidy(self._disk, self._path, self._sink)
        swaps = [name for name in self._disk.list_directory(self._path) if name.endswith(names.LOG + names.SWAP)]
        if swaps:
            raise OSError(errno.EROFS, "an unfinished compaction cannot be completed", str(self._path / swaps[0]))
        return list_bases(self._disk, self._path)

    def segment_path(self, base_offset: int) -> PurePath:
        """Return the path of the segment that starts at an offset."""
        return names.segment_path(self._path, base_offset)

    def size_of(self, base_offset: int) -> int:
        """Return the size of the segment that starts at an offset."""
        return self._disk.size_of(self.segment_path(base_offset))

    def has_index(self, segment: PurePath) -> bool:
        """Tell whether a segment has an index file, good or bad."""
        return self._disk.exists(names.index_path(segment))

    def has_checkpoint(self) -> bool:
        """Tell whether anything was ever written to the checkpoint, readable or not."""
        path = self._path / names.CHECKPOINT
        return self._disk.exists(path) and self._disk.size_of(path) > 0

    def create(self, segment: PurePath) -> None:
        """Make an empty segment, durably."""
        with self.changing():
            self._disk.open(segment, create=True).close()
            self._disk.sync_directory(self._path)

    def cut(self, segment: PurePath, size: int) -> None:
        """Cut a segment to a size, durably."""
        with self.changing():
            file = self._disk.open(segment)
            try:
                file.truncate(size)
                file.sync()
            finally:
                file.close()

    def make_durable(self, segment: PurePath, start: int, end: int) -> None:
        """Make a segment durable, and write its bytes from `start` on anew before that.

        Where a sync has failed, the page cache may hold bytes that count as written but never were: no later sync
        would bring them to the disk.
        """
        with self.changing():
            file = self._disk.open(segment)
            try:
                for position in range(start, end, _REWRITE_BYTES):
                    file.write_at(position, file.read_at(position, min(_REWRITE_BYTES, end - position)))
                file.sync()
            finally:
                file.close()

    def sync_names(self) -> None:
        """Make all names durable."""
        with self.changing():
            self._disk.sync_directory(self._path)

    def remove(self, bases: Sequence[int]) -> None:
        """Remove segments, the last one first, so that no gap appears if it is interrupted."""
        with self.changing():
            for base in reversed(bases):
                path = self.segment_path(base)
                for gone in (path, names.index_path(path)):
                    if self._disk.exists(gone):
                        self._disk.remove(gone)
                self._disk.sync_directory(self._path)
