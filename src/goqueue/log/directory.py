"""A log's directory, as recovery changes it: it finishes or undoes what a crash interrupted.

Compaction writes `.cleaned` files, makes them durable and renames them to `.swap`, the index first. Once a `.log.swap`
exists, the originals that it replaces may be gone, and the swap must be finished. Before that, nothing has happened.

On a read-only disk every change is skipped and `is_read_only` is set: the log can still be read.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import PurePath

from goqueue.errors import Corrupt, CorruptLog
from goqueue.log import names, sidecar
from goqueue.log.events import ForeignFile
from goqueue.seams.disk import Disk
from goqueue.seams.sink import Sink

_REWRITE_BYTES = 1024 * 1024


class LogDirectory:
    """The files of one log while it is being opened; nothing else touches them meanwhile."""

    def __init__(self, disk: Disk, path: PurePath, sink: Sink) -> None:
        self._disk = disk
        self._path = path
        self._sink = sink
        self.is_read_only = False

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Change something on the disk; on a read-only disk, set `is_read_only`."""
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
        """Return whether a segment has an index file, good or bad."""
        return self._disk.exists(names.index_path(segment))

    def has_checkpoint(self) -> bool:
        """Return whether anything was ever written to the checkpoint, readable or not."""
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
        """Rewrite a segment's bytes from `start` on, and make the segment durable.

        After a failed sync, the page cache may hold bytes that count as written but were not: no later sync would write
        them.
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


def tidy(disk: Disk, directory: PurePath, sink: Sink) -> list[int]:
    """Put the directory in order and return the base offsets of its segments."""
    for name in disk.list_directory(directory):
        parsed = names.parse(name)
        if parsed is None:
            if name != names.CHECKPOINT:
                sink.emit(ForeignFile(str(directory), name))
        elif parsed[2] in (names.TEMPORARY, names.CLEANED):
            disk.remove(directory / name)
    present = set(disk.list_directory(directory))
    for name in sorted(present):
        parsed = names.parse(name)
        if parsed is not None and parsed[1:] == (names.LOG, names.SWAP):
            finish_swap(disk, directory / name)
        elif parsed is not None and parsed[1:] == (names.INDEX, names.SWAP):
            _undo_unless_committed(disk, directory / name)
    _remove_orphans(disk, directory)
    return list_bases(disk, directory)


def finish_swap(disk: Disk, swap: PurePath, replaced: Iterable[PurePath] | None = None) -> PurePath:
    """Put a committed `.log.swap` in the place of the segments whose offsets it covers; return its new path.

    Each step is durable before the next, and all can be repeated. The first sync covers a killed process, which may
    have left the name of the swap only in the page cache.
    """
    disk.sync_directory(swap.parent)
    target = swap.with_name(swap.name.removesuffix(names.SWAP))
    index_swap = names.index_path(swap)
    has_index_swap = disk.exists(index_swap)
    for path in _replaced_by(disk, swap) if replaced is None else replaced:
        if disk.exists(path):
            disk.remove(path)
        index = names.index_path(path)
        if disk.exists(index) and (has_index_swap or index != names.index_path(target)):
            disk.remove(index)
    disk.sync_directory(swap.parent)
    if has_index_swap:
        disk.rename(index_swap, names.index_path(target))
        disk.sync_directory(swap.parent)
    disk.rename(swap, target)
    disk.sync_directory(swap.parent)
    return target


def _replaced_by(disk: Disk, swap: PurePath) -> list[PurePath]:
    directory = swap.parent
    described = swap if disk.exists(names.index_path(swap)) else swap.with_name(swap.name.removesuffix(names.SWAP))
    try:
        head = sidecar.read_head(disk, described)
    except (Corrupt, FileNotFoundError) as error:
        raise CorruptLog(
            f"an unfinished compaction cannot be completed: {error}", path=str(swap), position=0, offset=-1
        ) from error
    return [
        names.segment_path(directory, base)
        for base in list_bases(disk, directory)
        if head.base_offset <= base < head.next_offset
    ]


def _undo_unless_committed(disk: Disk, index_swap: PurePath) -> None:
    log_swap = index_swap.with_name(index_swap.name.replace(names.INDEX, names.LOG, 1))
    if disk.exists(index_swap) and not disk.exists(log_swap):
        disk.remove(index_swap)


def _remove_orphans(disk: Disk, directory: PurePath) -> None:
    """Remove indexes of segments that are gone, durably: they would misdescribe a later segment of the same name."""
    segments = set(list_bases(disk, directory))
    parsed = [(name, names.parse(name)) for name in disk.list_directory(directory)]
    orphans = [name for name, parts in parsed if parts and parts[1:] == (names.INDEX, "") and parts[0] not in segments]
    for name in orphans:
        disk.remove(directory / name)
    if orphans:
        disk.sync_directory(directory)


def list_bases(disk: Disk, directory: PurePath) -> list[int]:
    """Return the base offsets of the segments in a directory, in order."""
    parsed = (names.parse(name) for name in disk.list_directory(directory))
    return sorted(base for base, kind, stage in filter(None, parsed) if (kind, stage) == (names.LOG, ""))
