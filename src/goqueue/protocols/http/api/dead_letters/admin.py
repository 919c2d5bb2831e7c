"""Dead letters by HTTP: which there are and why, one by one or counted, and their end."""

from __future__ import annotations

import re
from base64 import b64decode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Annotated
from zlib import compress, decompressobj
from zlib import error as zlib_error

import msgspec
from msgspec import UNSET, Meta, UnsetType

from goqueue.broker.dead_letters.browsing import Look, Order, browse_letters, count_letters, list_letters
from goqueue.broker.dead_letters.purges import purge_letters
from goqueue.broker.dead_letters.reading import Letter
from goqueue.broker.dead_letters.stats import Count
from goqueue.errors import (
    Conflict,
    Corrupt,
    Invalid,
    InvalidRecord,
    MalformedRequest,
    PolicyViolation,
    RedriveRunning,
    TopicPrivate,
    UnknownTopic,
)
from goqueue.model.dead_letter_selection import Selection
from goqueue.model.dead_letters import original_headers
from goqueue.protocols.http.api.messages import BASE64_PATTERN, OFFSET_MAX, PARTITION_MAX, Message, filled, timestamp_of
from goqueue.protocols.http.calls import Context
from goqueue.protocols.http.route import COORDINATOR_ERRORS, route

_OF_LETTERS = (UnknownTopic, TopicPrivate, Conflict, Corrupt, *COORDINATOR_ERRORS)

LETTERS_MAX = 1_000
_CURSOR_CHARS_MAX = 40_000
# How much of a cursor is quoted.
_QUOTED_CHARS_MAX = 40
# Enough for all partitions that a topic may have.
_CURSOR_BYTES_MAX = 1024 * 1024

_Time = Annotated[
    str,
    Meta(
        description="Milliseconds since 1970, or ISO 8601 with an offset from UTC.",
        extra_json_schema={"anyOf": [{"pattern": "^[0-9]{1,14}$"}, {"format": "date-time"}]},
    ),
]
_Base64 = Annotated[
    str,
    Meta(
        description="The key of the message as base64, instead of `key`.",
        extra_json_schema={"pattern": BASE64_PATTERN},
    ),
]
_Name = Annotated[str, Meta(min_length=1, max_length=1_000)]
_Offset = Annotated[int, Meta(ge=0, le=OFFSET_MAX)]


class LettersQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which dead letters, and which of them first.

    `partition` and offsets are those of the message that died, `since` and `until` are about when it did.
    """

    order: Annotated[Order, Meta(description="Which come first.")] = Order.NEWEST
    limit: Annotated[int, Meta(ge=1, le=LETTERS_MAX, description="How many at most.")] = 100
    cursor: (
        Annotated[str, Meta(max_length=_CURSOR_CHARS_MAX, description="Go on where a reply with this cursor ended.")]
        | UnsetType
    ) = UNSET
    reason: Annotated[_Name, Meta(description="Why it died.")] | UnsetType = UNSET
    group: Annotated[_Name, Meta(description="For which queue group it died.")] | UnsetType = UNSET
    key: Annotated[str, Meta(description="The key of the message.")] | UnsetType = UNSET
    key_base64: _Base64 | UnsetType = UNSET
    since: _Time | UnsetType = UNSET
    until: _Time | UnsetType = UNSET
    source: Annotated[_Name, Meta(description="The topic in which it died.")] | UnsetType = UNSET
    partition: Annotated[int, Meta(ge=0, le=PARTITION_MAX)] | UnsetType = UNSET
    first_offset: _Offset | UnsetType = UNSET
    last_offset: _Offset | UnsetType = UNSET
    redriven: Annotated[bool, Meta(description="Also those that a redrive has published again.")] = False
    totals: Annotated[bool, Meta(description="Also count all that are meant.")] = False


class LetterCause(msgspec.Struct):
    """Why a message died, and where it was, as far as its letter says so; times are milliseconds since 1970."""

    reason: str
    error: str
    attempts: int | None
    group: str
    consumer: str
    topic: str
    partition: int | None
    offset: int | None
    timestamp: int | None
    first_delivery: int | None
    last_delivery: int | None
    redrives: Annotated[int, Meta(description="How often the message was published again before it died.")]


class DeadLetter(Message, kw_only=True):
    """A dead letter: the message as it was, where its letter lies and since when, and the cause."""

    cause: LetterCause
    redriven: bool


class LetterTotals(msgspec.Struct):
    """How many letters there are; `by_reason` are those that no redrive has published again.

    `cut` says that only so many of the newest were counted, and that there are more; `unreadable` were passed over,
    since they cannot be read. Reasons are cut to 200 characters, and beyond 1,000 of them counted as `(others)`.
    """

    letters: int
    redriven: int
    by_reason: dict[str, int]
    cut: bool
    unreadable: int


class DeadLetters(msgspec.Struct):
    """Dead letters, and the cursor for the next page, if there may be one.

    `topic` is where they lie; null if there are none yet. `cut` says that the look has ended before the page was full,
    since it has seen so many letters that are not meant: the cursor goes on. `unreadable` were passed over, since they
    cannot be read.
    """

    topic: str | None
    letters: list[DeadLetter]
    cursor: str | None
    cut: bool
    unreadable: int
    totals: LetterTotals | UnsetType = UNSET


class LettersOfTopic(LetterTotals):
    """The dead letters in a topic: of which topics they are, and when the oldest and the newest have come."""

    topic: str
    sources: list[str]
    oldest: int | None
    newest: int | None


class AllDeadLetters(msgspec.Struct):
    """All topics for dead letters."""

    topics: list[LettersOfTopic]


class LettersPurge(msgspec.Struct, forbid_unknown_fields=True):
    """How dead letters are deleted: all of them, or none if it is only to be told how many."""

    dry_run: Annotated[bool, Meta(description="Only tell what would happen.")] = False


class PurgedLetters(msgspec.Struct):
    """Where letters were deleted, and how many offsets they had; readers of that topic cannot see them any more.

    After a dry run, how many would be.
    """

    topic: str
    purged: int


@route("GET", "/topics/{topic}/dlq", "dead_letters.browse", errors=(*_OF_LETTERS, Invalid, MalformedRequest))
async def browse(context: Context, query: LettersQuery) -> DeadLetters:
    """Show the dead letters of a topic, or those in a topic of dead letters."""
    selection = _selection(query)
    left = None if query.cursor is UNSET else _read_cursor(query.cursor, query.order)
    look = Look(selection, query.order, query.limit, left, has_redriven=query.redriven)
    page = await browse_letters(context.broker, context.caller, context.topic, look)
    letters = [_told(page.topic or "", letter) for letter in page.letters]
    cursor = None if page.left is None else _cursor(page.left, query.order)
    told = DeadLetters(page.topic, letters, cursor, page.is_cut, page.unreadable)
    if query.totals:
        count = await count_letters(context.broker, context.caller, context.topic, selection)
        by_reason = dict(count.by_reason.most_common())
        told.totals = LetterTotals(count.letters, count.redriven, by_reason, count.is_cut, count.unreadable)
    return told


@route("GET", "/dlq", "dead_letters.list", errors=_OF_LETTERS)
async def list_all(context: Context) -> AllDeadLetters:
    """List all topics for dead letters, and count these by reason."""
    counts = await list_letters(context.broker, context.caller)
    return AllDeadLetters([_listed(count) for count in counts])


@route(
    "POST", "/topics/{topic}/dlq/purge", "dead_letters.purge", errors=(*_OF_LETTERS, RedriveRunning, PolicyViolation)
)
async def purge(context: Context, request: LettersPurge) -> PurgedLetters:
    """Delete all dead letters of a topic, or tell how many would go."""
    topic, count = await purge_letters(context.broker, context.caller, context.topic, is_dry=request.dry_run)
    return PurgedLetters(topic, count)


def time_of(written: str | int | UnsetType) -> int | None:
    """Return a time in milliseconds since 1970; MalformedRequest if it is none."""
    if written is UNSET:
        return None
    if isinstance(written, str):
        # A plus in a query stands for a space, unless it was written as %2B.
        written = written.replace(" ", "+")
        written = int(written) if re.fullmatch("[0-9]{1,15}", written) else written
    try:
        return timestamp_of(written)
    except InvalidRecord as error:
        raise MalformedRequest(error.message, hint=error.hint) from None


def key_of(key: str | UnsetType, key_base64: bytes | UnsetType) -> bytes | None:
    """Return the key that letters have to have, None if any; MalformedRequest if it is given in both ways."""
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
        # A plus in a query stands for a space, unless it was written as %2B.
        return b64decode(written.replace(" ", "+"), validate=True)
    except ValueError:
        hint = "take it as replies have it, with the = at its end"
        raise MalformedRequest(f"key_base64 {written[:100]!r} is no base64", hint=hint) from None


def _told(topic: str, letter: Letter) -> DeadLetter:
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


def _listed(count: Count) -> LettersOfTopic:
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
    """Return what is left as text, short enough for a URL: where to go on in each partition, if there is more.

    Only one end is written. The other one is where the letters of the partition begin, or end, by then.
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
        message = f"{written[:_QUOTED_CHARS_MAX]!r} is no cursor that a reply has had"
        hint = "take the cursor of the reply before as it is, or leave it out to begin with the first page"
        raise MalformedRequest(message, hint=hint) from None
    if told is not order:
        hint = f"ask for order={told} again, or leave the cursor out to begin with the first page"
        raise MalformedRequest(f"the cursor is that of a look at the {told} letters first", hint=hint)
    if order is Order.NEWEST:
        return {index: (0, end) for index, end in positions.items()}
    return {index: (start, OFFSET_MAX) for index, start in positions.items()}
