"""What an open log is made of; a log that is asleep has a `Rest` in its place, which answers the same questions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

from goqueue.errors import DiskFull, LogOffline
from goqueue.log import names
from goqueue.log.appending import Appender
from goqueue.log.checkpoint import CheckpointFile
from goqueue.log.cleaner import Cleaner
from goqueue.log.durability import Durability
from goqueue.log.epochs import LeaderEpochs
from goqueue.log.handles import Handles
from goqueue.log.recovery import LogState, recover
from goqueue.log.rest import NEW
from goqueue.log.segment import Segment
from goqueue.log.segments import Segments
from goqueue.machines.producer import ProducerTable
from goqueue.model.log_settings import LogSettings
from goqueue.seams.disk import NO_ROOM, Disk, make_durable_directory
from goqueue.seams.sink import Sink


@dataclass(slots=True, eq=False)
class Opened:
    """The parts of one open log."""

    segments: Segments
    producers: ProducerTable
    epochs: LeaderEpochs
    books: Durability
    appender: Appender
    cleaner: Cleaner

    @classmethod
    def of(
        cls,
        state: LogState,
        disk: Disk,
        checkpoint_file: CheckpointFile,
        handles: Handles,
        settings: LogSettings,
        sink: Sink,
    ) -> Opened:
        """Return the parts of a log in which recovery has found this."""
        segments = Segments(state.segments, disk, handles, settings, sink)
        producers = state.producers
        epochs = LeaderEpochs(start for segment in state.segments for start in segment.epochs)
        end, first_open = segments.active.next_offset, producers.first_open_offset
        books = Durability(disk, checkpoint_file, start=state.start_offset, end=end, first_open=first_open)
        for owed in state.index_writes:
            books.owe_index(owed)
        appender = Appender(disk, settings, segments, books, producers, epochs, sink)
        return cls(segments, producers, epochs, books, appender, Cleaner(disk, settings, segments, books))

    def configure(self, settings: LogSettings) -> None:
        """Go on with other settings."""
        self.segments.settings = self.appender.settings = self.cleaner.settings = settings

    @property
    def end_offset(self) -> int:
        """The offset that the next record will get."""
        return self.segments.active.next_offset

    @property
    def durable_end(self) -> int:
        """The offset before which all records are durable."""
        return self.books.end

    @property
    def first_open_offset(self) -> int | None:
        """Where the oldest open transaction starts; None if there is none."""
        return self.producers.first_open_offset

    @property
    def size_bytes(self) -> int:
        """The size of all segments."""
        return self.segments.size_bytes

    @property
    def segment_count(self) -> int:
        """How many segments there are."""
        return len(self.segments)

    @property
    def has_producers(self) -> bool:
        """Whether producers are remembered that may fall silent."""
        return len(self.producers) > 0

    @property
    def wants_flush(self) -> bool:
        """Whether a flush is needed that is not yet under way."""
        return self.books.wants_flush

    @property
    def wants_checkpoint(self) -> bool:
        """Whether the segment that takes the appends has grown since its index file was written."""
        active = self.segments.active
        return not self.books.is_unmade and active.size != active.covered

    @property
    def owes(self) -> bool:
        """Whether something is not durable yet, or upkeep has something to do."""
        return self.books.owes

    @property
    def is_busy(self) -> bool:
        """Whether a flush, upkeep or a compaction is under way."""
        return self.books.is_busy or self.cleaner.is_busy


def recovered(
    disk: Disk, directory: PurePath, settings: LogSettings, sink: Sink, checkpoint_file: CheckpointFile
) -> LogState:
    """Return what recovery finds in a directory, which is made if it is absent; DiskFull, LogOffline or Corrupt."""
    try:
        if checkpoint_file.load() is None:
            # An entry there is the last thing that a new log gets: before, no name on the way is surely durable.
            make_durable_directory(disk, directory)
        return recover(disk, directory, settings, sink, checkpoint_file)
    except OSError as error:
        checkpoint_file.close()
        kind = DiskFull if error.errno in NO_ROOM else LogOffline
        raise kind(f"{directory} cannot be opened: {error}") from error


def never_written(directory: PurePath) -> LogState:
    """Return the state of a log that has no files yet."""
    producers = ProducerTable()
    segment = Segment.fresh(names.segment_path(directory, 0), 0, producers.encode())
    return LogState([segment], producers, 0, [], is_clean=True, is_read_only=False, leader_epoch=NEW.leader_epoch)
