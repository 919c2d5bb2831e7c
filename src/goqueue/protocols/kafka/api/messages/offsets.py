"""Offsets: ListOffsets and OffsetForLeaderEpoch."""

from __future__ import annotations

from enum import IntEnum

from goqueue.broker.messages.offsets import OffsetLookup, end_of_epoch, find_offset
from goqueue.broker.messages.offsets import OffsetSpec as BrokerPlace
from goqueue.errors import GoQueueError, Invalid
from goqueue.kafka_wire.decode import Request
from goqueue.kafka_wire.encode import Reply
from goqueue.protocols.kafka.api.context import Context, error_fields
from goqueue.runtime.waiters import turns


class ListOffsetsTimestamp(IntEnum):
    """Negative timestamps, which stand for named offsets."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5


_PLACES = {
    ListOffsetsTimestamp.LATEST: BrokerPlace.LATEST,
    ListOffsetsTimestamp.EARLIEST: BrokerPlace.EARLIEST,
    ListOffsetsTimestamp.MAX_TIMESTAMP: BrokerPlace.MAX_TIMESTAMP,
    # There is no tiered storage: all records are local.
    ListOffsetsTimestamp.EARLIEST_LOCAL: BrokerPlace.EARLIEST,
}


async def list_offsets(context: Context, request: Request) -> Reply:
    """Look up offsets by name or by time."""
    is_committed_only = request.isolation_level == 1
    asked: set[tuple[str, int]] = set()
    topics = []
    for topic in request.topics or ():
        partitions = []
        for part in topic.partitions or ():
            await turns(1)
            missing = {"partition_index": part.partition_index, "timestamp": -1, "offset": -1, "leader_epoch": -1}
            try:
                if (topic.name, part.partition_index) in asked:
                    raise Invalid(f"partition {part.partition_index} of {topic.name!r} is asked for twice")
                asked.add((topic.name, part.partition_index))
                found = await _find(context, topic.name, part, is_committed_only=is_committed_only)
                partitions.append({**missing, **error_fields(None), **found._asdict()})
            except GoQueueError as error:
                partitions.append({**missing, **error_fields(error)})
        topics.append({"name": topic.name, "partitions": partitions})
    return {"topics": topics}


async def _find(context: Context, name: str, part: Request, *, is_committed_only: bool) -> OffsetLookup:
    where: BrokerPlace | int = part.timestamp
    if part.timestamp == ListOffsetsTimestamp.LATEST_TIERED:
        return OffsetLookup(-1, -1, -1)
    if part.timestamp < 0:
        if part.timestamp not in _PLACES:
            raise Invalid(f"{part.timestamp} stands for no place in a log")
        where = _PLACES[ListOffsetsTimestamp(part.timestamp)]
    return await find_offset(
        context.broker.messages,
        context.caller,
        name,
        part.partition_index,
        where,
        known_epoch=part.current_leader_epoch,
        is_committed_only=is_committed_only,
    )


async def offset_for_leader_epoch(context: Context, request: Request) -> Reply:
    """Return the end offsets of leader epochs."""
    topics = []
    for topic in request.topics or ():
        partitions = []
        for part in topic.partitions or ():
            missing = {"partition": part.partition, "leader_epoch": -1, "end_offset": -1}
            try:
                end = await end_of_epoch(
                    context.broker.messages,
                    context.caller,
                    topic.topic,
                    part.partition,
                    part.leader_epoch,
                    known_epoch=part.current_leader_epoch,
                )
                partitions.append(
                    {**missing, **error_fields(None), "leader_epoch": end.epoch, "end_offset": end.end_offset}
                )
            except GoQueueError as error:
                partitions.append({**missing, **error_fields(error)})
        topics.append({"topic": topic.topic, "partitions": partitions})
    return {"topics": topics}
