"""The parts of an open log. A log that is not open has a `ClosedState` instead, with the same properties."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from goqueue.errors import Corrupt, GoQueueError
from goqueue.log import compaction
from goqueue.log.appender import Appender
from goqueue.log.checkpoint import CheckpointFile
from goqueue.log.compaction import Compaction, Replacement
from goqueue.log.durability import Durability
from goqueue.log.epochs import LeaderEpochs
from goqueue.log.file_cache import FileCache
from goqueue.log.recovery import LogState
from goqueue.log.segments import Segments
from goqueue.machines.producer import ProducerTable
from goqueue.model.log_settings import LogSettings
from goqueue.seams.disk import Disk
from goqueue.seams.sink import Sink


@dataclass(slots=True, eq=False)
class OpenState:
    """The parts of one open log."""

    segments: Segments
    producers: ProducerTable
    epochs: LeaderEpochs
    durability: Durability
    appender: Appender
    compactor: Compactor

    @classmethod
    def of(
        cls,
        state: LogState,
        disk: Disk,
        checkpoint_file: CheckpointFile,
        file_cache: FileCache,
        settings: LogSettings,
        sink: Sink,
    ) -> OpenState:
        """Return the parts of a log in which recovery has found this."""
        segments = Segments(state.segments, disk, file_cache, settings, sink)
        producers = state.producers
        epochs = LeaderEpochs(start for segment in state.segments for start in segment.epochs)
        end, first_open = segments.active.next_offset, producers.first_open_offset
        durability = Durability(disk, checkpoint_file, start=state.start_offset, end=end, first_open=first_open)
        for owed in state.index_writes:
            durability.owe_index(owed)
        appender = Appender(disk, settings, segments, durability, producers, epochs, sink)
        return cls(segments, producers, epochs, durability, appender, Compactor(disk, settings, segments, durability))

    def configure(self, settings: LogSettings) -> None:
        """Use other settings from now on."""
        self.segments.settings = self.appender.settings = self.compactor.settings = settings

    @property
    def end_offset(self) -> int:
        """The offset that the next record will get."""
        return self.segments.active.next_offset

    @property
    def durable_end(self) -> int:
        """The offset before which all records are durable."""
        return self.durability.end

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
        return self.durability.wants_flush

    @property
    def wants_checkpoint(self) -> bool:
        """Whether the segment that takes the appends has grown since its index file was written."""
        active = self.segments.active
        return not self.durability.is_unmade and active.size != active.covered

    @property
    def owes(self) -> bool:
        """Whether something is not durable yet, or upkeep has something to do."""
        return self.durability.owes

    @property
    def is_busy(self) -> bool:
        """Whether a flush, upkeep or a compaction is under way."""
        return self.durability.is_busy or self.compactor.is_busy


class Compactor:
    """Plans passes of compaction over one log, one at a time, and applies their outcome."""

    def __init__(self, disk: Disk, settings: LogSettings, segments: Segments, durability: Durability) -> None:
        self._disk = disk
        self.settings = settings
        self._segments = segments
        self._durability = durability
        self._pass: Compaction | None = None
        self._has_met_damage = False

    @property
    def is_busy(self) -> bool:
        """Whether a pass is under way."""
        return self._pass is not None

    def begin(self, now_ms: int, end_offset: int, producers: ProducerTable) -> Compaction | None:
        """Return a pass over segments that end at or before an offset; None if none is due, or one is under way."""
        is_wanted = self.settings.compacts and not self._has_met_damage
        if not is_wanted or self._pass is not None or self._durability.has_swaps:
            return None
        self._pass = compaction.plan(
            self._disk,
            self.settings,
            self._segments.sealed,
            end_offset=end_offset,
            aborted=self._segments.aborted_transactions,
            last_batches=producers.last_offsets(),
            now_ms=now_ms,
        )
        return self._pass

    def end(self, done: Compaction, replacements: Sequence[Replacement]) -> None:
        """Let compacted segments take the place of the others."""
        assert done is self._pass
        self._pass = None
        for each in replacements:
            self._durability.owe_swap(each.segment, each.replaced)
            self._segments.replace(each.replaced, [each.segment])

    def give_up(self, failed: Compaction, error: OSError | GoQueueError) -> None:
        """Record that a pass has failed; another one may be tried, unless it was stopped by damage."""
        assert failed is self._pass
        self._pass = None
        self._has_met_damage = isinstance(error, Corrupt)
