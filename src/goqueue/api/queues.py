"""Requests and replies about queues."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from goqueue.api.fields import (
    OFFSET_MAX,
    REQUEST_PARTITIONS_MAX,
    BoundedTopicName,
    Delay,
    LastingVisibility,
    Milliseconds,
    Moment,
    PartitionIndex,
    TopicName,
    Visibility,
    Wait,
)
from goqueue.api.messages import Message
from goqueue.api.problems import MessageError
from goqueue.errors import (
    MalformedRequest,
)
from goqueue.model.queue_settings import (
    BACKOFF_FACTOR_MAX,
    CONSUMER_CHARS_MAX,
    IN_FLIGHT_MAX,
    PAUSE_CHARS_MAX,
    REASON_CHARS_MAX,
    RETRIES_MAX,
    TOPICS_MAX,
    Ordering,
)
from goqueue.model.request_limits import MESSAGES_MAX, RECEIPT_CHARS_MAX
from goqueue.model.start_at import StartAt

# The operation refuses a longer one, like any other invalid receipt.
_Receipt = Annotated[
    str, Meta(description="The receipt of a received message.", extra_json_schema={"maxLength": RECEIPT_CHARS_MAX})
]
_Reason = Annotated[str, Meta(max_length=REASON_CHARS_MAX, description="The reason, stored in the dead letter.")]


class ReceiveRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A request for messages: from which topics, how many, and for how long they are leased."""

    topic: TopicName | UnsetType = UNSET
    topics: Annotated[list[TopicName], Meta(min_length=1, max_length=TOPICS_MAX)] | UnsetType = UNSET
    max: Annotated[int, Meta(ge=1, le=MESSAGES_MAX, description="Maximum number of messages.")] = 10
    wait: Wait = 0
    visibility_timeout: Visibility | UnsetType = UNSET
    consumer: Annotated[
        str,
        Meta(
            max_length=CONSUMER_CHARS_MAX,
            description="Consumer name; `in_flight_max` applies per name. Defaults to the client's address.",
        ),
    ] = ""
    ordering: Annotated[
        Ordering,
        Meta(description="Ordering of the group, if this request creates it; ignored otherwise."),
    ] = Ordering.NONE


class ReceivedMessage(Message, kw_only=True):
    """A message that is leased to a consumer until its deadline (milliseconds since 1970)."""

    receipt_handle: str
    delivery_count: int
    deadline: int


class ReceivedMessages(msgspec.Struct):
    """Messages; `shortfall` is the reason if there could have been more."""

    messages: list[ReceivedMessage]
    shortfall: str | UnsetType = UNSET


class Receipts(msgspec.Struct, forbid_unknown_fields=True):
    """One message or several, by their receipts."""

    receipt_handle: _Receipt | UnsetType = UNSET
    receipt_handles: Annotated[list[_Receipt], Meta(min_length=1, max_length=MESSAGES_MAX)] | UnsetType = UNSET

    @property
    def is_single(self) -> bool:
        """Whether this is about one message, whose error is the error of the request."""
        return self.receipt_handle is not UNSET

    def all(self) -> Sequence[str]:
        """Return the receipts; MalformedRequest if both fields are given, or none."""
        if (self.receipt_handle is UNSET) is (self.receipt_handles is UNSET):
            raise MalformedRequest("give either receipt_handle or receipt_handles")
        if self.receipt_handle is not UNSET:
            return [self.receipt_handle]
        return self.receipt_handles if self.receipt_handles is not UNSET else []


class Ack(Receipts):
    """Messages to acknowledge."""


class Nack(Receipts):
    """Failed messages to deliver again after the delay, or after the group's backoff."""

    delay: Delay | UnsetType = UNSET
    reason: _Reason = ""


class Reject(Receipts):
    """Messages to turn into dead letters."""

    reason: _Reason = ""


class Extension(Receipts, kw_only=True):
    """Leases to extend: they end after the timeout, counted from now; 0 ends them at once."""

    timeout: Visibility


class SettledAs(StrEnum):
    """The new state of a message; `error` if it did not change."""

    DONE = "done"
    LEASED = "leased"
    WAITING = "waiting"
    READY = "ready"
    DEAD = "dead"
    ERROR = "error"


class SettledMessage(msgspec.Struct):
    """The result of one message; `until` is when it is retried or its lease ends, milliseconds since 1970."""

    receipt_handle: str
    status: SettledAs
    until: int | UnsetType = UNSET
    error: MessageError | UnsetType = UNSET


class SettledMessages(msgspec.Struct):
    """The result of each message, in the order of the request."""

    results: list[SettledMessage]


_Start = Annotated[
    str | int,
    Meta(description="earliest, latest, or a time: ISO 8601, or milliseconds since 1970."),
]


def _between(low: int, high: int) -> Meta:
    # The schema only describes these; the settings check all bounds together.
    return Meta(extra_json_schema={"minimum": low, "maximum": high})


