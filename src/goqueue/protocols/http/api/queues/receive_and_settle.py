"""Queues by HTTP: receive messages, and say what became of them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from goqueue.broker.messages.publish import MESSAGES_MAX
from goqueue.broker.queues.receipts import RECEIPT_CHARS_MAX
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
from goqueue.model.queue_settings import CONSUMER_CHARS_MAX, REASON_CHARS_MAX, TOPICS_MAX, Ordering
from goqueue.protocols.http.api.messages import Message, filled
from goqueue.protocols.http.api.topics import NAME_SCHEMA
from goqueue.protocols.http.calls import Answer, Context
from goqueue.protocols.http.route import COORDINATOR_ERRORS, route
from goqueue.protocols.http.wire.durations import Delay, Visibility, Wait, delay_ms_of, visibility_ms_of, wait_ms_of
from goqueue.protocols.http.wire.problems import MessageError, error_of

_OF_RECEIPTS = (StaleReceipt, InvalidReceipt, *COORDINATOR_ERRORS)

# One that is too long is no receipt, and told so with the others.
_Receipt = Annotated[
    str, Meta(description="As a received message has it.", extra_json_schema={"maxLength": RECEIPT_CHARS_MAX})
]
_Reason = Annotated[str, Meta(max_length=REASON_CHARS_MAX, description="Why, for those who look at dead letters.")]
TopicName = Annotated[str, Meta(min_length=1, max_length=249)]
# What this promises is checked by the operation, whose error says more.
_Source = Annotated[str, Meta(description="The name of a topic.", extra_json_schema=NAME_SCHEMA)]


class ReceiveRequest(msgspec.Struct, forbid_unknown_fields=True):
    """What a consumer wants: messages of which topic or topics, how many, and for how long."""

    topic: _Source | UnsetType = UNSET
    topics: Annotated[list[_Source], Meta(min_length=1, max_length=TOPICS_MAX)] | UnsetType = UNSET
    max: Annotated[int, Meta(ge=1, le=MESSAGES_MAX, description="How many messages at most.")] = 10
    wait: Wait = 0
    visibility_timeout: Visibility | UnsetType = UNSET
    consumer: Annotated[
        str,
        Meta(
            max_length=CONSUMER_CHARS_MAX,
            description="Who receives: messages in flight are limited for each. If empty, the address of the client.",
        ),
    ] = ""
    ordering: Annotated[
        Ordering,
        Meta(description="Of the group, if this request makes it. That of a group that is there stays as it is."),
    ] = Ordering.NONE


class ReceivedMessage(Message, kw_only=True):
    """A message that belongs to a consumer until its deadline (milliseconds since 1970)."""

    receipt_handle: str
    delivery_count: int
    deadline: int


class ReceivedMessages(msgspec.Struct):
    """Messages, and why they are fewer than there could be, if there is a reason."""

    messages: list[ReceivedMessage]
    shortfall: str | UnsetType = UNSET


class Receipts(msgspec.Struct, forbid_unknown_fields=True):
    """Messages by their receipts: one, or many."""

    receipt_handle: _Receipt | UnsetType = UNSET
    receipt_handles: Annotated[list[_Receipt], Meta(min_length=1, max_length=MESSAGES_MAX)] | UnsetType = UNSET

    @property
    def is_single(self) -> bool:
        """Whether it is about one message, whose failure is that of the request."""
        return self.receipt_handle is not UNSET

    def all(self) -> Sequence[str]:
        """Return the receipts, one or many; MalformedRequest if there are both, or none."""
        if (self.receipt_handle is UNSET) is (self.receipt_handles is UNSET):
            raise MalformedRequest("either receipt_handle or receipt_handles has to be given")
        if self.receipt_handle is not UNSET:
            return [self.receipt_handle]
        return self.receipt_handles if self.receipt_handles is not UNSET else []


class Ack(Receipts):
    """Messages that are done."""


class Nack(Receipts):
    """Messages that failed, and are to be tried again: after the delay, or after the group's backoff."""

    delay: Delay | UnsetType = UNSET
    reason: _Reason = ""


class Reject(Receipts):
    """Messages that can never be processed, and become dead letters."""

    reason: _Reason = ""


class Extension(Receipts, kw_only=True):
    """Messages that need longer: their lease ends after the timeout, counted from now; with 0 it ends at once."""

    timeout: Visibility


class SettledAs(StrEnum):
    """What a message is from now on; `error` if nothing was done to it."""

    DONE = "done"
    LEASED = "leased"
    WAITING = "waiting"
    READY = "ready"
    DEAD = "dead"
    ERROR = "error"


class SettledMessage(msgspec.Struct):
    """What became of one message; `until` is when it is tried again or its lease ends, milliseconds since 1970."""

    receipt_handle: str
    status: SettledAs
    until: int | UnsetType = UNSET
    error: MessageError | UnsetType = UNSET


class SettledMessages(msgspec.Struct):
    """What became of each message, in the order of the request."""

    results: list[SettledMessage]


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
