"""Values of the client: named offsets, isolation, topics, fetched batches, producer identities."""

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
    """Whether records of open and aborted transactions are skipped."""

    COMMITTED = "read_committed"
    UNCOMMITTED = "read_uncommitted"


class NamedOffset(IntEnum):
    """Offsets that have a name. The end is that of visible records, so it depends on the isolation."""

    LATEST = -1
    EARLIEST = -2


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition of a topic; without a leader, `leader` is None and `error` says why."""

    number: int
    leader: Address | None
    leader_epoch: int
    error: GoQueueError | None = None


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of the cluster, or the error about it; partitions are in the order of their numbers."""

    name: str
    id: UUID
    is_internal: bool
    partitions: tuple[Partition, ...]
    error: GoQueueError | None = None


@dataclass(frozen=True, slots=True)
class FoundOffset:
    """The offset of a name or time; `offset` is None if no record is of that time or later.

    `timestamp_ms` is that of the record, -1 for a named offset.
    """

    offset: int | None
    timestamp_ms: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class FetchedBatches:
    """Whole batches of one partition as they are stored, with the position of the reader and the ends of the log.

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
    """The producer of a transactional id. Plain values: another process may end the transaction."""

    transactional_id: str
    producer_id: int
    epoch: int
