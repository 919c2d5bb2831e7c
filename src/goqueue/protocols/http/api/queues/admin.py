"""Queue groups by HTTP: what is in them, their settings, pauses, and moves."""

from __future__ import annotations

import re
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from goqueue.api.queues import (
    PauseRequest,
    PeekedMessages,
    PeekQuery,
    Queue,
    QueueMember,
    QueuePartition,
    Queues,
    QueueSettingsShown,
    QueueSettingsToChange,
    ResumeRequest,
)
from goqueue.broker.queues.admin import (
    PartitionView,
    QueueView,
    configure_queue,
    delete_queue,
    describe_queue,
    list_queues,
    pause_queue,
)
from goqueue.broker.queues.peeking import peek_queue
from goqueue.errors import (
    Corrupt,
    GroupNotEmpty,
    InconsistentProtocol,
    Invalid,
    InvalidGroup,
    InvalidRecord,
    MalformedRequest,
    TopicProtected,
    UnknownPartition,
    UnknownQueue,
    UnknownTopic,
)
from goqueue.machines.queues.values import FlightState
from goqueue.model.queue_settings import (
    QueueSettings,
)
from goqueue.model.start_at import StartAt
from goqueue.model.units import duration_text
from goqueue.protocols.http.api.groups.shapes import seconds
from goqueue.protocols.http.api.messages import message_of, timestamp_of
from goqueue.protocols.http.calls import Context
from goqueue.protocols.http.route import COORDINATOR_ERRORS, route
from goqueue.protocols.http.wire.durations import delay_ms_of, visibility_ms_of
from goqueue.protocols.http.wire.problems import error_of

_OF_QUEUES = (InvalidGroup, UnknownQueue, *COORDINATOR_ERRORS)
_OF_CHANGES = (*_OF_QUEUES, UnknownTopic, UnknownPartition, TopicProtected, MalformedRequest)

_DIGITS = re.compile("[0-9]{1,15}")
_DEFAULTS = QueueSettings()
# What those settings are called in the model that are durations here.
_DURATIONS = {"visibility_timeout": "visibility_ms", "backoff": "backoff_ms", "backoff_max": "backoff_max_ms"}


@route("GET", "/queues", "queues.list")
async def list_all(context: Context) -> Queues:
    """List all queue groups."""
    views = await list_queues(context.broker, context.caller)
    return Queues([told_queue(context, view) for view in views])


@route("GET", "/queues/{group}", "queues.describe", errors=_OF_QUEUES)
async def describe(context: Context) -> Queue:
    """Describe a queue group: depth, what is in flight, settings."""
    return told_queue(context, await describe_queue(context.broker, context.caller, context.group))


@route(
    "PATCH",
    "/queues/{group}",
    "queues.alter",
    errors=(Invalid, InvalidGroup, InconsistentProtocol, *COORDINATOR_ERRORS),
)
async def alter(context: Context, request: QueueSettingsToChange) -> Queue:
    """Change settings of a queue group, which is made if there is none."""
    changes = _changes(request)
    view = await configure_queue(
        context.broker, context.caller, context.group, lambda settings: replace(settings, **changes)
    )
    return told_queue(context, view)


@route("DELETE", "/queues/{group}", "queues.delete", status=204, errors=(*_OF_QUEUES, GroupNotEmpty))
async def delete(context: Context) -> None:
    """Forget a queue group, with all that is in flight."""
    await delete_queue(context.broker, context.caller, context.group)


@route("POST", "/queues/{group}/pause", "queues.pause", errors=_OF_CHANGES)
async def pause(context: Context, request: PauseRequest) -> Queue:
    """Deliver nothing until it is resumed."""
    view = await pause_queue(context.broker, context.caller, context.group, request.reason)
    return told_queue(context, view)


@route("POST", "/queues/{group}/resume", "queues.resume", errors=_OF_CHANGES)
async def resume(context: Context, _: ResumeRequest) -> Queue:
    """Deliver again."""
    return told_queue(context, await pause_queue(context.broker, context.caller, context.group, ""))


@route("GET", "/queues/{group}/peek", "queues.peek", errors=(*_OF_QUEUES, UnknownTopic, TopicProtected, Corrupt))
async def peek(context: Context, query: PeekQuery) -> PeekedMessages:
    """Show what the next receives would bring, and lease nothing."""
    found = await peek_queue(context.broker, context.caller, context.group, query.topic, query.limit)
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
    # A number may come as text from where all settings are texts.
    return time_of(int(written) if isinstance(written, str) and _DIGITS.fullmatch(written) else written)


def time_of(written: int | str) -> int:
    """Return a time in milliseconds since 1970, as it is written in a request."""
    try:
        return timestamp_of(written)
    except InvalidRecord as error:
        raise MalformedRequest(error.message, hint=error.hint) from None


def told_queue(context: Context, view: QueueView) -> Queue:
    """Return a queue group, as JSON has it."""
    now_ms = context.broker.clock.now_ms()
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
