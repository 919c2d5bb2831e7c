"""Tracks how far a log is durable, and which writes are still owed to the disk.

| debt                     | paid by | may be paid once                                                              |
|--------------------------|---------|-------------------------------------------------------------------------------|
| unsynced bytes and names | flush   | at any time                                                                   |
| a new start of the log   | flush   | at any time                                                                   |
| an index file            | upkeep  | what it describes is durable                                                  |
| removal of a segment     | upkeep  | the new start is durable, and     the first segment left has an index file, |
|                          |         | since until then its producers are known from those that are to go            |
| swap of compacted files  | upkeep  | at any time                                                                   |
"""

from __future__ import annotations

from collections.abc import Sequence

from goqueue.log.checkpoint import Checkpoint, CheckpointFile
from goqueue.log.flush import Flush, IndexWrite, Removal, Swap, Upkeep
from goqueue.log.segment import NO_INDEX, Segment
from goqueue.seams.disk import Disk


class Durability:
    """The durability of one log; changes nothing but itself.

    `start` and `end` are the log's as a crash would leave them. Every transaction that began before `stable` has
    ended, and its marker is durable, too. `is_touched` says that the disk has changed since the log was opened.
    """

    def __init__(
        self, disk: Disk, checkpoint_file: CheckpointFile, *, start: int, end: int, first_open: int | None
    ) -> None:
        self._disk = disk
        self._checkpoint_file = checkpoint_file
        self.start = start
        self.end = end
        self.stable = end if first_open is None else first_open
        self._unsynced: list[Segment] = []
        self._has_new_names = False
        self._is_start_moved = False
        self._index_writes: list[IndexWrite] = []
        self._removals: list[Removal] = []
        self._swaps: list[Swap] = []
        self._flush: Flush | None = None
        self._upkeep: Upkeep | None = None
        # Whether a sync outside of flushes is under way or has failed; read by the threads that flush.
        self.is_in_doubt = False
        self.is_touched = False
        # Whether the log has no files yet, and whether the names of its first files are not durable yet.
        self.is_unmade = False
        self._is_new = False

    @property
    def is_busy(self) -> bool:
        """Whether a flush or upkeep is under way."""
        return self._flush is not None or self._upkeep is not None

    @property
    def has_swaps(self) -> bool:
        """Whether compacted segments still wait to take their place."""
        return bool(self._swaps)

    def owe_sync(self, segment: Segment) -> None:
        """Record that a segment has unsynced bytes."""
        if not self._unsynced or self._unsynced[-1] is not segment:
            self._unsynced.append(segment)

    def owe_names(self) -> None:
        """Record that a file was created."""
        self._has_new_names = True

    def owe_new(self) -> None:
        """Record that the log got its directory and its first files."""
        self.is_unmade = False
        self._is_new = self._has_new_names = True

    @property
    def owes(self) -> bool:
        """Whether anything is left to do before the log can be called clean."""
        return self.wants_flush or bool(self._index_writes or self._removals or self._swaps)

    def owe_start(self) -> None:
        """Record that the log starts later."""
        self._is_start_moved = True

    @property
    def wants_flush(self) -> bool:
        """Whether anything is not durable that no flush under way makes so."""
        return bool(self._unsynced) or self._has_new_names or self._is_start_moved

    def owe_index(self, write: IndexWrite) -> None:
        """Record that a segment's index file is to be written, instead of an older one of the same segment."""
        self._forgive_indexes([write.segment])
        self._index_writes.append(write)

    def owe_removals(self, gone: Sequence[Segment]) -> None:
        """Record that segments have left the log: their files go."""
        self._forgive_indexes(gone)
        self._removals.extend(Removal(segment.path, segment.next_offset) for segment in gone)

    def owe_swap(self, compacted: Segment, replaced: Sequence[Segment]) -> None:
        """Record that a compacted segment takes the place of others."""
        self._forgive_indexes(replaced)
        self._swaps.append(Swap(compacted, tuple(segment.path for segment in replaced)))

    def _forgive_indexes(self, gone: Sequence[Segment]) -> None:
        """Let no index be written any more that would then describe another segment of the same name."""
        self._index_writes = [write for write in self._index_writes if write.segment not in gone]

    def flush(self, checkpoint: Checkpoint, first_open: int | None, index_write: IndexWrite | None) -> Flush | None:
        """Return the work that pays all that flushes pay; None if there is none, or if it is under way.

        `first_open` is where the oldest open transaction starts.
        """
        if self._flush is not None or not self.wants_flush:
            return None
        files = [segment.file for segment in self._unsynced if segment.file is not None]
        assert len(files) == len(self._unsynced)
        self.is_touched = True
        self._flush = Flush(
            self._disk,
            self._checkpoint_file,
            tuple(files),
            checkpoint,
            checkpoint.durable_end if first_open is None else first_open,
            has_new_names=self._has_new_names,
            is_start_moved=self._is_start_moved,
            index_write=index_write,
            is_in_doubt=lambda: self.is_in_doubt,
            is_new=self._is_new,
        )
        self._unsynced = []
        self._has_new_names = self._is_start_moved = self._is_new = False
        return self._flush

    def flushed(self, flush: Flush, active: Segment) -> None:
        """Record that a flush has run."""
        assert flush is self._flush
        self._flush = None
        self.end = flush.end_offset
        self.stable = flush.stable_offset
        if flush.is_start_moved:
            self.start = flush.checkpoint.start_offset
        # A segment sealed since then has a better index waiting, which must not be overwritten.
        if flush.index_write is not None and flush.index_write.segment is active:
            self.owe_index(flush.index_write)

    def flush_was_in_vain(self, flush: Flush) -> None:
        """Record that a flush has ended after the log has failed: it made nothing durable."""
        assert flush is self._flush
        self._flush = None

    def upkeep(self, first: Segment) -> Upkeep | None:
        """Return the upkeep that can be done now; `first` is the log's first segment."""
        if self._upkeep is not None:
            return None
        writes = tuple(write for write in self._index_writes if write.end_offset <= self.end)
        # All or none: after a crash the log starts at the durable start, and the segment there must know its producers.
        can_remove = first.covered != NO_INDEX and all(each.start_offset <= self.start for each in self._removals)
        removals = tuple(self._removals) if can_remove else ()
        if writes or removals or self._swaps:
            self.is_touched = True
            self._upkeep = Upkeep(self._disk, writes, removals, tuple(self._swaps))
        return self._upkeep

    def upkept(self, upkeep: Upkeep, *, has_failed: bool) -> None:
        """Record that upkeep has run, or that it failed and is still owed."""
        assert upkeep is self._upkeep
        self._upkeep = None
        if has_failed:
            return
        self._index_writes = [write for write in self._index_writes if write not in upkeep.index_writes]
        self._removals = [removal for removal in self._removals if removal not in upkeep.removals]
        self._swaps = [swap for swap in self._swaps if swap not in upkeep.swaps]
