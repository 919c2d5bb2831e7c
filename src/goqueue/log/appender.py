"""Writes batches to the last segment, all of them or none, and records their producers and epochs."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import PurePath

from goqueue.errors import DiskFull, Unavailable
from goqueue.log import names, sidecar
from goqueue.log.batches import NewBatch
from goqueue.log.durability import Durability
from goqueue.log.epochs import LeaderEpochs
from goqueue.log.events import SegmentRolled
from goqueue.log.flush import IndexWrite
from goqueue.log.segment import OFFSETS_PER_SEGMENT_MAX, Segment
from goqueue.log.segments import Segments
from goqueue.machines.producer import ProducerTable
from goqueue.model.log_settings import LogSettings
from goqueue.records.control import ControlType, read_marker
from goqueue.records.layout import CONTROL_BIT, BatchHeader
from goqueue.seams.disk import NO_ROOM, Disk, File
from goqueue.seams.sink import Sink

_NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)


class Appender:
    """The writing end of one log.

    A full disk is DiskFull, too many open files are Unavailable, and everything is as it was before. Any other OSError
    means that the log's last bytes are unknown: nothing may be appended any more.
    """

    def __init__(
        self,
        disk: Disk,
        settings: LogSettings,
        segments: Segments,
        durability: Durability,
        producers: ProducerTable,
        epochs: LeaderEpochs,
        sink: Sink,
    ) -> None:
        self._disk = disk
        self.settings = settings
        self._segments = segments
        self._durability = durability
        self._producers = producers
        self._epochs = epochs
        self._sink = sink

    def append(self, headers: Sequence[BatchHeader], batches: Sequence[NewBatch]) -> None:
        """Write batches whose headers have their offsets."""
        markers = [
            read_marker(batch.data).control_type if batch.header.attributes & CONTROL_BIT else None for batch in batches
        ]
        parts = [batch.data for batch in batches]
        active = self._segment_for(headers, sum(map(len, parts)))
        file = active.file or self._reopen(active)
        try:
            file.write_at(active.size, *parts)
        except OSError as error:
            # A later, shorter write would leave the rest of this one readable, and so would a crash.
            self._durability.is_in_doubt = True
            file.truncate(active.size)
            file.sync()
            self._durability.is_in_doubt = False
            self._explain(error, active.path)
            raise
        self._durability.owe_sync(active)
        interval = self.settings.index_interval_bytes
        for header, part, marker in zip(headers, parts, markers, strict=True):
            active.extend(header, part, index_interval_bytes=interval)
            if header.leader_epoch > self._epochs.latest:
                self._epochs.note(header.leader_epoch, header.base_offset)
            if header.producer_id >= 0:
                self._note_producer(active, header, marker)

    def _note_producer(self, active: Segment, header: BatchHeader, marker: ControlType | None) -> None:
        aborted = self._producers.apply(header, marker)
        if aborted is not None:
            assert active.details is not None
            active.details.aborted.append(aborted)

    def roll(self, base_offset: int | None = None) -> Segment:
        """Seal the last segment, unless it is empty, and start a new one, at its end or at a later offset."""
        active = self._segments.active
        base = active.next_offset if base_offset is None else base_offset
        if base == active.base_offset:
            return active
        segment = Segment.fresh(names.segment_path(active.path.parent, base), base, self._producers.encode())
        segment.file = self._open(segment.path, create=True)
        active.has_gaps = active.has_gaps or active.next_offset != base
        active.next_offset = base
        assert active.details is not None
        active.details.seal(self._producers, base)
        self._durability.owe_names()
        self._durability.owe_index(self.index_of_active())
        self._segments.add(segment)
        self._sink.emit(SegmentRolled(str(segment.path.parent), base))
        return segment

    def index_of_active(self) -> IndexWrite:
        """Return the index file of the last segment as it would be now."""
        active = self._segments.active
        return IndexWrite(active, active.size, active.next_offset, sidecar.encode(active, self._producers))

    def _segment_for(self, headers: Sequence[BatchHeader], size: int) -> Segment:
        active = self._segments.active
        if headers[-1].next_offset - active.base_offset > OFFSETS_PER_SEGMENT_MAX:
            return self.roll(headers[0].base_offset)
        is_full = active.size > 0 and active.size + size > self.settings.segment_bytes
        return self.roll() if is_full else active

    def _reopen(self, active: Segment) -> File:
        is_new = self._durability.is_unmade
        if is_new:
            # The names become durable with the first flush; the checkpoint is empty until then.
            self._make(active.path.parent)
        active.file = self._open(active.path, create=is_new)
        if is_new:
            self._durability.owe_new()
        return active.file

    def _make(self, directory: PurePath) -> None:
        try:
            self._disk.make_directory(directory)
        except OSError as error:
            self._explain(error, directory)
            raise
        self._open(directory / names.CHECKPOINT, create=True).close()

    def _open(self, path: PurePath, *, create: bool) -> File:
        try:
            return self._disk.open(path, create=create)
        except OSError as error:
            self._explain(error, path)
            raise

    def _explain(self, error: OSError, path: PurePath) -> None:
        if error.errno in _NO_DESCRIPTOR:
            raise Unavailable(f"{path}: {error.strerror}", hint="raise the limit of open files") from error
        if error.errno in NO_ROOM:
            raise DiskFull(f"{path} at offset {self._segments.active.next_offset}: {error.strerror}") from error
