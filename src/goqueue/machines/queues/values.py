"""Leases, and the states of a message of a queue group.

| a message is      | which means                                | it becomes                                          |
|-------------------|--------------------------------------------|-----------------------------------------------------|
| after the cursor  | never delivered                            | LEASED or HELD by a receive; DEAD if it cannot be   |
|                   |                                            | read: one for all messages of its batch             |
| LEASED            | a consumer has it until a deadline         | done by ack; WAITING by nack; READY by release, by  |
|                   |                                            | an extension of no time, or by time; DEAD by        |
|                   |                                            | reject, or if no retry is left                      |
| WAITING           | failed, and has a time for its next try    | READY by time                                       |
| READY             | may be delivered again                     | LEASED by a receive; DEAD if it cannot be read      |
| HELD              | waits for an earlier message of its key    | READY once that is done                             |
| DEAD              | waits for its dead letter to be written    | done once it is written                             |
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
    """State of a message between its first delivery and its end."""

    LEASED = "leased"
    WAITING = "waiting"
    READY = "ready"
    HELD = "held"
    DEAD = "dead"


TIMED = (FlightState.LEASED, FlightState.WAITING)
"""States that end at a deadline."""


class DeathReason(StrEnum):
    """Why a message becomes a dead letter."""

    REJECTED = "rejected"
    RETRIES = "max_retries_exceeded"
    EXPIRED = "lease_expired"
    UNREADABLE = "unreadable"


class Lease(NamedTuple):
    """A consumer's lease on some messages; `id` is part of every receipt, `since_ms` is wall time."""

    id: int
    consumer: str
    since_ms: int


class LetterPlace(NamedTuple):
    """Where dead letters may be: in a partition of a topic, from an offset on."""

    topic_id: UUID
    partition: int
    start: int


class Flight(NamedTuple):
    """State of a message in flight.

    `until` is the end of its lease or the time of its next try, and `since_ms` the wall time at which that was set.
    `lease` is its latest one. `first_ms` is the wall time of its first delivery. `key` is set if messages of one key
    wait for each other. `returned` counts deliveries that were released before anything was tried.
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
        """How many deliveries were not just released."""
        return self.deliveries - self.returned


class Delivery(NamedTuple):
    """Messages of a partition that a consumer has just leased, and their delivery counts."""

    partition: TopicPartition
    offsets: Sequence[int]
    deliveries: int


class AckType(StrEnum):
    """How a consumer settles or extends a leased message."""

    ACK = "ack"
    NACK = "nack"
    REJECT = "reject"
    EXTEND = "extend"
    RELEASE = "release"
