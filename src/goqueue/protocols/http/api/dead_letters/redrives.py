"""Redrives by HTTP: dead letters are published again by a job that can be watched and cancelled."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta

from goqueue.api.dead_letters import (
    Redrive,
    RedriveMoves,
    RedrivePreview,
    RedriveReply,
    RedriveRequest,
    Redrives,
    RedriveSelection,
)
from goqueue.api.fields import OFFSET_MAX
from goqueue.broker.redrives.admin import (
    RedriveView,
    cancel_redrive,
    find_redrive,
    list_redrives,
    preview_redrive,
    start_redrive,
)
from goqueue.errors import (
    Conflict,
    Corrupt,
    Invalid,
    InvalidTopicName,
    MalformedRequest,
    RedriveRunning,
    TopicPrivate,
    TopicProtected,
    UnknownRedrive,
    UnknownTopic,
)
from goqueue.machines.redrives.values import Moves, RedriveTerms
from goqueue.model.dead_letter_selection import Selection
from goqueue.model.redrives import RedriveState
from goqueue.protocols.http.api.dead_letters.admin import key_of, time_of
from goqueue.protocols.http.calls import Answer, Context
from goqueue.protocols.http.route import COORDINATOR_ERRORS, route

_OF_LETTERS = (UnknownTopic, TopicPrivate, Conflict, Corrupt, *COORDINATOR_ERRORS)
_OF_REDRIVES = (UnknownRedrive, *COORDINATOR_ERRORS)

_Offset = Annotated[int, Meta(ge=0, le=OFFSET_MAX)]


@route(
    "POST",
    "/topics/{topic}/dlq/redrive",
    "redrives.start",
    status=202,
    other_statuses=(200,),
    errors=(*_OF_LETTERS, Invalid, MalformedRequest, InvalidTopicName, TopicProtected, RedriveRunning),
)
async def start(context: Context, request: RedriveRequest) -> Answer[RedriveReply]:
    """Publish dead letters again, or tell what that would do."""
    terms = RedriveTerms(
        selection=_selection(request),
        target=None if request.target is UNSET else request.target,
        rate=None if request.rate is UNSET else request.rate,
        limit=None if request.limit is UNSET else request.limit,
        redrives_max=None if request.force else request.max_redrives,
        repeats=request.repeat,
    )
    if request.dry_run:
        topic, moves, is_cut, error = await preview_redrive(context.broker, context.caller, context.topic, terms)
        return Answer(RedriveReply(preview=RedrivePreview(topic, _moves(moves), is_cut, error)))
    view = await start_redrive(context.broker, context.caller, context.topic, terms)
    return Answer(RedriveReply(redrive=_told(view)), 202)


@route("GET", "/dlq/redrives", "redrives.list", errors=COORDINATOR_ERRORS)
async def list_all(context: Context) -> Redrives:
    """List redrives, the one that began last first."""
    return Redrives([_told(view) for view in await list_redrives(context.broker, context.caller)])


@route("GET", "/dlq/redrives/{redrive}", "redrives.describe", errors=_OF_REDRIVES)
async def describe(context: Context) -> Redrive:
    """Tell how a redrive is."""
    return _told(await find_redrive(context.broker, context.caller, context.path["redrive"]))


@route("DELETE", "/dlq/redrives/{redrive}", "redrives.cancel", errors=_OF_REDRIVES)
async def cancel(context: Context) -> Redrive:
    """Cancel a redrive; what it has published stays."""
    return _told(await cancel_redrive(context.broker, context.caller, context.path["redrive"]))


def _selection(request: RedriveRequest) -> Selection:
    return Selection(
        reasons=tuple(request.reasons),
        groups=tuple(request.groups),
        key=key_of(request.key, request.key_base64),
        since_ms=time_of(request.since),
        until_ms=time_of(request.until),
        source=None if request.source is UNSET else request.source,
        partition=None if request.partition is UNSET else request.partition,
        first_offset=None if request.first_offset is UNSET else request.first_offset,
        last_offset=None if request.last_offset is UNSET else request.last_offset,
    )


def _told(view: RedriveView) -> Redrive:
    job, trouble = view
    terms, spans = job.terms, job.spans.values()
    all_letters = sum(span.end - span.start for span in spans)
    done = sum(span.position - span.start for span in spans)
    return Redrive(
        id=job.id,
        topic=job.topic,
        state=job.state,
        selection=_shown(terms.selection),
        target=terms.target,
        rate=terms.rate,
        limit=terms.limit,
        max_redrives=terms.redrives_max,
        repeat=terms.repeats,
        # One that was to move only so many has done all that it was asked for.
        progress=1.0 if job.state is RedriveState.DONE or not all_letters else round(done / all_letters, 4),
        moves=_moves(job.moves),
        reason=job.reason,
        error=job.error,
        trouble="" if trouble is None else trouble.error,
        failures=0 if trouble is None else trouble.failures,
        started=job.started_ms,
        ended=job.ended_ms,
    )


def _shown(selection: Selection) -> RedriveSelection:
    return RedriveSelection(
        list(selection.reasons),
        list(selection.groups),
        UNSET if selection.key is None else selection.key,
        UNSET if selection.since_ms is None else selection.since_ms,
        UNSET if selection.until_ms is None else selection.until_ms,
        UNSET if selection.source is None else selection.source,
        UNSET if selection.partition is None else selection.partition,
        UNSET if selection.first_offset is None else selection.first_offset,
        UNSET if selection.last_offset is None else selection.last_offset,
    )


def _moves(moves: Moves) -> RedriveMoves:
    return RedriveMoves(moves.moved, moves.redriven, moves.looping, moves.failed)
