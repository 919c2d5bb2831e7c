"""Redrives by HTTP: dead letters are published again by a job that can be watched and cancelled."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from goqueue.broker.redrives.admin import (
    RATE_MAX,
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
from goqueue.machines.redrives.values import REDRIVES_MAX, Moves, RedriveState, RedriveTerms
from goqueue.model.dead_letter_selection import REASONS_MAX, Selection
from goqueue.protocols.http.api.dead_letters.admin import key_of, time_of
from goqueue.protocols.http.api.messages import OFFSET_MAX, PARTITION_MAX, Base64Bytes, Milliseconds, Moment
from goqueue.protocols.http.api.queues.receive_and_settle import TopicName
from goqueue.protocols.http.calls import Answer, Context
from goqueue.protocols.http.route import COORDINATOR_ERRORS, route

_OF_LETTERS = (UnknownTopic, TopicPrivate, Conflict, Corrupt, *COORDINATOR_ERRORS)
_OF_REDRIVES = (UnknownRedrive, *COORDINATOR_ERRORS)

_Names = Annotated[list[Annotated[str, Meta(min_length=1, max_length=1_000)]], Meta(max_length=REASONS_MAX)]
_Offset = Annotated[int, Meta(ge=0, le=OFFSET_MAX)]


class RedriveRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Which dead letters are published again, and how; all that are there now, if nothing is said.

    `partition` and offsets are those of the message that died, `since` and `until` are about when it did.
    """

    reasons: _Names = []
    groups: _Names = []
    key: str | UnsetType = UNSET
    key_base64: Base64Bytes | UnsetType = UNSET
    since: Milliseconds | Moment | UnsetType = UNSET
    until: Milliseconds | Moment | UnsetType = UNSET
    source: Annotated[str, Meta(min_length=1, max_length=249)] | UnsetType = UNSET
    partition: Annotated[int, Meta(ge=0, le=PARTITION_MAX)] | UnsetType = UNSET
    first_offset: _Offset | UnsetType = UNSET
    last_offset: _Offset | UnsetType = UNSET
    target: (
        Annotated[TopicName, Meta(description="Where to; otherwise each goes to the topic it came from.")] | UnsetType
    ) = UNSET
    rate: Annotated[float, Meta(gt=0, le=RATE_MAX, description="How many letters a second.")] | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=OFFSET_MAX, description="How many letters at most.")] | UnsetType = UNSET
    max_redrives: Annotated[
        int, Meta(ge=0, le=OFFSET_MAX, description="Messages that were published again so often are skipped.")
    ] = REDRIVES_MAX
    force: Annotated[bool, Meta(description="However often a message was published again.")] = False
    repeat: Annotated[bool, Meta(description="Also letters that a redrive has published again.")] = False
    dry_run: Annotated[bool, Meta(description="Only tell what would happen.")] = False


class RedriveMoves(msgspec.Struct):
    """What became of letters: published again, failed for good, or skipped.

    `skipped_redriven` were published again by an earlier redrive, `skipped_looping` too often already.
    """

    moved: int
    skipped_redriven: int
    skipped_looping: int
    failed: int


class RedriveSelection(msgspec.Struct):
    """Which letters are meant; what is left out does not matter."""

    reasons: list[str]
    groups: list[str]
    key_base64: bytes | UnsetType = UNSET
    since: int | UnsetType = UNSET
    until: int | UnsetType = UNSET
    source: str | UnsetType = UNSET
    partition: int | UnsetType = UNSET
    first_offset: int | UnsetType = UNSET
    last_offset: int | UnsetType = UNSET


class Redrive(msgspec.Struct, kw_only=True):
    """A redrive: `progress` is the share of letters that were looked at, 1 if it is done; times are milliseconds.

    `reason` says why it ended, `trouble` what keeps it from going on until the next attempt, `failures` how often that
    has failed, and `error` why the last letter of those failed that never can be published.
    """

    id: str
    topic: str
    state: RedriveState
    selection: RedriveSelection
    target: str | None
    rate: float | None
    limit: int | None
    max_redrives: int | None
    repeat: bool
    progress: float
    moves: RedriveMoves
    reason: str
    error: str
    trouble: str
    failures: int
    started: int
    ended: int | None


class RedrivePreview(msgspec.Struct):
    """What a redrive would do; `cut` says that not all letters were looked at.

    `error` is why the last letter of those fails that never can be published.
    """

    topic: str
    moves: RedriveMoves
    cut: bool
    error: str


class RedriveReply(msgspec.Struct):
    """The redrive that has begun, or what it would do."""

    redrive: Redrive | UnsetType = UNSET
    preview: RedrivePreview | UnsetType = UNSET


class Redrives(msgspec.Struct):
    """Redrives, the one that began last first."""

    redrives: list[Redrive]


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
