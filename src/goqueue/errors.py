"""The one tree of errors.

Every error that a user can meet descends from `GoQueueError` and from exactly one of seven kinds. A kind fixes what the
caller can do about it; a subclass adds a stable `code` and typed fields. The first line of a docstring is the meaning
of the code in the documentation. Messages say what happened and, where it helps, what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple, Self

from typing_extensions import override


class GoQueueError(Exception):
    """Base of all errors; `code` is stable across releases, `retriable` says whether the call may succeed later."""

    code: ClassVar[str] = "error"
    retriable: ClassVar[bool] = False

    @override
    def __init_subclass__(cls, *, code: str = "", retriable: bool | None = None) -> None:
        """Set `code` and `retriable` of a subclass; what is not given is inherited."""
        super().__init_subclass__()
        if code:
            cls.code = code
        if retriable is not None:
            cls.retriable = retriable

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(f"{message} ({hint})" if hint else message)
        self.message = message
        self.hint = hint
        self.subject = ""

    def about(self, subject: str) -> Self:
        """Note which name the error is about, so that similar names can be suggested."""
        self.subject = subject
        return self

    def without_frames(self) -> Self:
        """Return the error without its traceback and without the errors that led to it.

        Call this before an error is kept or passed on: frames keep their variables alive, and with them everything that
        was read and decompressed when the error was raised.
        """
        self.__traceback__ = self.__context__ = self.__cause__ = None
        return self


class Invalid(GoQueueError, code="invalid"):
    """The request itself is wrong; sending it again cannot help."""


class NotFound(GoQueueError, code="not_found"):
    """The request names something that does not exist."""


class Conflict(GoQueueError, code="conflict"):
    """The request contradicts the current state."""


class Fenced(GoQueueError, code="fenced"):
    """A newer epoch has replaced the one that the caller uses."""


class Throttled(GoQueueError, code="throttled", retriable=True):
    """A limit on rate or amount is reached; try again later."""


class Unavailable(GoQueueError, code="unavailable", retriable=True):
    """The system cannot serve the request now."""


class Corrupt(GoQueueError, code="corrupt"):
    """Stored or received bytes differ from those that were written."""


# Requests that cannot be served, and a broker that cannot start.


class MalformedRequest(Invalid, code="malformed_request"):
    """A request cannot be parsed, or exceeds a limit of its protocol."""


class NotOffered(Invalid, code="not_offered"):
    """This version does not support what the request asks for."""


class InvalidAcks(Invalid, code="invalid_acks"):
    """The number of acknowledgements to wait for must be -1, 0 or 1."""


class Draining(Unavailable, code="draining"):
    """The broker is stopping and takes no new work."""


class DataDirectoryLocked(Conflict, code="data_directory_locked"):
    """Another process owns the data directory."""


class DataDirectoryUnusable(Conflict, code="data_directory_unusable"):
    """The data directory cannot be created, or cannot be written to."""


class PortInUse(Conflict, code="port_in_use"):
    """Another process listens on a port of the broker; `option` sets that port."""

    def __init__(self, option: str, port: int, *, free_port: int = 0, holder: str = "another process") -> None:
        example = f", for example {option} {free_port}" if free_port else ""
        super().__init__(
            f"port {port} ({option}) is in use by {holder}", hint=f"stop it, or choose another port{example}"
        )
        self.option = option
        self.port = port
        self.free_port = free_port


class SettingMistake(NamedTuple):
    """One mistake in settings: the settings that it is about, and a line that describes it."""

    names: tuple[str, ...]
    line: str


class InvalidSettings(Invalid, code="invalid_settings"):
    """Settings are invalid, alone or together; the message has a line for each of the `mistakes`."""

    def __init__(self, mistakes: Sequence[SettingMistake]) -> None:
        super().__init__("\n".join(mistake.line for mistake in mistakes))
        self.mistakes = tuple(mistakes)


# Topics, their partitions and settings.


class InvalidTopicName(Invalid, code="invalid_topic_name"):
    """The name is not allowed for a topic."""


class InvalidTopicSettings(Invalid, code="invalid_topic_settings"):
    """A setting of a topic does not exist, or its value is out of range."""


class InvalidPartitions(Invalid, code="invalid_partitions"):
    """A topic cannot have that number of partitions."""


class InvalidReplication(Invalid, code="invalid_replication"):
    """There are fewer brokers than the replication factor asks for."""


class PolicyViolation(Conflict, code="policy_violation"):
    """The request contradicts a setting of the topic."""


class UnknownTopic(NotFound, code="unknown_topic", retriable=True):
    """There is no topic of that name."""


class UnknownTopicId(NotFound, code="unknown_topic_id", retriable=True):
    """There is no topic with that id."""


class UnknownPartition(NotFound, code="unknown_partition", retriable=True):
    """The topic has no such partition."""


class TopicExists(Conflict, code="topic_exists"):
    """A topic of that name exists already."""


class TopicProtected(Conflict, code="topic_protected"):
    """The topic holds the broker's own state; clients cannot write to it or change it."""


