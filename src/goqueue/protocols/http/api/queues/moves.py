"""Moves of queue groups by HTTP: to other messages of a topic, with a preview."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from goqueue.broker.queues.admin import QueueMove, QueueSeek, QueueView, plan_seek, seek_queue
from goqueue.errors import (
    InvalidGroup,
    MalformedRequest,
    TopicProtected,
    UnknownPartition,
    UnknownQueue,
    UnknownTopic,
)
from goqueue.model.start_at import StartAt
from goqueue.protocols.http.api.groups.shapes import PARTITIONS_MAX, PartitionIndex
from goqueue.protocols.http.api.messages import OFFSET_MAX, Milliseconds, Moment
from goqueue.protocols.http.api.queues.admin import Queue, time_of, told_queue
from goqueue.protocols.http.api.queues.receive_and_settle import TopicName
from goqueue.protocols.http.calls import Context
from goqueue.protocols.http.route import COORDINATOR_ERRORS, route

_OF_QUEUES = (InvalidGroup, UnknownQueue, *COORDINATOR_ERRORS)
_OF_CHANGES = (*_OF_QUEUES, UnknownTopic, UnknownPartition, TopicProtected, MalformedRequest)


class SeekRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Where a group goes on with a topic: at its start, its end, an offset of each partition, or a time.

    It is about all partitions unless some are named. A dry run tells what would happen, and changes nothing.
    """

    topic: TopicName
    to: StartAt | UnsetType = UNSET
    offset: Annotated[int, Meta(ge=0, le=OFFSET_MAX)] | UnsetType = UNSET
    time: Milliseconds | Moment | UnsetType = UNSET
    partitions: Annotated[list[PartitionIndex], Meta(min_length=1, max_length=PARTITIONS_MAX)] | UnsetType = UNSET
    dry_run: bool = False


class PurgeRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The topic of which everything that is there now is done for the group."""

    topic: TopicName


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


@route("POST", "/queues/{group}/seek", "queues.seek", errors=_OF_CHANGES)
async def seek(context: Context, request: SeekRequest) -> MovedQueue:
    """Go on with a topic elsewhere, and forget what is in flight there; a dry run tells what would happen."""
    given = [each for each in (request.to, request.offset, request.time) if each is not UNSET]
    if len(given) != 1:
        raise MalformedRequest("one of to, offset and time has to be given")
    where: StartAt | int = 0
    if request.to is not UNSET:
        where = request.to
    elif request.offset is not UNSET:
        where = request.offset
    elif request.time is not UNSET:
        where = time_of(request.time)
    partitions = None if request.partitions is UNSET else request.partitions
    wanted = QueueSeek(request.topic, where, request.offset is not UNSET, partitions)
    carry_out = plan_seek if request.dry_run else seek_queue
    view, moves = await carry_out(context.broker, context.caller, context.group, wanted)
    return _moved(context, view, [_move(each) for each in moves], is_dry_run=request.dry_run)


@route("POST", "/queues/{group}/purge", "queues.purge", errors=_OF_CHANGES)
async def purge(context: Context, request: PurgeRequest) -> Queue:
    """Have everything done that is in a topic now."""
    wanted = QueueSeek(request.topic, StartAt.LATEST)
    view, _ = await seek_queue(context.broker, context.caller, context.group, wanted)
    return told_queue(context, view)


def _moved(context: Context, view: QueueView, moves: list[PartitionMove], *, is_dry_run: bool) -> MovedQueue:
    told = told_queue(context, view)
    fields = {name: getattr(told, name) for name in told.__struct_fields__}
    return MovedQueue(**fields, dry_run=is_dry_run, moves=moves)


def _move(move: QueueMove) -> PartitionMove:
    where, cursor, offset, in_flight, skipped, again = move
    return PartitionMove(*where, cursor, offset, in_flight, skipped, again)