class QueueSettingsToChange(msgspec.Struct, forbid_unknown_fields=True):
    """Settings of a queue group; omitted ones stay as they are, null resets to the default."""

    visibility_timeout: LastingVisibility | UnsetType | None = UNSET
    retries: Annotated[int, _between(0, RETRIES_MAX)] | UnsetType | None = UNSET
    backoff: Delay | UnsetType | None = UNSET
    backoff_factor: Annotated[float, _between(1, BACKOFF_FACTOR_MAX)] | UnsetType | None = UNSET
    backoff_max: Delay | UnsetType | None = UNSET
    in_flight_max: Annotated[int, _between(1, IN_FLIGHT_MAX)] | UnsetType | None = UNSET
    ordering: Ordering | UnsetType | None = UNSET
    start: _Start | UnsetType | None = UNSET
    dead_letters: Annotated[str, Meta(max_length=249)] | UnsetType | None = UNSET
    breaker_ratio: Annotated[float, _between(0, 1)] | UnsetType | None = UNSET


class QueueSettingsShown(msgspec.Struct):
    """The settings of a queue group."""

    visibility_timeout: str
    retries: int
    backoff: str
    backoff_factor: float
    backoff_max: str
    in_flight_max: int
    ordering: Ordering
    start: str | int
    dead_letters: str
    breaker_ratio: float


class QueuePartition(msgspec.Struct, kw_only=True):
    """A queue group in a partition: all messages before `floor` are done, none from `cursor` on was delivered.

    `dead_letter_trouble` is why dead letters cannot be written now; the broker retries every second.
    """

    topic: str
    partition: int
    floor: int
    cursor: int
    end_offset: int | None
    backlog: int
    leased: int
    waiting: int
    ready: int
    held: int
    dead: int
    oldest_seconds: float | None
    dead_letter_trouble: str | UnsetType = UNSET
    error: MessageError | UnsetType = UNSET


class QueueMember(msgspec.Struct, frozen=True):
    """A Kafka share consumer that is a member of a queue group."""

    member_id: str
    client_id: str
    host: str
    topics: list[str]
    in_flight: int


class Queue(msgspec.Struct, kw_only=True):
    """A queue group. `depth` is how many messages are not done, `in_flight` how many of them are leased.

    `consumers` has the number of leased messages by consumer name; `members` are Kafka's share consumers.

    `depth` and `backlog` count offsets, so they are upper bounds: offsets of transaction markers, aborted messages and
    compacted messages count until the group has passed them.
    """

    group: str
    paused: bool
    pause_reason: str
    depth: int
    in_flight: int
    oldest_seconds: float | None
    consumers: dict[str, int]
    members: list[QueueMember]
    settings: QueueSettingsShown
    partitions: list[QueuePartition]


class Queues(msgspec.Struct):
    """All queue groups."""

    queues: list[Queue]


class PauseRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The reason for a pause."""

    reason: Annotated[str, Meta(min_length=1, max_length=PAUSE_CHARS_MAX)] = "paused by hand"


class ResumeRequest(msgspec.Struct, forbid_unknown_fields=True):
    """An empty object."""


class PeekQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which topic to peek into, and how many messages to return."""

    topic: BoundedTopicName
    limit: Annotated[int, Meta(ge=1, le=MESSAGES_MAX)] = 10


class PeekedMessages(msgspec.Struct):
    """The messages that the next receives would return; none of them is leased."""

    messages: list[Message]


_PartitionIndexes = Annotated[list[PartitionIndex], Meta(min_length=1, max_length=REQUEST_PARTITIONS_MAX)]


class SeekRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The new position of a group in a topic: start, end, an offset, or a time; exactly one of them.

    Applies to all partitions unless `partitions` is given. A dry run shows the effect, and changes nothing.
    """

    topic: BoundedTopicName
    to: StartAt | UnsetType = UNSET
    offset: Annotated[int, Meta(ge=0, le=OFFSET_MAX)] | UnsetType = UNSET
    time: Milliseconds | Moment | UnsetType = UNSET
    partitions: _PartitionIndexes | UnsetType = UNSET
    dry_run: bool = False


class PurgeRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The topic whose current messages are marked as processed."""

    topic: BoundedTopicName


class PartitionMove(msgspec.Struct, frozen=True):
    """The move of a queue group in a partition: from its cursor, null if it has not begun there, to an offset.

    Receipts of the messages `in_flight` become invalid. `skipped` counts unprocessed messages that will not be
    delivered, `again` counts offsets that will be delivered once more.
    """

    topic: str
    partition: int
    cursor: int | None
    offset: int
    in_flight: int
    skipped: int
    again: int


class MovedQueue(Queue, kw_only=True):
    """A queue group after a move; after a dry run, `moves` shows what would happen."""

    dry_run: bool
    moves: list[PartitionMove]


class Reliability(msgspec.Struct, frozen=True, kw_only=True):
    """A queue group in a topic: its depth, and counts since the start of the broker.

    `depth` is how many messages are not done; with transactions or compaction, an upper bound. `delivered` counts all
    deliveries, `redelivered` those after the first of a message. `refused` counts invalid receipts, `expired` leases
    that ended without a result.
    """

    group: str
    topic: str
    paused: bool
    depth: int
    in_flight: int
    oldest_seconds: float | None
    delivered: int
    redelivered: int
    acked: int
    nacked: int
    rejected: int
    released: int
    extended: int
    refused: int
    expired: int
    dead_lettered: int
    dead_letters: dict[str, int]


class ReliabilityStats(msgspec.Struct):
    """All queue groups, by name and topic."""

    queues: list[Reliability]
