"""What is asked and answered, in words of the domain: places, isolation, topics, what was fetched, who writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import NamedTuple
from uuid import UUID

from goqueue.client.kafka.addresses import Address
from goqueue.client.kafka.wire.reading import AbortedTransaction
from goqueue.errors import GoQueueError


class Isolation(Enum):
    """Whether records of transactions that are open or aborted are passed over."""

    COMMITTED = "read_committed"
    UNCOMMITTED = "read_uncommitted"


class NamedOffset(IntEnum):
    """Offsets that have a name; the end is that of what is visible, and so depends on the isolation."""

    LATEST = -1
    EARLIEST = -2


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition of a topic; `leader` is None while nobody leads it, and then `error` says why."""

    number: int
    leader: Address | None
    leader_epoch: int
    error: GoQueueError | None = None


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as the cluster knows it, or why it does not; partitions are in the order of their numbers."""

    name: str
    id: UUID
    is_internal: bool
    partitions: tuple[Partition, ...]
    error: GoQueueError | None = None


@dataclass(frozen=True, slots=True)
class FoundOffset:
    """Where a place or time lies; `offset` is None if no record is of that time or later.

    `timestamp_ms` is that of the record, -1 if a place was asked for.
    """

    offset: int | None
    timestamp_ms: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class FetchedBatches:
    """Whole batches of one partition as they are stored, and what a reader has to know beside them.

    The first batch may begin before the offset that was asked for. `records` is a view of a buffer that is used again
    by the next call; checksums have not been verified. Reading goes on at `next_offset`.
    """

    records: memoryview
    next_offset: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: Sequence[AbortedTransaction]


class ProducerIdentity(NamedTuple):
    """Who writes under a transactional id. Plain values: another process may end what this one has written."""

    transactional_id: str
    producer_id: int
    epoch: int
