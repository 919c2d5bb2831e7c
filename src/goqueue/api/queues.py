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

# One that is too long is no receipt, and told so with the others.
_Receipt = Annotated[
    str, Meta(description="As a received message has it.", extra_json_schema={"maxLength": RECEIPT_CHARS_MAX})
]
_Reason = Annotated[str, Meta(max_length=REASON_CHARS_MAX, description="Why, for those who look at dead letters.")]


class ReceiveRequest(msgspec.Struct, forbid_unknown_fields=True):
    """What a consumer wants: messages of which topic or topics, how many, and for how long."""

    topic: TopicName | UnsetType = UNSET
    topics: Annotated[list[TopicName], Meta(min_length=1, max_length=TOPICS_MAX)] | UnsetType = UNSET
    max: Annotated[int, Meta(ge=1, le=MESSAGES_MAX, description="How many messages at most.")] = 10
    wait: Wait = 0
    visibility_timeout: Visibility | UnsetType = UNSET
    consumer: Annotated[
        str,
        Meta(
            max_length=CONSUMER_CHARS_MAX,
            description="Who receives: messages in flight are limited for each. If empty, the address of the client.",
        ),
    ] = ""
    ordering: Annotated[
        Ordering,
        Meta(description="Of the group, if this request makes it. That of a group that is there stays as it is."),
    ] = Ordering.NONE


class ReceivedMessage(Message, kw_only=True):
    """A message that belongs to a consumer until its deadline (milliseconds since 1970)."""

    receipt_handle: str
    delivery_count: int
    deadline: int


class ReceivedMessages(msgspec.Struct):
    """Messages, and why they are fewer than there could be, if there is a reason."""

    messages: list[ReceivedMessage]
    shortfall: str | UnsetType = UNSET


class Receipts(msgspec.Struct, forbid_unknown_fields=True):
    """Messages by their receipts: one, or many."""

    receipt_handle: _Receipt | UnsetType = UNSET
    receipt_handles: Annotated[list[_Receipt], Meta(min_length=1, max_length=MESSAGES_MAX)] | UnsetType = UNSET

    @property
    def is_single(self) -> bool:
        """Whether it is about one message, whose failure is that of the request."""
        return self.receipt_handle is not UNSET

    def all(self) -> Sequence[str]:
        """Return the receipts, one or many; MalformedRequest if there are both, or none."""
        if (self.receipt_handle is UNSET) is (self.receipt_handles is UNSET):
            raise MalformedRequest("either receipt_handle or receipt_handles has to be given")
        if self.receipt_handle is not UNSET:
            return [self.receipt_handle]
        return self.receipt_handles if self.receipt_handles is not UNSET else []


class Ack(Receipts):
    """Messages that are done."""


class Nack(Receipts):
    """Messages that failed, and are to be tried again: after the delay, or after the group's backoff."""

    delay: Delay | UnsetType = UNSET
    reason: _Reason = ""


class Reject(Receipts):
    """Messages that can never be processed, and become dead letters."""

    reason: _Reason = ""


class Extension(Receipts, kw_only=True):
    """Messages that need longer: their lease ends after the timeout, counted from now; with 0 it ends at once."""

    timeout: Visibility


class SettledAs(StrEnum):
    """What a message is from now on; `error` if nothing was done to it."""

    DONE = "done"
    LEASED = "leased"
    WAITING = "waiting"
    READY = "ready"
    DEAD = "dead"
    ERROR = "error"


class SettledMessage(msgspec.Struct):
    """What became of one message; `until` is when it is tried again or its lease ends, milliseconds since 1970."""

    receipt_handle: str
    status: SettledAs
    until: int | UnsetType = UNSET
    error: MessageError | UnsetType = UNSET


class SettledMessages(msgspec.Struct):
    """What became of each message, in the order of the request."""

    results: list[SettledMessage]


_Start = Annotated[
    str | int,
    Meta(description="earliest, latest, or a time: ISO 8601, or milliseconds since 1970."),
]


def _between(low: int, high: int) -> Meta:
    # Described only: what is out of bounds is told by the settings themselves, all of it at once.
    return Meta(extra_json_schema={"minimum": low, "maximum": high})


class QueueSettingsToChange(msgspec.Struct, forbid_unknown_fields=True):
    """Settings of a queue group; what is left out stays as it is, and null stands for the default."""

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
    """How a queue group stands in a partition: all before `floor` is done, nothing from `cursor` on was delivered.

    `dead_letter_trouble` is why dead messages cannot become letters now; that is tried again every second.
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


class QueueMember(msgspec.Struct):
    """A share consumer that is a member of a queue group, whether it holds messages or none."""

    member_id: str
    client_id: str
    host: str
    topics: list[str]
    in_flight: int


class Queue(msgspec.Struct, kw_only=True):
    """A queue group. `depth` is how many messages are not done, `in_flight` how many of them are leased.

    `consumers` are those who hold messages, and how many each of them; `members` are Kafka's share consumers in it.

    `depth` and `backlog` count places in the log: where there are transactions, or compaction, there are at most so
    many messages, since what is never delivered counts until the group comes by.
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
    """Why a group is paused."""

    reason: Annotated[str, Meta(min_length=1, max_length=PAUSE_CHARS_MAX)] = "paused by hand"


class ResumeRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Nothing has to be said to resume a group."""


class PeekQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Of which topic, and how many."""

    topic: BoundedTopicName
    limit: Annotated[int, Meta(ge=1, le=MESSAGES_MAX)] = 10


class PeekedMessages(msgspec.Struct):
    """Messages that the next receives would bring; nobody has them."""

    messages: list[Message]


_PartitionIndexes = Annotated[list[PartitionIndex], Meta(min_length=1, max_length=REQUEST_PARTITIONS_MAX)]


class SeekRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Where a group goes on with a topic: at its start, its end, an offset of each partition, or a time.

    It is about all partitions unless some are named. A dry run tells what would happen, and changes nothing.
    """

    topic: BoundedTopicName
    to: StartAt | UnsetType = UNSET
    offset: Annotated[int, Meta(ge=0, le=OFFSET_MAX)] | UnsetType = UNSET
    time: Milliseconds | Moment | UnsetType = UNSET
    partitions: _PartitionIndexes | UnsetType = UNSET
    dry_run: bool = False


class PurgeRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The topic of which everything that is there now is done for the group."""

    topic: BoundedTopicName


class PartitionMove(msgspec.Struct):
    """How a queue group is moved in a partition: from its cursor, null if it has not begun there, to an offset.

    Receipts of what is `in_flight` mean nothing then. `skipped` is what is not done and is not delivered then, `again`
    counts offsets that were looked at already, and are delivered as new ones.
    """

    topic: str
    partition: int
    cursor: int | None
    offset: int
    in_flight: int
    skipped: int
    again: int


class MovedQueue(Queue, kw_only=True):
    """A queue group as it is now, and how it was moved; by a dry run, how it would be."""

    dry_run: bool
    moves: list[PartitionMove]


class Reliability(msgspec.Struct, kw_only=True):
    """A queue group in a topic: what is in it, and how many messages have gone which way since the broker was started.

    `depth` is how many messages are not done; where there are transactions, or compaction, at most: what is never
    delivered counts until the group comes by. `delivered` counts every delivery, `redelivered` those that were not the
    first of their message. `refused` are receipts that were not good any more, `expired` leases that have ended by
    themselves.
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
