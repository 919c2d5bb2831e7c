"""Commands of queue groups. `PassTime` carries the passing of time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple
from uuid import UUID

import msgspec

from goqueue.machines.groups.offsets import NO_EPOCH
from goqueue.machines.queues.values import AckType, LetterPlace
from goqueue.model.queue_settings import QueueSettings
from goqueue.model.topic import TopicPartition


@dataclass(frozen=True, slots=True)
class Configure:
    """Create a group or change its settings; with `is_made_only`, an existing group keeps its settings."""

    group: str
    settings: QueueSettings
    is_made_only: bool = False


@dataclass(frozen=True, slots=True)
class PauseQueue:
    """Stop delivering messages to a group until it is resumed; without a reason, resume it."""

    group: str
    reason: str


@dataclass(frozen=True, slots=True)
class BeginTopic:
    """Start delivering partitions of a topic at offsets, unless the group has started there already.

    `epochs` are the current leader epochs of the partitions, as far as they are known.
    """

    group: str
    topic_id: UUID
    starts: Mapping[TopicPartition, int]
    epochs: Mapping[TopicPartition, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Seek:
    """Continue at another offset of a partition; messages in flight there are forgotten. `epoch` is its leader epoch
    now.
    """

    group: str
    partition: TopicPartition
    offset: int
    epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True)
class Retreat:
    """Forget deliveries of a partition from an offset on: the log has lost these messages and reuses their offsets."""

    group: str
    partition: TopicPartition
    end: int


class Unreadable(NamedTuple):
    """Unreadable messages and the reason: one that is ready again, or all from an offset to the end of its batch."""

    offset: int
    error: str


class Offer(NamedTuple):
    """Messages of a partition that can be delivered.

    `fresh` are the offsets of messages at or after the cursor, and `end` is where the search ended: there are no others
    before it. `again` are messages that are ready, `gone` those that retention removed. `start` is where the log
    begins. `keys` has the keys of all fresh messages if messages of one key wait for each other. `looked_from` is the
    cursor. `epoch` is the current leader epoch of the partition. The `unreadable` messages become dead letters: they
    are not among the others, and `end` is after them.
    """

    partition: TopicPartition
    fresh: Sequence[int]
    end: int
    again: Sequence[int] = ()
    gone: Sequence[int] = ()
    start: int = 0
    keys: Mapping[int, bytes] | None = None
    looked_from: int = 0
    epoch: int = NO_EPOCH
    unreadable: Sequence[Unreadable] = ()


class Taker(NamedTuple):
    """A consumer that takes up to `limit` messages, for how long, and under which lease."""

    consumer: str
    limit: int
    visibility_ms: int
    lease_id: int


class Receive(msgspec.Struct, frozen=True):
    """Lease the offered messages to consumers, one consumer after another; each gets a reply."""

    group: str
    takers: Sequence[Taker]
    offers: Sequence[Offer]


class Receipt(NamedTuple):
    """A message and the lease that a consumer holds on it."""

    partition: TopicPartition
    offset: int
    lease_id: int


class Claim(NamedTuple):
    """Messages of a partition, and the lease that a consumer holds on them."""

    partition: TopicPartition
    offsets: Sequence[int]
    lease_id: int


def claims_of(receipts: Iterable[Receipt]) -> list[Claim]:
    """Return the claims of a consumer with these receipts, in their order."""
    return [
        Claim(partition, [receipt.offset for receipt in together], lease_id)
        for (partition, lease_id), together in groupby(receipts, attrgetter("partition", "lease_id"))
    ]


class Settle(msgspec.Struct, frozen=True):
    """Settle or extend leased messages; the reply has a result for each, in the order of the claims.

    `delay_ms` is how long a nacked message waits, instead of the group's backoff; for an extension, how long the lease
    lasts from now on. `chance` is from 0 to 1, and spreads retries.
    """

    group: str
    verdict: AckType
    claims: Sequence[Claim]
    delay_ms: int | None = None
    reason: str = ""
    chance: float = 0.0


@dataclass(frozen=True, slots=True)
class MarkDeadLettered:
    """Mark messages of a topic as dead letters that were written, by offset and the lease under which each died.

    Messages of a re-created topic, or that have changed since, are skipped. `letter_places` replaces where dead letters
    of other messages may be, if that has changed.
    """

    group: str
    partition: TopicPartition
    topic_id: UUID
    leases: Mapping[int, int]
    letter_places: tuple[LetterPlace, ...] | None = None


@dataclass(frozen=True, slots=True)
class PassTime:
    """Handle the deadlines of a chunk."""

    group: str
    partition: TopicPartition
    chunk: int


@dataclass(frozen=True, slots=True)
class DeleteQueue:
    """Delete a group."""

    group: str


@dataclass(frozen=True, slots=True)
class DropQueueTopic:
    """Forget a topic that is being deleted, in all groups or in one."""

    topic: str
    group: str | None = None


Administration = Configure | PauseQueue | BeginTopic | Seek | Retreat | DeleteQueue | DropQueueTopic
Command = Administration | Receive | Settle | MarkDeadLettered | PassTime
