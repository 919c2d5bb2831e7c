"""What queue groups are asked to do. Time passes by `PassTime`."""

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
    """Make a group, or give it other settings, unless it is to be made only: then one that is there keeps its own."""

    group: str
    settings: QueueSettings
    is_made_only: bool = False


@dataclass(frozen=True, slots=True)
class PauseQueue:
    """Deliver nothing to a group until it is resumed; without a reason, resume it."""

    group: str
    reason: str


@dataclass(frozen=True, slots=True)
class BeginTopic:
    """Begin to deliver partitions of a topic at offsets, as far as the group does not do so already.

    `epochs` are the leader epochs of the partitions now, as far as they are known.
    """

    group: str
    topic_id: UUID
    starts: Mapping[TopicPartition, int]
    epochs: Mapping[TopicPartition, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Seek:
    """Go on in a partition at another offset; whatever is in flight there is forgotten. `epoch` is its leader's now."""

    group: str
    partition: TopicPartition
    offset: int
    epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True)
class Retreat:
    """Forget what was delivered of a partition from an offset on: the log has lost it, and gives it away anew."""

    group: str
    partition: TopicPartition
    end: int


class Unreadable(NamedTuple):
    """Messages that cannot be read, and why: one that is ready again, or all from an offset to the end of its batch."""

    offset: int
    error: str


class Offer(NamedTuple):
    """What of a partition can be delivered.

    `fresh` are the offsets of messages from the cursor on, and `end` is how far was looked: there are no others before
    it. `again` are messages that are ready, `gone` those of which nothing is left. `start` is where the log begins.
    `keys` has the keys of all fresh ones, if messages of one key wait for each other. `looked_from` is the cursor.
    `epoch` is the leader epoch of the partition now. What is `unreadable` becomes a dead letter: it is not among the
    others, and `end` is after it.
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
    """Who takes messages: up to `limit` of them, for how long, and under which lease."""

    consumer: str
    limit: int
    visibility_ms: int
    lease_id: int


class Receive(msgspec.Struct, frozen=True):
    """Lease what is offered to consumers, one after another; each of them is answered."""

    group: str
    takers: Sequence[Taker]
    offers: Sequence[Offer]


class Receipt(NamedTuple):
    """A message, and the lease under which somebody has it."""

    partition: TopicPartition
    offset: int
    lease_id: int


class Claim(NamedTuple):
    """Messages of a partition, and the lease under which somebody has them."""

    partition: TopicPartition
    offsets: Sequence[int]
    lease_id: int


def claims_of(receipts: Iterable[Receipt]) -> list[Claim]:
    """Return what somebody claims who has receipts, in their order."""
    return [
        Claim(partition, [receipt.offset for receipt in together], lease_id)
        for (partition, lease_id), together in groupby(receipts, attrgetter("partition", "lease_id"))
    ]


class Settle(msgspec.Struct, frozen=True):
    """Say of leased messages what became of them; each of them is answered, in the order of the claims.

    `delay_ms` is how long a nacked message waits, if not as long as the group has it; for an extension, how long the
    lease lasts from now on. `chance` is from 0 to 1, and spreads those that wait.
    """

    group: str
    verdict: AckType
    claims: Sequence[Claim]
    delay_ms: int | None = None
    reason: str = ""
    chance: float = 0.0


@dataclass(frozen=True, slots=True)
class MarkDeadLettered:
    """Take note that messages are dead letters now: those of a topic that have died of these leases, by offset.

    What somebody has made anew or moved meanwhile is not meant. `letter_places` is where letters of others may lie from
    now on, if that is not where it was.
    """

    group: str
    partition: TopicPartition
    topic_id: UUID
    leases: Mapping[int, int]
    letter_places: tuple[LetterPlace, ...] | None = None


@dataclass(frozen=True, slots=True)
class PassTime:
    """See to what is due in a part of a partition."""

    group: str
    partition: TopicPartition
    chunk: int


@dataclass(frozen=True, slots=True)
class DeleteQueue:
    """Forget a group."""

    group: str


@dataclass(frozen=True, slots=True)
class DropQueueTopic:
    """Forget all about a topic, which is going; or only what one group knows of it."""

    topic: str
    group: str | None = None


Administration = Configure | PauseQueue | BeginTopic | Seek | Retreat | DeleteQueue | DropQueueTopic
Command = Administration | Receive | Settle | MarkDeadLettered | PassTime
