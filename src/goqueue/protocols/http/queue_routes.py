"""Rows of the table of routes: queues."""

from __future__ import annotations

from collections.abc import Sequence

from goqueue.errors import (
    CoordinatorUnavailable,
    Corrupt,
    DiskFull,
    GoQueueError,
    InconsistentProtocol,
    InvalidGroup,
    InvalidReceipt,
    LogOffline,
    StaleReceipt,
    TopicProtected,
    UnknownTopic,
)
from goqueue.protocols.http import queues
from goqueue.protocols.http.calls import Handler, Operation

_STORAGE: Sequence[type[GoQueueError]] = (CoordinatorUnavailable, LogOffline, DiskFull)
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


OPERATIONS: Sequence[Operation] = (
    Operation(
        name="queues.receive",
        method="POST",
        path="/groups/{group}/receive",
        summary="Lease messages to a consumer for a while, and wait for one if there is none",
        handle=queues.receive_messages,
        request=queues.ReceiveRequest,
        reply=queues.ReceivedMessages,
        errors=(InvalidGroup, InconsistentProtocol, UnknownTopic, TopicProtected, Corrupt, *_STORAGE),
    ),
    _of_messages("ack", "Have messages done", queues.ack, queues.Ack),
    _of_messages("nack", "Have messages tried again later", queues.nack, queues.Nack),
    _of_messages("reject", "Have messages become dead letters", queues.reject, queues.Reject),
    _of_messages("visibility", "Have leases end later, or at once", queues.extend, queues.Visibility),
)
