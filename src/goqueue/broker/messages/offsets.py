"""Looking up offsets: by place, by time, by leader epoch."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from goqueue.broker.admission import Caller, operation
from goqueue.log.epochs import EpochEnd
from goqueue.runtime.waiters import turns

if TYPE_CHECKING:
    from goqueue.broker.messages.service import MessageService
    from goqueue.runtime.partition import Partition

NO_OFFSET = -1
NO_TIMESTAMP = -1
NO_EPOCH = -1


class OffsetSpec(Enum):
    """A place in a partition that has a name."""

    EARLIEST = "earliest"
    LATEST = "latest"
    MAX_TIMESTAMP = "max_timestamp"


class OffsetLookup(NamedTuple):
    """An offset with the record's timestamp and the epoch of its leader, -1 each where there is none."""

    offset: int
    timestamp: int
    leader_epoch: int


@operation("offsets.find", on="topic")
async def find_offset(
    service: MessageService,
    caller: Caller,
    topic: str,
    index: int,
    where: OffsetSpec | int,
    *,
    known_epoch: int = NO_EPOCH,
    is_committed_only: bool = False,
) -> OffsetLookup:
    """Return the offset at a place, or of the first record at or after a time in milliseconds."""
    partition = service.topics.topic(topic).partition(index)
    partition.check_epoch(known_epoch)
    if where is OffsetSpec.EARLIEST:
        return _at(partition, partition.log.start_offset)
    if where is OffsetSpec.LATEST:
        end = partition.last_stable_offset if is_committed_only else partition.high_watermark
        return _at(partition, end)
    # This opens a batch, and callers ask for many partitions: let others have a turn in between.
    await turns(1)
    found = (
        partition.offset_of_max_timestamp() if where is OffsetSpec.MAX_TIMESTAMP else partition.offset_for_time(where)
    )
    if found is None or (is_committed_only and found.offset >= partition.last_stable_offset):
        return OffsetLookup(NO_OFFSET, NO_TIMESTAMP, NO_EPOCH)
    return OffsetLookup(found.offset, found.timestamp, partition.leader_epoch)


def _at(partition: Partition, offset: int) -> OffsetLookup:
    return OffsetLookup(offset, NO_TIMESTAMP, partition.leader_epoch)


@operation("offsets.end_of_epoch", on="topic")
async def end_of_epoch(
    service: MessageService, caller: Caller, topic: str, index: int, epoch: int, *, known_epoch: int = NO_EPOCH
) -> EpochEnd:
    """Return the greatest epoch not above the given one and where it ends; -1 each if there is none."""
    partition = service.topics.topic(topic).partition(index)
    partition.check_epoch(known_epoch)
    if epoch == partition.leader_epoch:
        return EpochEnd(epoch, partition.log.end_offset)
    return partition.log.end_of_epoch(epoch) or EpochEnd(NO_EPOCH, NO_OFFSET)
