"""Batches and the logs that hold them."""

from __future__ import annotations

from goqueue.errors.kinds import Conflict, Corrupt, Fenced, Invalid, Unavailable


class CorruptBatch(Corrupt):
    """A record batch fails its checksum or contradicts itself."""

    code = "corrupt_batch"


class UnreadableBatch(Corrupt):
    """A stored batch is damaged, or was written so that its records cannot be read.

    It has the offsets from `base_offset` on and before `next_offset`. If it `is_damaged`, its bytes are not what was
    written.
    """

    code = "unreadable_batch"

    def __init__(self, reason: str, *, base_offset: int, next_offset: int, record_count: int, is_damaged: bool) -> None:
        super().__init__(
            f"the records from offset {base_offset} on cannot be read: {reason}",
            hint=f"reading can go on at offset {next_offset}",
        )
        self.reason = reason
        self.base_offset = base_offset
        self.next_offset = next_offset
        self.record_count = record_count
        self.is_damaged = is_damaged


class UnsupportedFormat(Invalid):
    """The bytes are of a format or codec that this version does not read."""

    code = "unsupported_format"


class TooLarge(Invalid):
    """A batch, record or decompressed payload exceeds its limit."""

    code = "too_large"


class InvalidRecord(Invalid):
    """A batch is intact, but holds what a client may not write."""

    code = "invalid_record"


class InvalidTimestamp(Invalid):
    """A client stamped records as only the broker may."""

    code = "invalid_timestamp"


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


class NotEnoughReplicas(Unavailable):
    """Fewer replicas are in sync than the topic asks for; nothing was stored."""

    code = "not_enough_replicas"


class UnknownEpoch(Conflict):
    """The caller knows a leader epoch that this broker does not know yet."""

    code = "unknown_leader_epoch"
    retriable = True


class EpochFenced(Fenced):
    """The caller knows an old leader epoch and must learn the new one."""

    code = "leader_epoch_fenced"
    retriable = True


class UnknownFiles(Conflict):
    """There are files where those of a new partition would have to be, and nobody knows whose they are."""

    code = "unknown_files"
