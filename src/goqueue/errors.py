"""The one tree of errors.

Every error that a user can meet descends from `GoQueueError` and from exactly one of the seven kinds below.
A kind fixes what the caller can do about it; a subclass adds a stable `code` and typed fields. Messages say
what happened and, where it helps, what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple


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


class InvalidTopicName(Invalid):
    """No topic can have that name."""

    code = "invalid_topic_name"


class InvalidTopicSettings(Invalid):
    """Settings of a topic that do not exist or have values out of range."""

    code = "invalid_topic_settings"


class InvalidPartitions(Invalid):
    """A topic cannot have that number of partitions."""

    code = "invalid_partitions"


class InvalidReplication(Invalid):
    """There are not as many brokers as the topic asks for."""

    code = "invalid_replication"


class InvalidRecord(Invalid):
    """A batch is intact, but holds what a client may not write."""

    code = "invalid_record"


class MalformedRequest(Invalid):
    """A request cannot be read, or exceeds a limit of its protocol."""

    code = "malformed_request"


class NotOffered(Invalid):
    """The request asks for something that this version does not do."""

    code = "not_offered"


class InvalidTimestamp(Invalid):
    """A client stamped records as only the broker may."""

    code = "invalid_timestamp"


class UnknownProducer(NotFound):
    """A producer that the partition does not know, or has forgotten, wants to go on in the middle of its sequence.

    `start_offset` is where the partition's log starts, -1 if nobody has said so.
    """

    code = "unknown_producer"
    start_offset = -1


class InvalidAcks(Invalid):
    """Nobody can wait for that number of acknowledgements."""

    code = "invalid_acks"


class UnknownFiles(Conflict):
    """There are files where those of a new partition would have to be, and nobody knows whose they are."""

    code = "unknown_files"


class PolicyViolation(Conflict):
    """What is asked for contradicts a setting of the topic."""

    code = "policy_violation"


class UnknownTopic(NotFound):
    """There is no topic of that name."""

    code = "unknown_topic"
    retriable = True


class UnknownTopicId(NotFound):
    """There is no topic with that id."""

    code = "unknown_topic_id"
    retriable = True


class UnknownPartition(NotFound):
    """The topic has no such partition."""

    code = "unknown_partition"
    retriable = True


class TopicExists(Conflict):
    """A topic of that name exists already."""

    code = "topic_exists"


class TopicProtected(Conflict):
    """The topic holds the broker's own state."""

    code = "topic_protected"


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


class Draining(Unavailable):
    """The broker is about to stop and takes no new work."""

    code = "draining"


class DataDirectoryLocked(Conflict):
    """Another process owns the data directory."""

    code = "data_directory_locked"


class ProducerFenced(Fenced):
    """A producer wrote with an epoch older than the current one."""

    code = "producer_fenced"


class OutOfOrderSequence(Conflict):
    """A producer's batch does not continue its sequence."""

    code = "out_of_order_sequence"


class SettingMistake(NamedTuple):
    """One thing that is wrong with settings: which of them it is about, and a line that says what."""

    names: tuple[str, ...]
    line: str


class InvalidSettings(Invalid):
    """Settings are not allowed, alone or together; the message has a line for each of the `mistakes`."""

    code = "invalid_settings"

    def __init__(self, mistakes: Sequence[SettingMistake]) -> None:
        super().__init__("\n".join(mistake.line for mistake in mistakes))
        self.mistakes = tuple(mistakes)
