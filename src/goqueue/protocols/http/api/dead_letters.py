"""Dead letters by HTTP, and redrives, which publish them again."""

from __future__ import annotations

import re
from base64 import b64decode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Annotated
from zlib import compress, decompressobj
from zlib import error as zlib_error

from msgspec import UNSET, Meta, UnsetType

from goqueue.api.dead_letters import (
    AllDeadLetters,
    DeadLetter,
    DeadLetters,
    LetterCause,
    LettersOfTopic,
    LettersPurge,
    LettersQuery,
    LetterTotals,
    PurgedLetters,
    Redrive,
    RedriveMoves,
    RedrivePreview,
    RedriveReply,
    RedriveRequest,
    Redrives,
    RedriveSelection,
)
from goqueue.api.fields import OFFSET_MAX
from goqueue.broker.dead_letters.browsing import (
    BrowseRequest,
    browse_dead_letters,
    count_dead_letters,
    list_dead_letters,
)
from goqueue.broker.dead_letters.purges import purge_dead_letters
from goqueue.broker.dead_letters.reading import StoredDeadLetter
from goqueue.broker.dead_letters.stats import DeadLetterCount
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
    InvalidRecord,
    InvalidTopicName,
    MalformedRequest,
    PolicyViolation,
    RedriveRunning,
    TopicPrivate,
    TopicProtected,
    UnknownRedrive,
    UnknownTopic,
)
from goqueue.machines.redrives.values import Moves, RedriveTerms
from goqueue.model.dead_letter_selection import Order, Selection
from goqueue.model.dead_letters import original_headers
from goqueue.model.redrives import RedriveState
from goqueue.protocols.http.api.messages import filled, timestamp_of
from goqueue.protocols.http.calls import Answer, Context
from goqueue.protocols.http.route import COORDINATOR_ERRORS, route

_OF_LETTERS = (UnknownTopic, TopicPrivate, Conflict, Corrupt, *COORDINATOR_ERRORS)

# How much of an invalid cursor an error quotes.
_QUOTED_CHARS_MAX = 40
# Enough for all partitions that a topic may have.
_CURSOR_BYTES_MAX = 1024 * 1024
_OF_REDRIVES = (UnknownRedrive, *COORDINATOR_ERRORS)

_Offset = Annotated[int, Meta(ge=0, le=OFFSET_MAX)]


@route("GET", "/topics/{topic}/dlq", "dead_letters.browse", errors=(*_OF_LETTERS, Invalid, MalformedRequest))
async def browse(context: Context, query: LettersQuery) -> DeadLetters:
    """Browse the dead letters of a topic, or those stored in a dead-letter topic."""
    selection = _selection(query)
    left = None if query.cursor is UNSET else _read_cursor(query.cursor, query.order)
    look = BrowseRequest(selection, query.order, query.limit, left, has_redriven=query.redriven)
    page = await browse_dead_letters(context.broker.dead_letters, context.caller, context.topic, look)
    letters = [_dead_letter(page.topic or "", letter) for letter in page.letters]
    cursor = None if page.left is None else _cursor(page.left, query.order)
    told = DeadLetters(page.topic, letters, cursor, page.is_cut, page.unreadable)
    if query.totals:
        count = await count_dead_letters(context.broker.dead_letters, context.caller, context.topic, selection)
        by_reason = dict(count.by_reason.most_common())
        told.totals = LetterTotals(count.letters, count.redriven, by_reason, count.is_cut, count.unreadable)
    return told


@route("GET", "/dlq", "dead_letters.list", errors=_OF_LETTERS)
async def list_all(context: Context) -> AllDeadLetters:
    """List all dead-letter topics, with counts by reason."""
    counts = await list_dead_letters(context.broker.dead_letters, context.caller)
    return AllDeadLetters([_listed(count) for count in counts])


@route(
    "POST", "/topics/{topic}/dlq/purge", "dead_letters.purge", errors=(*_OF_LETTERS, RedriveRunning, PolicyViolation)
)
async def purge(context: Context, request: LettersPurge) -> PurgedLetters:
    """Delete all dead letters of a topic; a dry run returns their number."""
    topic, count = await purge_dead_letters(
        context.broker.dead_letters, context.caller, context.topic, is_dry=request.dry_run
    )
    return PurgedLetters(topic, count)


def time_of(written: str | int | UnsetType) -> int | None:
    """Parse a time into milliseconds since 1970; MalformedRequest if it is invalid."""
    if written is UNSET:
        return None
    if isinstance(written, str):
        # In a query, a plus means a space unless it is written as %2B.
        written = written.replace(" ", "+")
        written = int(written) if re.fullmatch("[0-9]{1,15}", written) else written
    try:
        return timestamp_of(written)
    except InvalidRecord as error:
        raise MalformedRequest(error.message, hint=error.hint) from None


def key_of(key: str | UnsetType, key_base64: bytes | UnsetType) -> bytes | None:
    """Return the key to filter by, or None; MalformedRequest if both fields are given."""
    if key is not UNSET and key_base64 is not UNSET:
        raise MalformedRequest("key and key_base64 are both given", hint="leave one of them out")
    if key_base64 is not UNSET:
        return key_base64
    return None if key is UNSET else key.encode()


