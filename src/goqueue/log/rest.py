"""What is known of a log that is not open, so that it need not be opened before it is used.

A log that was closed cleanly is described by a few numbers. As long as nothing has touched its files since, they answer
where it starts and ends, and when retention will next have something to do. A log that was never written to has no
directory; it is described by `NEW`.

A log with an open transaction is never described by a `Rest`: whoever asks where the oldest one starts has to open it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from goqueue.log.retention import UNLIMITED
from goqueue.log.segment import NO_TIMESTAMP
from goqueue.log.segments import Segments
from goqueue.model.log_settings import LogSettings

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
    segments: int
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

    def due_ms(self, settings: LogSettings) -> int:
        """Return the wall-clock moment at which upkeep may have something to do; 0 if it may have now."""
        if self.segments > 1 and settings.compacts:
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


def encode(rests: Iterable[Rest]) -> bytes:
    """Return descriptions one after the other."""
    return b"".join([_LAYOUT.pack(*rest) for rest in rests])


def decode(data: bytes) -> Iterator[Rest]:
    """Yield the descriptions that `encode` has put together."""
    return map(Rest._make, _LAYOUT.iter_unpack(data))