class TopicPrivate(Conflict, code="topic_private"):
    """The topic holds the broker's own state; clients cannot read it."""


# Batches, and the logs that hold them.


class CorruptBatch(Corrupt, code="corrupt_batch"):
    """A record batch fails its checksum or contradicts itself."""


class UnreadableBatch(Corrupt, code="unreadable_batch"):
    """A stored batch is damaged, or was written so that its records cannot be read.

    It has the offsets from `base_offset` to `next_offset` (exclusive). If it `is_damaged`, its bytes are not what was
    written.
    """

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


class UnsupportedFormat(Invalid, code="unsupported_format"):
    """This version cannot read the format or codec of the bytes."""


class TooLarge(Invalid, code="too_large"):
    """A batch, record or decompressed payload exceeds its limit."""


class InvalidRecord(Invalid, code="invalid_record"):
    """A batch is intact, but holds something that a client may not write."""


class InvalidTimestamp(Invalid, code="invalid_timestamp"):
    """A client set timestamps that only the broker may set."""


class CorruptLog(Corrupt, code="corrupt_log"):
    """A stored log is damaged at a known position; `resume_offset` is where reading can go on, if it can."""

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


class OffsetOutOfRange(Invalid, code="offset_out_of_range"):
    """The log does not hold that offset."""

    def __init__(self, offset: int, *, start: int, end: int) -> None:
        super().__init__(f"offset {offset} is outside of the log, which holds {start} to {end} (exclusive)")
        self.offset = offset
        self.start = start
        self.end = end


class LogOffline(Unavailable, code="log_offline", retriable=False):
    """The log takes no appends because of an earlier disk error."""


class DiskFull(Unavailable, code="disk_full"):
    """The disk is full; nothing of the request was stored."""


class NotEnoughReplicas(Unavailable, code="not_enough_replicas"):
    """Fewer replicas are in sync than the topic requires; nothing was stored."""


class UnknownEpoch(Conflict, code="unknown_leader_epoch", retriable=True):
    """The caller's leader epoch is newer than the broker's."""


class EpochFenced(Fenced, code="leader_epoch_fenced", retriable=True):
    """The caller's leader epoch is old; refresh the metadata."""


class UnknownFiles(Conflict, code="unknown_files"):
    """The directory of a new partition already holds unknown files."""


# Producers, their sequences and their transactions.


class UnknownProducer(NotFound, code="unknown_producer"):
    """The partition does not know the producer, or has forgotten it, and its batch does not start a sequence.

    `start_offset` is where the partition's log starts, -1 if that is not known.
    """

    start_offset = -1


class ProducerFenced(Fenced, code="producer_fenced"):
    """The producer's epoch is older than the current one."""


class TransactionFenced(ProducerFenced, code="transaction_fenced"):
    """A newer producer uses the transactional id, or the transaction took too long and was aborted."""


class OutOfOrderSequence(Conflict, code="out_of_order_sequence"):
    """A producer's batch does not continue its sequence."""


class InvalidTransactionState(Conflict, code="invalid_transaction_state"):
    """The state of the transaction does not allow the request."""


class ProducerMismatch(Conflict, code="producer_mismatch"):
    """The transactional id belongs to another producer id."""


class InvalidTransactionTimeout(Invalid, code="invalid_transaction_timeout"):
    """The timeout of a transaction is too short or too long."""


class ConcurrentTransactions(Conflict, code="concurrent_transactions", retriable=True):
    """The previous transaction has not ended completely."""


class UnknownTransaction(NotFound, code="unknown_transaction"):
    """There is no such transactional id."""


# Consumer groups, their members and offsets.