def _selection(query: LettersQuery) -> Selection:
    return Selection(
        reasons=() if query.reason is UNSET else (query.reason,),
        groups=() if query.group is UNSET else (query.group,),
        key=key_of(query.key, UNSET if query.key_base64 is UNSET else _bytes_of(query.key_base64)),
        since_ms=time_of(query.since),
        until_ms=time_of(query.until),
        source=None if query.source is UNSET else query.source,
        partition=None if query.partition is UNSET else query.partition,
        first_offset=None if query.first_offset is UNSET else query.first_offset,
        last_offset=None if query.last_offset is UNSET else query.last_offset,
    )


def _bytes_of(written: str) -> bytes:
    try:
        # In a query, a plus means a space unless it is written as %2B.
        return b64decode(written.replace(" ", "+"), validate=True)
    except ValueError:
        hint = "keep the = at its end"
        raise MalformedRequest(f"key_base64 {written[:100]!r} is not base64", hint=hint) from None


def _dead_letter(topic: str, letter: StoredDeadLetter) -> DeadLetter:
    record = letter.record
    told = DeadLetter(
        topic,
        letter.partition,
        record.offset,
        record.timestamp,
        cause=LetterCause(**letter.cause._asdict()),
        redriven=letter.is_redriven,
    )
    filled(told, record._replace(headers=original_headers(record.headers)))
    return told


def _listed(count: DeadLetterCount) -> LettersOfTopic:
    return LettersOfTopic(
        count.letters,
        count.redriven,
        dict(count.by_reason.most_common()),
        count.is_cut,
        count.unreadable,
        count.topic,
        sorted(count.sources),
        count.oldest_ms,
        count.newest_ms,
    )


def _cursor(left: Mapping[int, tuple[int, int]], order: Order) -> str:
    """Encode where to continue in each partition, short enough for a URL.

    Only one end of each range is encoded. The other one is where the partition's dead letters begin, or end, by then.
    """
    ends = [""] * (max(left) + 1)
    for index, (start, end) in left.items():
        ends[index] = str(end if order is Order.NEWEST else start)
    return urlsafe_b64encode(compress(f"{order} {','.join(ends)}".encode(), 9)).decode()


def _read_cursor(written: str, order: Order) -> Mapping[int, tuple[int, int]]:
    try:
        opened = decompressobj().decompress(urlsafe_b64decode(written), _CURSOR_BYTES_MAX)
        name, _, ends = opened.decode().partition(" ")
        told = Order(name)
        positions = {index: int(each) for index, each in enumerate(ends.split(",")) if each}
    except (ValueError, zlib_error):
        message = f"{written[:_QUOTED_CHARS_MAX]!r} is not a cursor of a reply"
        hint = "use the cursor of the last reply unchanged, or leave it out to start with the first page"
        raise MalformedRequest(message, hint=hint) from None
    if told is not order:
        hint = f"use order={told} again, or leave the cursor out to start with the first page"
        raise MalformedRequest(f"the cursor belongs to order={told}", hint=hint)
    if order is Order.NEWEST:
        return {index: (0, end) for index, end in positions.items()}
    return {index: (start, OFFSET_MAX) for index, start in positions.items()}


@route(
    "POST",
    "/topics/{topic}/dlq/redrive",
    "redrives.start",
    status=202,
    other_statuses=(200,),
    errors=(*_OF_LETTERS, Invalid, MalformedRequest, InvalidTopicName, TopicProtected, RedriveRunning),
)
async def start(context: Context, request: RedriveRequest) -> Answer[RedriveReply]:
    """Republish a topic's current dead letters; a dry run shows the effect."""
    terms = RedriveTerms(
        selection=_redrive_selection(request),
        target=None if request.target is UNSET else request.target,
        rate=None if request.rate is UNSET else request.rate,
        limit=None if request.limit is UNSET else request.limit,
        redrives_max=None if request.force else request.max_redrives,
        repeats=request.repeat,
    )
    if request.dry_run:
        topic, moves, is_cut, error = await preview_redrive(
            context.broker.redrives, context.caller, context.topic, terms
        )
        return Answer(RedriveReply(preview=RedrivePreview(topic, _moves(moves), is_cut, error)))
    view = await start_redrive(context.broker.redrives, context.caller, context.topic, terms)
    return Answer(RedriveReply(redrive=_redrive(view)), 202)


@route("GET", "/dlq/redrives", "redrives.list", errors=COORDINATOR_ERRORS)
async def all_redrives(context: Context) -> Redrives:
    """List redrives, newest first."""
    return Redrives([_redrive(view) for view in await list_redrives(context.broker.redrives, context.caller)])


@route("GET", "/dlq/redrives/{redrive}", "redrives.describe", errors=_OF_REDRIVES)
async def describe(context: Context) -> Redrive:
    """Describe a redrive."""
    return _redrive(await find_redrive(context.broker.redrives, context.caller, context.path["redrive"]))


@route("DELETE", "/dlq/redrives/{redrive}", "redrives.cancel", errors=_OF_REDRIVES)
async def cancel(context: Context) -> Redrive:
    """Cancel a redrive; messages that it has republished stay."""
    return _redrive(await cancel_redrive(context.broker.redrives, context.caller, context.path["redrive"]))


def _redrive_selection(request: RedriveRequest) -> Selection:
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


def _redrive(view: RedriveView) -> Redrive:
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
        # A redrive with a limit is complete before it has checked all dead letters.
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
