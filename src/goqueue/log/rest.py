"""What is known of a log that is not open, so that it need not be opened before it is used.

A log that was closed cleanly is described by a few numbers. As long as nothing has touched its files since, they answer
where it starts and ends, and when retention will next have something to do. A log that was never written to has no
directory; it is described by `NEW`.

A log with an open transaction is never described by a `Rest`: whoever asks where the oldest one starts has to open it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from pathlib import PurePath
from typing import NamedTuple

from goqueue.errors import CorruptLog
from goqueue.log import names
from goqueue.log.checkpoint import CheckpointFile
from goqueue.log.retention import UNLIMITED
from goqueue.log.segment import NO_TIMESTAMP
from goqueue.log.segments import Segments
from goqueue.model.log_settings import LogSettings
from goqueue.seams.disk import Disk

_LAYOUT = struct.Struct(">qqiqiqqq")
REST_BYTES = _LAYOUT.size
NEVER_MS = 2**63 - 1


class Rest(NamedTuple):
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
    def of(cls, start_offset: int, leader_epoch: int, segments: Segments) -> Rest:
        """Return what is to be remembered of a log that has just been closed."""
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
        """The offset before which all records are durable: a log is closed when all of them are."""
        return self.end_offset

    @property
    def first_open_offset(self) -> int | None:
        """Where the oldest open transaction starts; there is none."""
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
        """Whether producers are remembered that may fall silent: those of a closed log are not in memory."""
        return False

    def due_ms(self, settings: LogSettings) -> int:
        """Return the wall-clock moment at which upkeep may have something to do; 0 if it may have now."""
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


NEW = Rest(0, 0, 0, 0, 1, NO_TIMESTAMP, NO_TIMESTAMP, NO_TIMESTAMP)
"""A log that was never written to: there is no directory of it yet."""


def difference(disk: Disk, directory: PurePath, rest: Rest) -> str:
    """Return how the files of a log differ from what is known of it; empty if they do not, as far as sizes tell.

    It reads the checkpoint and the sizes of the segments, and no record. Any thread may do it.
    """
    try:
        checkpoint = CheckpointFile(disk, directory / names.CHECKPOINT).load()
        sizes = [
            disk.size_of(directory / name)
            for name in disk.list_directory(directory)
            if (entry := names.parse(name)) is not None and entry[1:] == (names.LOG, "")
        ]
    except OSError as error:
        return f"its files cannot be looked at: {error}"
    if checkpoint is None or not checkpoint.is_clean:
        return "its checkpoint does not say that it was closed"
    if (checkpoint.start_offset, checkpoint.durable_end) != (rest.start_offset, rest.end_offset):
        return f"its checkpoint says offsets {checkpoint.start_offset} to {checkpoint.durable_end}"
    if (len(sizes), sum(sizes)) != (rest.segment_count, rest.size_bytes):
        return f"it has {len(sizes)} segments with {sum(sizes)} bytes"
    return ""


def changed(directory: PurePath, rest: Rest, found: str) -> CorruptLog:
    """Return the error that says that a log is not what it was when it was closed."""
    return CorruptLog(
        f"the log held offsets {rest.start_offset} to {rest.end_offset} when the broker stopped, and now {found}",
        path=str(directory),
        position=0,
        offset=rest.start_offset,
        hint="put its files back as they were, or restart the broker to go on with those that are there",
    )


def encode(rests: Iterable[Rest]) -> bytes:
    """Return descriptions one after the other."""
    return b"".join([_LAYOUT.pack(*rest) for rest in rests])


def decode(data: bytes) -> Iterator[Rest]:
    """Yield the descriptions that `encode` has put together."""
    return map(Rest._make, _LAYOUT.iter_unpack(data))
