"""Recovers a log from the files of its directory.

Everything that an index file covers was durable when that file was written and is taken as it is. The rest is read
and checked batch by batch:

| what is wrong                           | below the durable end             | above it                           |
|-----------------------------------------|-----------------------------------|------------------------------------|
| a batch that fails its checks, garbage, | damage: reported, bytes left in   | the tail that a crash left behind: |
| zeros                                   | place, offsets never given again  | cut, and reported                  |
| bytes or whole segments missing         | damage: reported, a gap in the    | nothing                            |
|                                         | offsets                           |                                    |

The durable end is the greatest one in the checkpoint or any index file. When the checkpoint is lost,
all but the last segment count as durable: data is never removed because something else does not know about it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePath

from goqueue.errors import Corrupt, CorruptLog
from goqueue.log import names, sidecar
from goqueue.log.checkpoint import NO_TRUNCATION, Checkpoint, CheckpointFile
from goqueue.log.directory import LogDirectory
from goqueue.log.events import CheckpointLost, DamageFound, IndexRebuilt, Recovered, TailCut
from goqueue.log.flush import IndexWrite
from goqueue.log.rebuild import producers_at_end, producers_at_start, read_or_rebuild
from goqueue.log.scan import UNKNOWN_END, Fault, Scanner, gather
from goqueue.log.segment import NO_INDEX, Damage, DamageKind, Segment
from goqueue.machines.producer import ProducerTable
from goqueue.model.log_settings import LogSettings
from goqueue.seams.disk import NO_ROOM, Disk
from goqueue.seams.sink import Sink

_PREFIX_CHANGED = "an offset or leader epoch differs from what was written"


@dataclass(slots=True)
class LogState:
    """What recovery found; the last segment is the one to append to and has its details.

    `index_writes` are index files for which the disk had no room. `leader_epoch` is new if the log was not closed
    cleanly, else unchanged.
    """

    segments: list[Segment]
    producers: ProducerTable
    start_offset: int
    index_writes: list[IndexWrite]
    is_clean: bool
    is_read_only: bool
    leader_epoch: int


def recover(
    disk: Disk, directory: PurePath, settings: LogSettings, sink: Sink, checkpoint_file: CheckpointFile
) -> LogState:
    """Open the log in a directory; CorruptLog if its files contradict each other, OSError if the disk fails."""
    checkpoint = checkpoint_file.load()
    if checkpoint is not None and checkpoint.truncate_to != NO_TRUNCATION:
        checkpoint_file.settle()
    run = _Recovery(disk, directory, settings, sink, checkpoint or Checkpoint())
    bases = run.leave_out(run.files.tidy())
    heads = [run.read_head(base) for base in bases]
    if checkpoint is None and bases:
        if not run.is_begun(bases):
            sink.emit(CheckpointLost(str(directory), "no readable entry"))
        run.vouch(bases[-1])
    for known in filter(None, heads):
        run.vouch(known.next_offset)
    for number, (base, head) in enumerate(zip(bases, heads, strict=True)):
        later = bases[number + 1 :]
        if not run.take(base, head, later[0] if later else None):
            run.drop_tail(later)
            break
    return run.finish(checkpoint_file, is_new=checkpoint is None)


class _Recovery:
    """One run of recovery: takes the segments in order and gathers what is known about each."""

    def __init__(
        self, disk: Disk, directory: PurePath, settings: LogSettings, sink: Sink, checkpoint: Checkpoint
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._settings = settings
        self._sink = sink
        self._checkpoint = checkpoint
        self._stop = UNKNOWN_END if checkpoint.truncate_to == NO_TRUNCATION else checkpoint.truncate_to
        self._durable_end = min(checkpoint.durable_end, self._stop)
        self._segments: list[Segment] = []
        self._changed: list[tuple[Segment, bytes]] = []
        self._index_writes: list[IndexWrite] = []
        self._expired: list[int] = []
        # The producers at the end of the last segment taken; None where only its index file knows them.
        self._producers: ProducerTable | None = None
        self._bytes_checked = 0
        self.files = LogDirectory(disk, directory, sink)

    def vouch(self, offset: int) -> None:
        """Record that everything before an offset was durable."""
        self._durable_end = max(self._durable_end, min(offset, self._stop))

    def is_begun(self, bases: list[int]) -> bool:
        """Return whether this is a new log whose first flush had not ended: it has no checkpoint to lose."""
        return bases == [0] and not self.files.has_index(self.files.segment_path(0)) and not self.files.has_checkpoint()

    def leave_out(self, bases: list[int]) -> list[int]:
        """Return the segments that are part of the log.

        Those after the target of an unfinished truncation go now. Those before the start go at the end, since the first
        remaining segment may need them to know its producers.
        """
        start = self._checkpoint.start_offset
        if self._stop < start:
            # The log is being emptied, to go on at a later offset.
            self.files.remove(bases)
            return []
        self._expired = [base for base, following in pairwise(bases) if following <= start]
        held = bases[len(self._expired) :]
        # The first segment stays even if all its records go: only it knows what its producers did before.
        cut = [base for base in held[1:] if base >= self._stop]
        self.files.remove(cut)
        return held[: len(held) - len(cut)]

    def drop_tail(self, bases: list[int]) -> None:
        """Remove the segments after the end of the log."""
        end_offset = self._segments[-1].next_offset
        for base in bases:
            path, size = self.files.segment_path(base), self.files.size_of(base)
            self._emit_cut(path, 0, end_offset, size, "the records before it are lost")
        self.files.remove(bases)

    def read_head(self, base: int) -> Segment | None:
        """Return the content of a segment's index file; None if it cannot be used."""
        path = self.files.segment_path(base)
        try:
            head = sidecar.read_head(self._disk, path)
            if head.base_offset != base:
                raise Corrupt("the index is of another segment")
        except FileNotFoundError:
            return None
        except Corrupt as error:
            self._emit_rebuilt(path, str(error))
            return None
        return head if head.next_offset <= self._stop else None

    def take(self, base: int, head: Segment | None, next_base: int | None) -> bool:
        """Add the segment at a base offset; False if the log ends inside of it and the rest must go."""
        if self._segments and base != self._segments[-1].next_offset:
            self._bridge(self._segments[-1], base)
        path = self.files.segment_path(base)
        size = self.files.size_of(base)
        is_sealed = next_base is not None and (head is None or next_base <= max(head.next_offset, self._durable_end))
        if head is not None and head.covered == size and is_sealed:
            self._segments.append(head)
            self._producers = None
            return True
        segment, producers = self._start_of_scan(path, base, head, size)
        known = (segment.size, len(segment.damages))
        self._segments.append(segment)
        is_whole = self._scan(segment, producers, size, next_base)
        if head is not None and segment.next_offset < head.next_offset:
            self._add_missing(segment, head.next_offset)
        elif is_whole and head is None and self._settings.compacts and next_base and next_base <= self._durable_end:
            # Without an index there is no telling compaction's gaps from lost bytes; both were once durable.
            segment.has_gaps = segment.has_gaps or segment.next_offset != next_base
            segment.next_offset = next_base
        if next_base is not None and segment.next_offset < next_base and next_base > self._durable_end:
            is_whole = False
        is_unindexed = segment.covered == NO_INDEX and (self._expired or self.files.has_index(path))
        if (segment.size, len(segment.damages)) != known or is_unindexed:
            self._changed.append((segment, sidecar.encode(segment, producers)))
        self._producers = producers
        return is_whole

    def finish(self, checkpoint_file: CheckpointFile, *, is_new: bool) -> LogState:
        """Make the recovered state durable and return it."""
        start = self._settle_start(is_new=is_new)
        expired = self._replace_if_behind(start)
        if self._segments[-1].is_compacted:
            # Compacted segments stay sealed: their producers cannot be rebuilt from the remaining batches.
            self._segments.append(self._create_segment(self._segments[-1].next_offset, self._producers_at_end()))
        last = self._segments[-1]
        checkpoint = Checkpoint.at(start, last, self._checkpoint.leader_epoch)
        is_clean = not self._changed and not expired and self._checkpoint == checkpoint._replace(is_clean=1)
        if not is_clean:
            # Offsets that readers have seen may be given to other records: a new epoch lets them notice, and it is new
            # also if all batches of the one before are lost.
            known = [each.epoch for segment in self._segments for each in segment.epochs]
            checkpoint = checkpoint._replace(leader_epoch=max([checkpoint.leader_epoch, *known]) + 1)
            with self.files.changing():
                self._make_durable(last)
                checkpoint_file.commit(checkpoint)
                if self._segments[0].covered != NO_INDEX:
                    self.files.remove(expired)
        checkpoint_file.close()
        self._sink.emit(Recovered(str(self._directory), start, last.next_offset, self._bytes_checked))
        return LogState(
            self._segments,
            self._producers_at_end(),
            start,
            self._index_writes,
            is_clean=is_clean,
            is_read_only=self.files.is_read_only,
            leader_epoch=checkpoint.leader_epoch,
        )

    def _settle_start(self, *, is_new: bool) -> int:
        """Return where the log starts, and report missing records at either end."""
        start = self._checkpoint.start_offset
        # A truncation may have taken a whole batch for a target inside of it; then nothing is missing at the end.
        end = self._durable_end if self._stop == UNKNOWN_END else 0
        if not self._segments:
            if end > start:
                self._emit_damage(self._directory, 0, start, end, "all segments are missing")
            return max(start, end)
        first, last = self._segments[0], self._segments[-1]
        if last.next_offset < end:
            self._add_missing(last, end)
            self._changed.append((last, sidecar.encode(last, self._producers_at_end())))
        if first.base_offset > start and not is_new:
            self._emit_damage(first.path, 0, start, first.base_offset, "the segments before this one are missing")
        return max(start, first.base_offset)

    def _replace_if_behind(self, start: int) -> list[int]:
        """See to it that the log does not end before it starts; return the segments that may go."""
        if self._segments and self._segments[-1].next_offset >= start:
            return self._expired
        producers = self._producers_at_end()
        segment = self._create_segment(start, producers)
        behind = [*self._expired, *(segment.base_offset for segment in self._segments)]
        if behind:
            self._changed.append((segment, sidecar.encode(segment, producers)))
        self._segments = [segment]
        return behind

    def _start_of_scan(
        self, path: PurePath, base: int, head: Segment | None, size: int
    ) -> tuple[Segment, ProducerTable]:
        if head is not None and head.covered <= size:
            try:
                body = sidecar.read_body(self._disk, path)
            except Corrupt as error:
                self._emit_rebuilt(path, str(error))
            else:
                head.details = body.details
                if body.details.index:
                    head.row_due = body.details.index.row(-1).position + self._settings.index_interval_bytes
                return head, body.producers
        if self._producers is None:
            self._producers = producers_at_start(self._disk, path, self._before(), self._settings)
        producers = self._producers
        segment = Segment.fresh(path, base, producers.encode())
        segment.is_compacted = head is not None and head.is_compacted
        return segment, producers

    def _producers_at_end(self) -> ProducerTable:
        if self._producers is None:
            self._producers = producers_at_end(self._disk, self._before(), self._settings)
        return self._producers

    def _before(self) -> list[Segment]:
        return self._segments or self._expired_segments()

    def _expired_segments(self) -> list[Segment]:
        segments = []
        for base in self._expired:
            segment = Segment.fresh(self.files.segment_path(base), base)
            segment.size = self._disk.size_of(segment.path)
            segment.next_offset = UNKNOWN_END
            segments.append(segment)
        return segments

    def _scan(self, segment: Segment, producers: ProducerTable, size: int, next_base: int | None) -> bool:
        """Gather what the file holds from `segment.size` on; False if its tail had to be cut."""
        offset_end = UNKNOWN_END if next_base is None else next_base
        file = self._disk.open(segment.path, writable=False)
        try:
            scanner = Scanner(file, size)
            self._bytes_checked += size - segment.size
            while fault := self._gather(segment, producers, scanner, size, offset_end):
                if segment.next_offset >= self._durable_end:
                    return self._cut(segment, size, fault.reason)
                self._skip(segment, scanner, fault, size, offset_end)
        finally:
            file.close()
        return segment.size == size or self._cut(segment, size, "the log was truncated here")

    def _gather(
        self, segment: Segment, producers: ProducerTable, scanner: Scanner, size: int, offset_end: int
    ) -> Fault | None:
        interval = self._settings.index_interval_bytes
        mark = self._checkpoint
        if mark.segment_base == segment.base_offset and segment.size < mark.position <= size:
            fault = gather(
                segment,
                producers,
                scanner,
                end=mark.position,
                index_interval_bytes=interval,
                offset_end=min(offset_end, mark.durable_end),
                stop_offset=self._stop,
            )
            if fault is not None:
                return fault
            if segment.size == mark.position and not segment.damages and segment.chain != mark.chain:
                self._emit_damage(segment.path, segment.size, segment.base_offset, segment.next_offset, _PREFIX_CHANGED)
        return gather(
            segment,
            producers,
            scanner,
            end=size,
            index_interval_bytes=interval,
            offset_end=offset_end,
            stop_offset=self._stop,
        )

    def _skip(self, segment: Segment, scanner: Scanner, fault: Fault, size: int, offset_end: int) -> None:
        resume = scanner.batch_after(fault.position, offset_due=segment.next_offset, offset_end=offset_end)
        if resume is None:
            resume = (
                size,
                max(self._durable_end if offset_end == UNKNOWN_END else offset_end, segment.next_offset),
            )
        damage = Damage(fault.position, resume[0], segment.next_offset, resume[1], DamageKind.UNREADABLE)
        self._add_damage(segment, damage, fault.reason)

    def _cut(self, segment: Segment, size: int, reason: str) -> bool:
        self._emit_cut(segment.path, segment.size, segment.next_offset, size - segment.size, reason)
        self.files.cut(segment.path, segment.size)
        return False

    def _bridge(self, previous: Segment, base: int) -> None:
        """Explain why a segment does not start where the one before ends."""
        if base < previous.next_offset:
            raise CorruptLog(
                f"the segment overlaps the one before, which ends at offset {previous.next_offset}",
                path=str(self.files.segment_path(base)),
                position=0,
                offset=base,
                hint="one of the two is foreign; move it out of the directory",
            )
        if previous.details is None:
            number = len(self._segments) - 1
            body = read_or_rebuild(self._disk, self._segments, number, self._settings)
            previous.details, self._producers = body.details, body.producers
        self._add_missing(previous, base)
        self._changed.append((previous, sidecar.encode(previous, self._producers_at_end())))

    def _add_missing(self, segment: Segment, end_offset: int) -> None:
        damage = Damage(segment.size, segment.size, segment.next_offset, end_offset, DamageKind.MISSING)
        self._add_damage(segment, damage, "records that were durable are missing")

    def _add_damage(self, segment: Segment, damage: Damage, reason: str) -> None:
        segment.damages.append(damage)
        segment.size = damage.end_position
        segment.next_offset = damage.end_offset
        self._emit_damage(segment.path, damage.position, damage.first_offset, damage.end_offset, reason)

    def _create_segment(self, base: int, producers: ProducerTable) -> Segment:
        segment = Segment.fresh(self.files.segment_path(base), base, producers.encode())
        self.files.create(segment.path)
        return segment

    def _make_durable(self, last: Segment) -> None:
        """Make all that was found durable: a killed process may have left it in the page cache only."""
        for segment in {id(each): each for each in [*(each for each, _ in self._changed), last]}.values():
            self.files.make_durable(segment.path, self._surely_durable(segment), segment.size)
        for segment, index in self._changed:
            self._write_index(segment, index)
        self.files.sync_names()
        for segment in self._segments[:-1]:
            if segment.covered == segment.size:
                segment.details = None

    def _surely_durable(self, segment: Segment) -> int:
        """Return the position up to which a segment is known to be on the disk, not only in the page cache."""
        mark = self._checkpoint
        marked = mark.position if mark.segment_base == segment.base_offset else 0
        return min(segment.size, max(marked, segment.covered, 0))

    def _write_index(self, segment: Segment, index: bytes) -> None:
        try:
            sidecar.write(self._disk, names.index_path(segment.path), index)
        except OSError as error:
            is_misleading = segment.covered == NO_INDEX and self.files.has_index(segment.path)
            if error.errno not in NO_ROOM or is_misleading:
                raise
            # A full disk does not keep a log from being read, nor from expiring.
            self._index_writes.append(IndexWrite(segment, segment.size, segment.next_offset, index))
        else:
            segment.covered = segment.size

    def _emit_damage(self, path: PurePath, position: int, first_offset: int, end_offset: int, reason: str) -> None:
        self._sink.emit(DamageFound(str(self._directory), str(path), position, first_offset, end_offset, reason))

    def _emit_cut(self, path: PurePath, position: int, end_offset: int, bytes_cut: int, reason: str) -> None:
        self._sink.emit(TailCut(str(self._directory), str(path), position, end_offset, bytes_cut, reason))

    def _emit_rebuilt(self, path: PurePath, reason: str) -> None:
        self._sink.emit(IndexRebuilt(str(self._directory), str(names.index_path(path)), reason))
