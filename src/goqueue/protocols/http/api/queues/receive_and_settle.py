"""Queues by HTTP: receive messages, and say what became of them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET

from goqueue.api.queues import (
    Ack,
    Extension,
    Nack,
    Receipts,
    ReceivedMessage,
    ReceivedMessages,
    ReceiveRequest,
    Reject,
    SettledAs,
    SettledMessage,
    SettledMessages,
)
from goqueue.broker.queues.receive_and_settle import receive, settle
from goqueue.broker.queues.receiving import Received, Source, Wish
from goqueue.broker.queues.settling import Statement
from goqueue.errors import (
    Corrupt,
    GoQueueError,
    InconsistentProtocol,
    InvalidGroup,
    InvalidReceipt,
    InvalidTopicName,
    MalformedRequest,
    StaleReceipt,
    TopicProtected,
    UnknownTopic,
)
from goqueue.machines.queues.steps import DONE, Result
from goqueue.machines.queues.values import AckType, FlightState
from goqueue.protocols.http.api.messages import filled
from goqueue.protocols.http.calls import Answer, Context
from goqueue.protocols.http.route import COORDINATOR_ERRORS, route
from goqueue.protocols.http.wire.durations import delay_ms_of, visibility_ms_of, wait_ms_of
from goqueue.protocols.http.wire.problems import error_of

_OF_RECEIPTS = (StaleReceipt, InvalidReceipt, *COORDINATOR_ERRORS)


@route(
    "POST",
    "/groups/{group}/receive",
    "queues.receive",
    errors=(
        InvalidGroup,
        InconsistentProtocol,
        InvalidTopicName,
        UnknownTopic,
        TopicProtected,
        Corrupt,
        *COORDINATOR_ERRORS,
    ),
)
async def receive_messages(context: Context, request: ReceiveRequest) -> ReceivedMessages:
    """Lease messages to a consumer for a while, and wait for one if there is none."""
    given = request.visibility_timeout
    wish = Wish(
        source=Source(context.group, tuple(_topics(request)), request.ordering),
        consumer=request.consumer or context.caller.host,
        limit=request.max,
        wait_ms=wait_ms_of(request.wait),
        visibility_ms=None if given is UNSET else visibility_ms_of(given, "visibility_timeout"),
    )
    received = await receive(context.broker, context.caller, wish)
    messages = [message for each in received.received for message in _messages(each, received.deadline_ms)]
    return ReceivedMessages(messages, received.shortfall or UNSET)


def _topics(request: ReceiveRequest) -> Sequence[str]:
    if (request.topic is UNSET) is (request.topics is UNSET):
        raise MalformedRequest("either topic or topics has to be given")
    if request.topic is not UNSET:
        return [request.topic]
    return request.topics if request.topics is not UNSET else []


def _messages(received: Received, deadline_ms: int) -> list[ReceivedMessage]:
    ((topic, partition), _, times), receipts, records = received
    messages = []
    for receipt, record in zip(receipts, records, strict=True):
        message = ReceivedMessage(
            topic, partition, record[0], record[1], receipt_handle=receipt, delivery_count=times, deadline=deadline_ms
        )
        filled(message, record)
        messages.append(message)
    return messages


@route("POST", "/messages/ack", "queues.ack", other_statuses=(207, 400, 409), errors=_OF_RECEIPTS)
async def ack(context: Context, request: Ack) -> Answer[SettledMessages]:
    """Have messages done."""
    return await _settle(context, request, Statement(AckType.ACK))


@route("POST", "/messages/nack", "queues.nack", other_statuses=(207, 400, 409), errors=_OF_RECEIPTS)
async def nack(context: Context, request: Nack) -> Answer[SettledMessages]:
    """Have messages tried again later."""
    delay_ms = None if request.delay is UNSET else delay_ms_of(request.delay, "delay")
    return await _settle(context, request, Statement(AckType.NACK, delay_ms, request.reason))


@route("POST", "/messages/reject", "queues.reject", other_statuses=(207, 400, 409), errors=_OF_RECEIPTS)
async def reject(context: Context, request: Reject) -> Answer[SettledMessages]:
    """Have messages become dead letters."""
    return await _settle(context, request, Statement(AckType.REJECT, None, request.reason))


@route("POST", "/messages/visibility", "queues.visibility", other_statuses=(207, 400, 409), errors=_OF_RECEIPTS)
async def extend(context: Context, request: Extension) -> Answer[SettledMessages]:
    """Have leases end later, or at once."""
    timeout_ms = visibility_ms_of(request.timeout, "timeout")
    return await _settle(context, request, Statement(AckType.EXTEND, timeout_ms))


async def _settle(context: Context, request: Receipts, statement: Statement) -> Answer[SettledMessages]:
    receipts = request.all()
    results = await settle(context.broker, context.caller, receipts, statement)
    if results.count(DONE) == len(receipts):
        return Answer(SettledMessages([SettledMessage(receipt, SettledAs.DONE) for receipt in receipts]))
    if request.is_single and isinstance(results[0], GoQueueError):
        raise results[0]
    told = [_told(receipt, result) for receipt, result in zip(receipts, results, strict=True)]
    failures = [each.error for each in told if each.error is not UNSET]
    status = 200 if not failures else 207 if len(failures) < len(told) else failures[0].status
    return Answer(SettledMessages(told), status)


def _told(receipt: str, result: Result) -> SettledMessage:
    if isinstance(result, GoQueueError):
        return SettledMessage(receipt, SettledAs.ERROR, error=error_of(result))
    if result.state is None:
        return SettledMessage(receipt, SettledAs.DONE)
    is_timed = result.state in {FlightState.LEASED, FlightState.WAITING}
    return SettledMessage(receipt, SettledAs(result.state), result.until_ms if is_timed else UNSET)