class InvalidGroup(Invalid, code="invalid_group"):
    """The name is not allowed for a group."""


class UnknownGroup(NotFound, code="unknown_group"):
    """There is no group of that name."""


class GroupNotEmpty(Conflict, code="group_not_empty"):
    """The request needs a group without members."""


class GroupSubscribed(Conflict, code="group_subscribed"):
    """Offsets of a topic cannot be deleted while members of the group read it."""


class InconsistentProtocol(Conflict, code="inconsistent_group_protocol"):
    """The group is of another kind, or its members share no assignor with the new one."""


class InvalidSessionTimeout(Invalid, code="invalid_session_timeout"):
    """The session timeout of a member is too short or too long."""


class GroupFull(Conflict, code="group_full"):
    """The group has as many members as it may have, or their subscriptions are too large together."""


class GroupRequestTooLarge(Invalid, code="group_request_too_large"):
    """A member sends more than a group stores of one: names, subscription or assignments."""


class UnknownMember(NotFound, code="unknown_member"):
    """The group has no such member: it left, or its session expired."""


class MemberIdRequired(Conflict, code="member_id_required", retriable=True):
    """A new member must join again with the `member_id` of this error."""

    def __init__(self, message: str, *, member_id: str) -> None:
        super().__init__(message)
        self.member_id = member_id


class StaleGeneration(Fenced, code="stale_generation"):
    """The generation is over, or the partition is not assigned to the member."""


class InstanceFenced(Fenced, code="instance_fenced"):
    """Another member has taken over the instance id."""


class InstanceInUse(Conflict, code="instance_in_use", retriable=True):
    """Another member with the same instance id has not left yet."""


class MemberFenced(Fenced, code="member_fenced"):
    """The member's epoch differs from the group's record of it; the member must join again."""


class StaleMemberEpoch(Fenced, code="stale_member_epoch", retriable=True):
    """The member's epoch is old, or the partition is not assigned to it; the next heartbeat brings the new state."""


class RebalanceInProgress(Conflict, code="rebalance_in_progress", retriable=True):
    """The group is rebalancing; members must join again."""


class UnsupportedAssignor(Invalid, code="unsupported_assignor"):
    """The broker has no assignor of that name."""


class InvalidPattern(Invalid, code="invalid_pattern"):
    """A subscription is not a regular expression that the broker supports."""


class OffsetMetadataTooLarge(Invalid, code="offset_metadata_too_large"):
    """The metadata of a committed offset is too long."""


class CommitTooLarge(Invalid, code="commit_too_large"):
    """A commit has more offsets or metadata than can be stored at once."""


class UnstableOffsets(Unavailable, code="unstable_offsets"):
    """An open transaction is about to change the requested offsets."""


class CoordinatorUnavailable(Unavailable, code="coordinator_unavailable"):
    """The log with the state of the group or transaction cannot be used."""


# Queue groups, share groups and redrives.


class UnknownQueue(NotFound, code="unknown_queue"):
    """There is no queue group of that name, or it has not begun with that partition."""


class StaleReceipt(Conflict, code="stale_receipt"):
    """The message is no longer leased under this receipt."""


class InvalidReceipt(Invalid, code="invalid_receipt"):
    """The receipt is malformed."""


class ShareSessionNotFound(NotFound, code="share_session_not_found", retriable=True):
    """The member has no share session: it was closed, or the broker restarted."""


class InvalidShareSessionEpoch(Conflict, code="invalid_share_session_epoch", retriable=True):
    """The epoch of the request is not the one that the share session expects next."""


class ShareSessionLimit(Throttled, code="share_session_limit_reached"):
    """The broker has as many share sessions as it allows."""


class UnknownRedrive(NotFound, code="unknown_redrive"):
    """There is no redrive with that id, or it ended so long ago that it was forgotten."""


class RedriveRunning(Conflict, code="redrive_running"):
    """The request has to wait until a redrive of the same dead letters has ended."""


# Runs of pipelines and jobs.


class UnknownPipeline(NotFound, code="unknown_pipeline"):
    """No run of that pipeline has reported, or the last one was forgotten."""


class PipelineRunning(Conflict, code="pipeline_running"):
    """A run of the pipeline is in progress: a second one would share its checkpoints, and it cannot be forgotten."""


class UnknownJob(NotFound, code="unknown_job"):
    """No run with that id has reported, or it was forgotten."""
