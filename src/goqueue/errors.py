"""The one tree of errors.

Every error that a user can meet descends from `GoQueueError` and from exactly one of the seven kinds below.
A kind fixes what the caller can do about it; a subclass adds a stable `code` and typed fields. Messages say
what happened and, where it helps, what to do.
"""

from __future__ import annotations

from typing import ClassVar


class GoQueueError(Exception):
    """Base of all errors; `code` is stable across releases, `retriable` says whether the call may succeed later."""

    code: ClassVar[str] = "error"
    retriable: ClassVar[bool] = False

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(f"{message} ({hint})" if hint else message)
        self.message = message
        self.hint = hint


class Invalid(GoQueueError):
    """The request itself is wrong; sending it again cannot help."""

    code = "invalid"


class NotFound(GoQueueError):
    """What the request names does not exist."""

    code = "not_found"


class Conflict(GoQueueError):
    """The request contradicts the current state."""

    code = "conflict"


class Fenced(GoQueueError):
    """The caller acts with an epoch that a newer one has replaced."""

    code = "fenced"


class Throttled(GoQueueError):
    """A limit on rate or amount is reached; try again later."""

    code = "throttled"
    retriable = True


class Unavailable(GoQueueError):
    """The system cannot serve the request now."""

    code = "unavailable"
    retriable = True


class Corrupt(GoQueueError):
    """Stored or received bytes are not what was written."""

    code = "corrupt"


class CorruptBatch(Corrupt):
    """A record batch fails its checksum or contradicts itself."""

    code = "corrupt_batch"


class UnsupportedFormat(Invalid):
    """The bytes are of a format or codec that this version does not read."""

    code = "unsupported_format"


class TooLarge(Invalid):
    """A batch, record or decompressed payload exceeds its limit."""

    code = "too_large"


class CorruptLog(Corrupt):
    """A stored log is damaged at a known place; `resume_offset` is where reading can go on, if it can."""

    code = "corrupt_log"

    def __init__(
        self,
        message: str,
        *,
        path: str,
        position: int,
        offset: int,
        resume_offset: int | None = None,
        hint: str = "",
    ) -> None:
        if resume_offset is not None and not hint:
            hint = f"reading can go on at offset {resume_offset}"
        super().__init__(f"{path} at byte {position} (offset {offset}): {message}", hint=hint)
        self.path = path
        self.position = position
        self.offset = offset
        self.resume_offset = resume_offset


class OffsetOutOfRange(Invalid):
    """The offset lies outside of what the log holds."""

    code = "offset_out_of_range"

    def __init__(self, offset: int, *, start: int, end: int) -> None:
        super().__init__(f"offset {offset} is outside of the log, which holds {start} to {end} (exclusive)")
        self.offset = offset
        self.start = start
        self.end = end


class LogOffline(Unavailable):
    """The log takes no appends, because of an earlier fault of its disk."""

    code = "log_offline"
    retriable = False


class DiskFull(Unavailable):
    """The disk has no room; nothing of the request was stored."""

    code = "disk_full"


class DataDirectoryLocked(Conflict):
    """Another process owns the data directory."""

    code = "data_directory_locked"


class ProducerFenced(Fenced):
    """A producer wrote with an epoch older than the current one."""

    code = "producer_fenced"


class OutOfOrderSequence(Conflict):
    """A producer's batch does not continue its sequence."""

    code = "out_of_order_sequence"
