"""Rows of the table of routes: queues."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from goqueue.errors import (
    CoordinatorUnavailable,
    Corrupt,
    DiskFull,
    GoQueueError,
    GroupNotEmpty,
    InconsistentProtocol,
    Invalid,
    InvalidGroup,
    InvalidReceipt,
    InvalidTopicName,
    LogOffline,
    MalformedRequest,
    StaleReceipt,
    TopicProtected,
    UnknownPartition,
    UnknownQueue,
    UnknownTopic,
)
from goqueue.protocols.http.api.queues import admin as queue_admin
from goqueue.protocols.http.api.queues import moves as queue_moves
from goqueue.protocols.http.api.queues import receive_and_settle as queues
from goqueue.protocols.http.api.queues import stats as queue_stats
from goqueue.protocols.http.calls import Handler, Operation

_STORAGE: Sequence[type[GoQueueError]] = (CoordinatorUnavailable, LogOffline, DiskFull)
_OF_QUEUES: Sequence[type[GoQueueError]] = (InvalidGroup, UnknownQueue, *_STORAGE)
_OF_RECEIPTS: Sequence[type[GoQueueError]] = (StaleReceipt, InvalidReceipt, *_STORAGE)


def _of_messages(verb: str, summary: str, handle: Handler, request: type[queues.Receipts]) -> Operation:
    """Return the row of something that is said about messages; each has a result of its own."""
    return Operation(
        name=f"queues.{verb}",
        method="POST",
        path=f"/messages/{verb}",
        summary=summary,
        handle=handle,
        request=request,
        reply=queues.SettledMessages,
        other_statuses=(207, 400, 409),
        errors=_OF_RECEIPTS,
    )


def _of_queue(
    verb: str,
    summary: str,
    handle: Handler,
    request: type[msgspec.Struct],
    reply: type[msgspec.Struct] = queue_admin.Queue,
) -> Operation:
    """Return the row of something that is done to a queue group."""
    return Operation(
        name=f"queues.{verb}",
        method="POST",
        path=f"/queues/{{group}}/{verb}",
        summary=summary,
        handle=handle,
        request=request,
        reply=reply,
        errors=(*_OF_QUEUES, UnknownTopic, UnknownPartition, TopicProtected, MalformedRequest),
    )


OPERATIONS: Sequence[Operation] = (
    Operation(
        name="queues.receive",
        method="POST",
        path="/groups/{group}/receive",
        summary="Lease messages to a consumer for a while, and wait for one if there is none",
        handle=queues.receive_messages,
        request=queues.ReceiveRequest,
        reply=queues.ReceivedMessages,
        errors=(InvalidGroup, InconsistentProtocol, InvalidTopicName, UnknownTopic, TopicProtected, Corrupt, *_STORAGE),
    ),
    Operation(
        name="queues.list",
        method="GET",
        path="/queues",
        summary="List all queue groups",
        handle=queue_admin.list_all,
        reply=queue_admin.Queues,
    ),
    Operation(
        name="queues.stats",
        method="GET",
        path="/reliability/stats",
        summary="Tell how many messages of each queue group and topic were delivered, settled, given up",
        handle=queue_stats.stats,
        reply=queue_stats.ReliabilityStats,
    ),
    Operation(
        name="queues.describe",
        method="GET",
        path="/queues/{group}",
        summary="Describe a queue group: depth, what is in flight, settings",
        handle=queue_admin.describe,
        reply=queue_admin.Queue,
        errors=_OF_QUEUES,
    ),
    Operation(
        name="queues.alter",
        method="PATCH",
        path="/queues/{group}",
        summary="Change settings of a queue group, which is made if there is none",
        handle=queue_admin.alter,
        request=queue_admin.QueueSettingsToChange,
        reply=queue_admin.Queue,
        errors=(Invalid, InvalidGroup, InconsistentProtocol, *_STORAGE),
    ),
    Operation(
        name="queues.delete",
        method="DELETE",
        path="/queues/{group}",
        summary="Forget a queue group, with all that is in flight",
        handle=queue_admin.delete,
        status=204,
        errors=(*_OF_QUEUES, GroupNotEmpty),
    ),
    Operation(
        name="queues.peek",
        method="GET",
        path="/queues/{group}/peek",
        summary="Show what the next receives would bring, and lease nothing",
        handle=queue_admin.peek,
        request=queue_admin.PeekQuery,
        reply=queue_admin.PeekedMessages,
        errors=(*_OF_QUEUES, UnknownTopic, TopicProtected, Corrupt),
    ),
    _of_queue("pause", "Deliver nothing until it is resumed", queue_admin.pause, queue_admin.PauseRequest),
    _of_queue("resume", "Deliver again", queue_admin.resume, queue_admin.ResumeRequest),
    _of_queue(
        "seek",
        "Go on with a topic elsewhere, and forget what is in flight there; a dry run tells what would happen",
        queue_moves.seek,
        queue_moves.SeekRequest,
        queue_moves.MovedQueue,
    ),
    _of_queue("purge", "Have everything done that is in a topic now", queue_moves.purge, queue_moves.PurgeRequest),
    _of_messages("ack", "Have messages done", queues.ack, queues.Ack),
    _of_messages("nack", "Have messages tried again later", queues.nack, queues.Nack),
    _of_messages("reject", "Have messages become dead letters", queues.reject, queues.Reject),
    _of_messages("visibility", "Have leases end later, or at once", queues.extend, queues.Extension),
)
