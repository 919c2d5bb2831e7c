"""How far a reader is behind in a partition: in messages, in time, and how it stands with retention."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from goqueue.broker.topics.retention_risk import Risk
from goqueue.errors import GoQueueError, UnreadableBatch
from goqueue.records.layout import BatchHeader, TimestampType
from goqueue.runtime.partition import Partition
from goqueue.runtime.waiters import turns

if TYPE_CHECKING:
    from goqueue.broker.groups.service import GroupService
    from goqueue.model.topic import TopicPartition

# Behind a batch without messages of its own comes the next one; what takes longer than this is not looked for.
_READ_BYTES = 64 * 1024


class Lag(NamedTuple):
    """How far behind: `messages` are offsets up to the end, `age_ms` is that of the oldest message among them.

    Without an offset to begin with, both are None; the age is also None if it cannot be found. If nobody can tell
    anything, there is an error.
    """

    start_offset: int | None = None
    end_offset: int | None = None
    messages: int | None = None
    age_ms: int | None = None
    error: GoQueueError | None = None
    risk: Risk = Risk()


def total_lag(lags: Iterable[Lag]) -> int | None:
    """Return how many messages a reader of partitions has not read, at least; 0 only if it has read all there are.

    Where nothing is committed, only the reader knows where it will begin: at the oldest message, or behind the newest.
    So nothing is counted there, and if nothing is counted elsewhere either, the total is not known.
    """
    total, is_known, is_doubtful = 0, False, False
    for lag in lags:
        if lag.messages is not None:
            is_known = True
            total += lag.messages
        elif lag.error is None and lag.start_offset != lag.end_offset:
            is_doubtful = True
    return total if total or (is_known and not is_doubtful) else None


def messages_behind(partition: Partition, offset: int | None) -> Lag:
    """Return how far an offset is behind, in messages alone."""
    start, end = partition.log.start_offset, partition.high_watermark
    return Lag(start, end, None if offset is None else max(end - max(offset, start), 0))


async def lag_of(groups: GroupService, partition: TopicPartition, offset: int | None) -> Lag:
    """Return how far an offset is behind."""
    try:
        found = groups.topics.topic(partition.topic).partition(partition.partition)
        lag = messages_behind(found, offset)
        if offset is not None:
            lag = lag._replace(risk=groups.topics.retention.risk_of(found, offset))
        if not lag.messages:
            return lag._replace(age_ms=lag.messages)
        # This may open a batch, and callers ask for many partitions: let others have a turn in between.
        await turns(1)
        timestamp = _first_timestamp(found, max(offset or 0, found.log.start_offset))
    except GoQueueError as error:
        return Lag(error=error)
    return lag if timestamp is None else lag._replace(age_ms=max(groups.core.clock.now_ms() - timestamp, 0))


def _first_timestamp(partition: Partition, offset: int) -> int | None:
    """Return the timestamp of the first message from an offset on."""
    data = partition.read(offset, bytes_max=_READ_BYTES)
    for position, header in partition.batches(data):
        if header.is_control or not header.record_count:
            continue
        try:
            found = _timestamp(partition, data, position, header, offset)
        except UnreadableBatch:
            return None
        if found is not None:
            return found if found >= 0 else None
    return None


def _timestamp(partition: Partition, data: bytes, position: int, header: BatchHeader, offset: int) -> int | None:
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        return header.max_timestamp
    if header.base_offset >= offset and not header.has_delete_horizon:
        return header.base_timestamp
    records = partition.open_batch(data, position, header).next_slice(offset)
    return records[0].timestamp if records else None
