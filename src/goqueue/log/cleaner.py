"""The books of compaction: which pass is under way, and what becomes of its segments."""

from __future__ import annotations

from collections.abc import Sequence

from goqueue.errors import Corrupt, GoQueueError
from goqueue.log import compaction
from goqueue.log.compaction import Compaction, Replacement
from goqueue.log.durability import Durability
from goqueue.log.segments import Segments
from goqueue.machines.producer import ProducerTable
from goqueue.model.log_settings import LogSettings
from goqueue.seams.disk import Disk


class Cleaner:
    """Begins passes of compaction over one log and takes their outcome in, one at a time."""

    def __init__(self, disk: Disk, settings: LogSettings, segments: Segments, books: Durability) -> None:
        self._disk = disk
        self.settings = settings
        self._segments = segments
        self._books = books
        self._pass: Compaction | None = None
        self._has_met_damage = False

    @property
    def is_busy(self) -> bool:
        """Whether a pass is under way."""
        return self._pass is not None

    def begin(self, now_ms: int, end_offset: int, producers: ProducerTable) -> Compaction | None:
        """Return the work of a pass over what ends at or before an offset; None if none is due, or one is under way."""
        is_wanted = self.settings.compacts and not self._has_met_damage
        if not is_wanted or self._pass is not None or self._books.has_swaps:
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
            self._books.owe_swap(each.segment, each.replaced)
            self._segments.replace(each.replaced, [each.segment])

    def give_up(self, failed: Compaction, error: OSError | GoQueueError) -> None:
        """Take note that a pass has failed; another one may be tried, unless it was stopped by damage."""
        assert failed is self._pass
        self._pass = None
        self._has_met_damage = isinstance(error, Corrupt)
