"""The blocking work of a log, as values that any thread may run.

The owner of a log asks for a `Flush` or an `Upkeep`, runs it in a thread while it keeps reading and appending, and then
reports the outcome to the log. At most one of each is under way at a time.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePath

import msgspec

from goqueue.log import names, sidecar
from goqueue.log.checkpoint import Checkpoint, CheckpointFile
from goqueue.log.directory import finish_swap
from goqueue.log.segment import Segment
from goqueue.seams.disk import Disk, File, make_durable_directory


@dataclass(slots=True, frozen=True, eq=False)
class IndexWrite:
    """The index file of a segment as it was at a size; fit to be written once the log is durable to `end_offset`."""

    segment: Segment
    covered: int
    end_offset: int
    data: bytes


@dataclass(slots=True, frozen=True, eq=False)
class Removal:
    """A segment that has left the log; its files may go once the log's durable start is `start_offset`."""

    path: PurePath
    start_offset: int


@dataclass(slots=True, frozen=True, eq=False)
class Swap:
    """A compacted segment, adopted by the log but still under its `.cleaned` name, and the files it replaces."""

    segment: Segment
    replaced: tuple[PurePath, ...]

    @property
    def target(self) -> PurePath:
        """The path of the segment once it has taken its place."""
        return self.segment.path.with_name(self.segment.path.name.removesuffix(names.CLEANED))

    def run(self, disk: Disk) -> None:
        """Put the segment in its place; a crash before the second rename undoes it, a crash after it finishes it."""
        swap = self.target.with_name(self.target.name + names.SWAP)
        for source, target in (
            (names.index_path(self.segment.path), names.index_path(swap)),
            (self.segment.path, swap),
        ):
            if disk.exists(source):
                disk.rename(source, target)
                disk.sync_directory(target.parent)
        if disk.exists(swap):
            finish_swap(disk, swap, self.replaced)


class Flush(msgspec.Struct, frozen=True, eq=False):
    """Makes everything durable that was in the log when this was made."""

    disk: Disk
    checkpoint_file: CheckpointFile
    files: tuple[File, ...]
    checkpoint: Checkpoint
    stable_offset: int
    has_new_names: bool
    is_start_moved: bool
    index_write: IndexWrite | None
    is_in_doubt: Callable[[], bool]
    is_new: bool = False

    @property
    def end_offset(self) -> int:
        """Records before this are durable once `run` has returned."""
        return self.checkpoint.durable_end

    @property
    def descriptors(self) -> Sequence[int] | None:
        """The files, if only syncing them takes long; a caller may sync them itself and then call `finish`."""
        if self.has_new_names or self.is_start_moved:
            return None
        found = [descriptor for file in self.files if (descriptor := file.descriptor()) is not None]
        return found if found and len(found) == len(self.files) else None

    def run(self) -> None:
        """Sync; an OSError means that records may be lost and must not be tried again."""
        for file in self.files:
            file.sync()
        if self.is_new:
            make_durable_directory(self.disk, self.checkpoint_file.directory)
        if self.has_new_names:
            self.disk.sync_directory(self.checkpoint_file.directory)
        self.finish()

    def finish(self) -> None:
        """Write the durable end into the checkpoint, after the files are durable."""
        if self.is_in_doubt():
            # A disk reports lost pages once, perhaps to another sync: then our sync saw no error and proves nothing. If
            # nothing was lost after all, the next flush writes the checkpoint.
            if self.is_start_moved or self.is_new:
                raise OSError(errno.EIO, "another sync of the same file may have failed")
            return
        if self.is_new:
            self.checkpoint_file.begin(self.checkpoint)
        elif self.is_start_moved:
            self.checkpoint_file.commit(self.checkpoint)
        else:
            self.checkpoint_file.note(self.checkpoint)


@dataclass(slots=True, frozen=True, eq=False)
class Upkeep:
    """Background work: index files, removal of segments, the last step of compaction."""

    disk: Disk
    index_writes: tuple[IndexWrite, ...]
    removals: tuple[Removal, ...]
    swaps: tuple[Swap, ...]

    def run(self) -> None:
        """Do the work, beginning with what frees disk space; after an OSError it may be tried again."""
        for removal in self.removals:
            for path in (removal.path, names.index_path(removal.path)):
                if self.disk.exists(path):
                    self.disk.remove(path)
        for swap in self.swaps:
            swap.run(self.disk)
        for write in self.index_writes:
            sidecar.write(self.disk, names.index_path(write.segment.path), write.data)
