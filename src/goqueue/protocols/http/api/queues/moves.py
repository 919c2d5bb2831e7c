"""Moves of queue groups by HTTP: to other messages of a topic, with a preview."""

from __future__ import annotations

from msgspec import UNSET

from goqueue.api.queues import MovedQueue, PartitionMove, PurgeRequest, Queue, SeekRequest
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
from goqueue.protocols.http.api.queues.admin import time_of, told_queue
from goqueue.protocols.http.calls import Context
from goqueue.protocols.http.route import COORDINATOR_ERRORS, route

_OF_QUEUES = (InvalidGroup, UnknownQueue, *COORDINATOR_ERRORS)
_OF_CHANGES = (*_OF_QUEUES, UnknownTopic, UnknownPartition, TopicProtected, MalformedRequest)


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
