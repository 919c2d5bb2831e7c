"""The state of a log that was closed cleanly, so that it need not be opened before it is used.

A few numbers say where the log starts and ends, and when retention will next have something to do. They hold as long as
nothing has touched the files since. `NEVER_WRITTEN` is the state of a log that was never written to and has no
directory.

A log with an open transaction has no `ClosedState`: only an open log knows where the oldest transaction starts.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from pathlib import PurePath
from typing import NamedTuple

from goqueue.errors import CorruptLog
from goqueue.log import names
from goqueue.log.checkpoint import CheckpointFile
from goqueue.log.segment import NO_TIMESTAMP
from goqueue.log.segments import Segments
from goqueue.model.log_settings import LogSettings
from goqueue.model.topic_settings import UNLIMITED
from goqueue.seams.disk import Disk

_LAYOUT = struct.Struct(">qqiqiqqq")
CLOSED_STATE_BYTES = _LAYOUT.size
NEVER_MS = 2**63 - 1


class ClosedState(NamedTuple):
    """A closed log: its bounds, its size, and the timestamps that decide when retention has work.

    `oldest_ms` is the greatest timestamp of the first segment, `first_ms` and `last_ms` are the first and the greatest
    one of the segment that takes the appends; -1 stands for none.

        start offset i64 | end offset i64 | leader epoch i32 | size i64 | segments i32 | oldest, first, last ms i64
    """

    start_offset: int
    end_offset: int
    leader_epoch: int
    size_bytes: int
    segment_count: int
    oldest_ms: int
    first_ms: int
    last_ms: int

    @classmethod
    def of(cls, start_offset: int, leader_epoch: int, segments: Segments) -> ClosedState:
        """Return the state of a log that has just been closed."""
        active = segments.active
        return cls(
            start_offset,
            active.next_offset,
            leader_epoch,
            segments.size_bytes,
            len(segments),
            segments.first.max_timestamp,
            active.first_timestamp,
            active.max_timestamp,
        )

    @property
    def durable_end(self) -> int:
        """The offset before which all records are durable: the end, since closing makes all of them durable."""
        return self.end_offset

    @property
    def first_open_offset(self) -> int | None:
        """None: a closed log has no open transaction."""
        return None

    @property
    def owes(self) -> bool:
        """Whether something is not durable yet, or upkeep has something to do."""
        return False

    @property
    def wants_flush(self) -> bool:
        """Whether a flush is needed that is not yet under way."""
        return False

    @property
    def wants_checkpoint(self) -> bool:
        """Whether the segment that takes the appends has grown since its index file was written."""
        return False

    @property
    def has_producers(self) -> bool:
        """False: the producers of a closed log are not in memory."""
        return False

    def due_ms(self, settings: LogSettings) -> int:
        """Return the wall-clock moment at which upkeep may have work; 0 if it may have work now."""
        if self.segment_count > 1 and settings.compacts:
            return 0
        if settings.deletes and settings.retention_bytes != UNLIMITED and self.size_bytes > settings.retention_bytes:
            return 0
        moments = [NEVER_MS]
        if self.size_bytes and self.first_ms != NO_TIMESTAMP:
            moments.append(self.first_ms + settings.segment_ms)
        if settings.deletes and settings.retention_ms != UNLIMITED:
            moments += [each + settings.retention_ms for each in (self.oldest_ms, self.last_ms) if each != NO_TIMESTAMP]
        return min(moments)


NEVER_WRITTEN = ClosedState(0, 0, 0, 0, 1, NO_TIMESTAMP, NO_TIMESTAMP, NO_TIMESTAMP)
"""A log that was never written to, and has no directory yet."""


def difference(disk: Disk, directory: PurePath, state: ClosedState) -> str:
    """Return how the files of a log differ from its closed state; empty if they do not, as far as sizes show.

    It reads the checkpoint and the sizes of the segments, but no record. Any thread may call it.
    """
    try:
        checkpoint = CheckpointFile(disk, directory / names.CHECKPOINT).load()
        sizes = [
            disk.size_of(directory / name)
            for name in disk.list_directory(directory)
            if (entry := names.parse(name)) is not None and entry[1:] == (names.LOG, "")
        ]
    except OSError as error:
        return f"its files cannot be read: {error}"
    if checkpoint is None or not checkpoint.is_clean:
        return "its checkpoint does not say that it was closed"
    if (checkpoint.start_offset, checkpoint.durable_end) != (state.start_offset, state.end_offset):
        return f"its checkpoint says offsets {checkpoint.start_offset} to {checkpoint.durable_end}"
    if (len(sizes), sum(sizes)) != (state.segment_count, state.size_bytes):
        return f"it has {len(sizes)} segments with {sum(sizes)} bytes"
    return ""


def changed(directory: PurePath, state: ClosedState, found: str) -> CorruptLog:
    """Return the error for a log whose files have changed since it was closed."""
    return CorruptLog(
        f"the log held offsets {state.start_offset} to {state.end_offset} when the broker stopped, and now {found}",
        path=str(directory),
        position=0,
        offset=state.start_offset,
        hint="put its files back as they were, or restart the broker to go on with those that are there",
    )


def encode(states: Iterable[ClosedState]) -> bytes:
    """Return the bytes of some states, one after the other."""
    return b"".join([_LAYOUT.pack(*state) for state in states])


def decode(data: bytes) -> Iterator[ClosedState]:
    """Yield the states that `encode` has written."""
    return map(ClosedState._make, _LAYOUT.iter_unpack(data))
