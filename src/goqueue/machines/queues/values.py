"""Words of queue groups: leases, and where a message is between its first delivery and its end.

| a message is      | which means                                | it becomes                                          |
|-------------------|--------------------------------------------|-----------------------------------------------------|
| behind the cursor | never delivered                            | LEASED or HELD by a receive; DEAD if it cannot be   |
|                   |                                            | read: one for all messages of its batch             |
| LEASED            | a consumer has it until a deadline         | done by ack; WAITING by nack; READY by release, by  |
|                   |                                            | an extension of no time, or by time; DEAD by        |
|                   |                                            | reject, or if no retry is left                      |
| WAITING           | failed, and is to be tried again at a time | READY by time                                       |
| READY             | may be delivered again                     | LEASED by a receive; DEAD if it cannot be read      |
| HELD              | waits for an earlier message of its key    | READY once that is done                             |
| DEAD              | is to become a dead letter                 | done once it is one                                 |
| done              | never delivered again                      |                                                     |
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from goqueue.machines.decision import Now
from goqueue.model.topic import TopicPartition

NEVER = Now(-1, -1)


class FlightState(StrEnum):
    """Where a message is that is neither done nor behind the cursor."""

    LEASED = "leased"
    WAITING = "waiting"
    READY = "ready"
    HELD = "held"
    DEAD = "dead"


TIMED = (FlightState.LEASED, FlightState.WAITING)
"""States that end by themselves."""


class DeathReason(StrEnum):
    """Why a message becomes a dead letter."""

    REJECTED = "rejected"
    RETRIES = "max_retries_exceeded"
    EXPIRED = "lease_expired"
    UNREADABLE = "unreadable"


class Lease(NamedTuple):
    """A consumer's right to some messages; `id` is part of every receipt, `since_ms` is wall time."""

    id: int
    consumer: str
    since_ms: int


class LetterPlace(NamedTuple):
    """Where letters of dead messages may lie: in a partition of a topic, from an offset on."""

    topic_id: UUID
    partition: int
    start: int


class Flight(NamedTuple):
    """A message that is neither done nor behind the cursor.

    `until` is the end of its lease, or when it is to be tried again, and `since_ms` the wall time at which that was
    said. `lease` is its latest one. `first_ms` is the wall time of its first delivery. `key` is set if messages of one
    key wait for each other. Of its deliveries so many were `returned`: given back before anything was tried.
    """

    state: FlightState
    deliveries: int = 0
    first_ms: int = -1
    until: Now = NEVER
    lease: Lease | None = None
    reason: str = ""
    error: str = ""
    key: bytes | None = None
    since_ms: int = -1
    returned: int = 0

    @property
    def tries(self) -> int:
        """How often somebody had it and did not just give it back."""
        return self.deliveries - self.returned


class Delivery(NamedTuple):
    """Messages of a partition that a consumer has just got, and how often each of them was delivered by now."""

    partition: TopicPartition
    offsets: Sequence[int]
    deliveries: int


class AckType(StrEnum):
    """What a consumer says about a message that it has leased."""

    ACK = "ack"
    NACK = "nack"
    REJECT = "reject"
    EXTEND = "extend"
    RELEASE = "release"
