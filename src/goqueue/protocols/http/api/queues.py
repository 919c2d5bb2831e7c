"""Queue groups by HTTP: receive and settle messages, look after groups, move them, and count."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from goqueue.api.queues import (
    Ack,
    Extension,
    MovedQueue,
    Nack,
    PartitionMove,
    PauseRequest,
    PeekedMessages,
    PeekQuery,
    PurgeRequest,
    Queue,
    QueueMember,
    QueuePartition,
    Queues,
    QueueSettingsShown,
    QueueSettingsToChange,
    Receipts,
    ReceivedMessage,
    ReceivedMessages,
    ReceiveRequest,
    Reject,
    Reliability,
    ReliabilityStats,
    ResumeRequest,
    SeekRequest,
    SettledAs,
    SettledMessage,
    SettledMessages,
)
from goqueue.broker.queues.admin import (
    PartitionSeek,
    PartitionView,
    QueueSeek,
    QueueView,
    configure_queue,
    delete_queue,
    describe_queue,
    list_queues,
    pause_queue,
    plan_seek,
    seek_queue,
)
from goqueue.broker.queues.peeking import peek_queue
from goqueue.broker.queues.receive_and_settle import receive, settle
from goqueue.broker.queues.receiving import LeasedRecords, ReceiveTerms, Source
from goqueue.broker.queues.settling import Settlement
from goqueue.broker.queues.stats import QueueTopicStats, queue_stats
from goqueue.errors import (
    Corrupt,
    GoQueueError,
    GroupNotEmpty,
    InconsistentProtocol,
    Invalid,
    InvalidGroup,
    InvalidReceipt,
    InvalidRecord,
    InvalidTopicName,
    MalformedRequest,
    StaleReceipt,
    TopicProtected,
    UnknownPartition,
    UnknownQueue,
    UnknownTopic,
)
from goqueue.machines.queues.steps import DONE, Result
from goqueue.machines.queues.values import AckType, FlightState
from goqueue.model.queue_settings import (
    QueueSettings,
)
from goqueue.model.start_at import StartAt
from goqueue.model.units import duration_text
from goqueue.protocols.http.api.messages import filled, message_of, timestamp_of
from goqueue.protocols.http.calls import Answer, Context
from goqueue.protocols.http.route import COORDINATOR_ERRORS, route
from goqueue.protocols.http.wire.problems import error_of
from goqueue.protocols.http.wire.times import delay_ms_of, seconds, visibility_ms_of, wait_ms_of

_OF_RECEIPTS = (StaleReceipt, InvalidReceipt, *COORDINATOR_ERRORS)
_OF_QUEUES = (InvalidGroup, UnknownQueue, *COORDINATOR_ERRORS)
_OF_CHANGES = (*_OF_QUEUES, UnknownTopic, UnknownPartition, TopicProtected, MalformedRequest)

_DIGITS = re.compile("[0-9]{1,15}")
_DEFAULTS = QueueSettings()
# The names in the model of the settings that are durations.
_DURATIONS = {"visibility_timeout": "visibility_ms", "backoff": "backoff_ms", "backoff_max": "backoff_max_ms"}


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
    """Lease messages to a consumer; wait for one if there is none."""
    given = request.visibility_timeout
    wish = ReceiveTerms(
        source=Source(context.group, tuple(_topics(request)), request.ordering),
        consumer=request.consumer or context.caller.host,
        limit=request.max,
        wait_ms=wait_ms_of(request.wait),
        visibility_ms=None if given is UNSET else visibility_ms_of(given, "visibility_timeout"),
    )
    received = await receive(context.broker.queues, context.caller, wish)
    messages = [message for each in received.received for message in _messages(each, received.deadline_ms)]
    return ReceivedMessages(messages, received.shortfall or UNSET)


def _topics(request: ReceiveRequest) -> Sequence[str]:
    if (request.topic is UNSET) is (request.topics is UNSET):
        raise MalformedRequest("give either topic or topics")
    if request.topic is not UNSET:
        return [request.topic]
    return request.topics if request.topics is not UNSET else []


def _messages(received: LeasedRecords, deadline_ms: int) -> list[ReceivedMessage]:
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
    """Acknowledge messages."""
    return await _settle(context, request, Settlement(AckType.ACK))


@route("POST", "/messages/nack", "queues.nack", other_statuses=(207, 400, 409), errors=_OF_RECEIPTS)
async def nack(context: Context, request: Nack) -> Answer[SettledMessages]:
    """Return messages for another delivery, after a delay."""
    delay_ms = None if request.delay is UNSET else delay_ms_of(request.delay, "delay")
    return await _settle(context, request, Settlement(AckType.NACK, delay_ms, request.reason))


@route("POST", "/messages/reject", "queues.reject", other_statuses=(207, 400, 409), errors=_OF_RECEIPTS)
async def reject(context: Context, request: Reject) -> Answer[SettledMessages]:
    """Turn messages into dead letters."""
    return await _settle(context, request, Settlement(AckType.REJECT, None, request.reason))


@route("POST", "/messages/visibility", "queues.visibility", other_statuses=(207, 400, 409), errors=_OF_RECEIPTS)
async def extend(context: Context, request: Extension) -> Answer[SettledMessages]:
    """Extend leases, or end them at once."""
    timeout_ms = visibility_ms_of(request.timeout, "timeout")
    return await _settle(context, request, Settlement(AckType.EXTEND, timeout_ms))


async def _settle(context: Context, request: Receipts, statement: Settlement) -> Answer[SettledMessages]:
    receipts = request.all()
    results = await settle(context.broker.queues, context.caller, receipts, statement)
    if results.count(DONE) == len(receipts):
        return Answer(SettledMessages([SettledMessage(receipt, SettledAs.DONE) for receipt in receipts]))
    if request.is_single and isinstance(results[0], GoQueueError):
        raise results[0]
    told = [_settled(receipt, result) for receipt, result in zip(receipts, results, strict=True)]
    failures = [each.error for each in told if each.error is not UNSET]
    status = 200 if not failures else 207 if len(failures) < len(told) else failures[0].status
    return Answer(SettledMessages(told), status)


def _settled(receipt: str, result: Result) -> SettledMessage:
    if isinstance(result, GoQueueError):
        return SettledMessage(receipt, SettledAs.ERROR, error=error_of(result))
    if result.state is None:
        return SettledMessage(receipt, SettledAs.DONE)
    is_timed = result.state in {FlightState.LEASED, FlightState.WAITING}
    return SettledMessage(receipt, SettledAs(result.state), result.until_ms if is_timed else UNSET)


@route("GET", "/queues", "queues.list")
async def list_all(context: Context) -> Queues:
    """List all queue groups."""
    views = await list_queues(context.broker.queues, context.caller)
    return Queues([told_queue(context, view) for view in views])


@route("GET", "/queues/{group}", "queues.describe", errors=_OF_QUEUES)
async def describe(context: Context) -> Queue:
    """Describe a queue group: depth, messages in flight, settings."""
    return told_queue(context, await describe_queue(context.broker.queues, context.caller, context.group))


@route(
    "PATCH",
    "/queues/{group}",
    "queues.alter",
    errors=(Invalid, InvalidGroup, InconsistentProtocol, *COORDINATOR_ERRORS),
)
async def alter(context: Context, request: QueueSettingsToChange) -> Queue:
    """Change settings of a queue group; create it if it does not exist."""
    changes = _changes(request)
    view = await configure_queue(
        context.broker.queues, context.caller, context.group, lambda settings: replace(settings, **changes)
    )
    return told_queue(context, view)


@route("DELETE", "/queues/{group}", "queues.delete", status=204, errors=(*_OF_QUEUES, GroupNotEmpty))
async def delete(context: Context) -> None:
    """Delete a queue group, and forget its messages in flight."""
    await delete_queue(context.broker.queues, context.caller, context.group)


@route("POST", "/queues/{group}/pause", "queues.pause", errors=_OF_CHANGES)
async def pause(context: Context, request: PauseRequest) -> Queue:
    """Pause delivery to a queue group."""
    view = await pause_queue(context.broker.queues, context.caller, context.group, request.reason)
    return told_queue(context, view)


@route("POST", "/queues/{group}/resume", "queues.resume", errors=_OF_CHANGES)
async def resume(context: Context, _: ResumeRequest) -> Queue:
    """Resume delivery to a queue group."""
    return told_queue(context, await pause_queue(context.broker.queues, context.caller, context.group, ""))


@route("GET", "/queues/{group}/peek", "queues.peek", errors=(*_OF_QUEUES, UnknownTopic, TopicProtected, Corrupt))
async def peek(context: Context, query: PeekQuery) -> PeekedMessages:
    """Show the next messages without leasing them."""
    found = await peek_queue(context.broker.queues, context.caller, context.group, query.topic, query.limit)
    return PeekedMessages([message_of(*where, record) for where, record in found])


def _changes(request: QueueSettingsToChange) -> dict[str, object]:
    changes: dict[str, object] = {}
    for name in request.__struct_fields__:
        value = getattr(request, name)
        field = _DURATIONS.get(name, name)
        if value is None:
            changes[field] = getattr(_DEFAULTS, field)
        elif value is not UNSET:
            changes[field] = _parsed(name, value)
    return changes


def _parsed(name: str, value: Any) -> object:
    if name == "visibility_timeout":
        return visibility_ms_of(value, name)
    if name in _DURATIONS:
        return delay_ms_of(value, name)
    return _start(value) if name == "start" else value


def _start(written: int | str) -> StartAt | int:
    if written in set(StartAt):
        return StartAt(written)
    # Clients that have all settings as text send numbers as text.
    return time_of(int(written) if isinstance(written, str) and _DIGITS.fullmatch(written) else written)


def time_of(written: int | str) -> int:
    """Parse a time of a request into milliseconds since 1970."""
    try:
        return timestamp_of(written)
    except InvalidRecord as error:
        raise MalformedRequest(error.message, hint=error.hint) from None


def told_queue(context: Context, view: QueueView) -> Queue:
    """Return a queue group, as JSON has it."""
    now_ms = context.broker.core.clock.now_ms()
    partitions = [_partition(each, now_ms) for each in view.partitions]
    ages = [each.oldest_seconds for each in partitions if each.oldest_seconds is not None]
    return Queue(
        group=view.name,
        paused=bool(view.paused),
        pause_reason=view.paused,
        depth=sum(each.backlog + sum(each.in_flight.values()) for each in view.partitions),
        in_flight=sum(each.in_flight[FlightState.LEASED] for each in view.partitions),
        oldest_seconds=max(ages, default=None),
        consumers=view.consumers,
        members=[
            QueueMember(each.id, each.client_id, each.client_host, sorted(each.topics), view.consumers.get(each.id, 0))
            for each in view.members
        ],
        settings=_settings(view.settings),
        partitions=partitions,
    )


def _partition(view: PartitionView, now_ms: int) -> QueuePartition:
    return QueuePartition(
        topic=view.partition.topic,
        partition=view.partition.partition,
        floor=view.floor,
        cursor=view.cursor,
        end_offset=None if view.end_offset < 0 else view.end_offset,
        backlog=view.backlog,
        oldest_seconds=None if view.oldest_ms is None else seconds(max(now_ms - view.oldest_ms, 0)),
        dead_letter_trouble=view.letter_trouble or UNSET,
        error=UNSET if view.error is None else error_of(view.error),
        **{state.value: view.in_flight[state] for state in FlightState},
    )


def _settings(settings: QueueSettings) -> QueueSettingsShown:
    return QueueSettingsShown(
        visibility_timeout=duration_text(settings.visibility_ms),
        retries=settings.retries,
        backoff=duration_text(settings.backoff_ms),
        backoff_factor=settings.backoff_factor,
        backoff_max=duration_text(settings.backoff_max_ms),
        in_flight_max=settings.in_flight_max,
        ordering=settings.ordering,
        start=settings.start,
        dead_letters=settings.dead_letters,
        breaker_ratio=settings.breaker_ratio,
    )


@route("POST", "/queues/{group}/seek", "queues.seek", errors=_OF_CHANGES)
async def seek(context: Context, request: SeekRequest) -> MovedQueue:
    """Move a queue group to another position in a topic; a dry run shows the effect.

    Receipts of messages in flight become invalid.
    """
    given = [each for each in (request.to, request.offset, request.time) if each is not UNSET]
    if len(given) != 1:
        raise MalformedRequest("give exactly one of to, offset and time")
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
    view, moves = await carry_out(context.broker.queues, context.caller, context.group, wanted)
    return _moved(context, view, [_move(each) for each in moves], is_dry_run=request.dry_run)


@route("POST", "/queues/{group}/purge", "queues.purge", errors=_OF_CHANGES)
async def purge(context: Context, request: PurgeRequest) -> Queue:
    """Mark all current messages of a topic as processed for this group."""
    wanted = QueueSeek(request.topic, StartAt.LATEST)
    view, _ = await seek_queue(context.broker.queues, context.caller, context.group, wanted)
    return told_queue(context, view)


def _moved(context: Context, view: QueueView, moves: list[PartitionMove], *, is_dry_run: bool) -> MovedQueue:
    told = told_queue(context, view)
    fields = {name: getattr(told, name) for name in told.__struct_fields__}
    return MovedQueue(**fields, dry_run=is_dry_run, moves=moves)


def _move(move: PartitionSeek) -> PartitionMove:
    where, cursor, offset, in_flight, skipped, again = move
    return PartitionMove(*where, cursor, offset, in_flight, skipped, again)


@route("GET", "/reliability/stats", "queues.stats")
async def stats(context: Context) -> ReliabilityStats:
    """Count deliveries, acknowledgements and dead letters of each queue group and topic."""
    now_ms = context.broker.core.clock.now_ms()
    found = await queue_stats(context.broker.queues, context.caller)
    return ReliabilityStats([_reliability(each, now_ms) for each in found])


def _reliability(stats: QueueTopicStats, now_ms: int) -> Reliability:
    tally = stats.tally
    return Reliability(
        group=stats.group,
        topic=stats.topic,
        paused=bool(stats.paused),
        depth=stats.depth,
        in_flight=stats.in_flight,
        oldest_seconds=None if stats.oldest_ms is None else seconds(max(now_ms - stats.oldest_ms, 0)),
        delivered=tally.delivered,
        redelivered=tally.redelivered,
        acked=tally.acked,
        nacked=tally.nacked,
        rejected=tally.rejected,
        released=tally.released,
        extended=tally.extended,
        refused=tally.refused,
        expired=stats.expired,
        dead_lettered=tally.dead_letters.total(),
        dead_letters=dict(tally.dead_letters),
    )
