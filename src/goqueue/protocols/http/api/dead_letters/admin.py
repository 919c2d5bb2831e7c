"""Dead letters by HTTP: which there are and why, one by one or counted, and their end."""

from __future__ import annotations

import re
from base64 import b64decode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from zlib import compress, decompressobj
from zlib import error as zlib_error

from msgspec import UNSET, UnsetType

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
)
from goqueue.api.fields import OFFSET_MAX
from goqueue.broker.dead_letters.browsing import Look, browse_letters, count_letters, list_letters
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
from goqueue.model.dead_letter_selection import Order, Selection
from goqueue.model.dead_letters import original_headers
from goqueue.protocols.http.api.messages import filled, timestamp_of
from goqueue.protocols.http.calls import Context
from goqueue.protocols.http.route import COORDINATOR_ERRORS, route

_OF_LETTERS = (UnknownTopic, TopicPrivate, Conflict, Corrupt, *COORDINATOR_ERRORS)

# How much of a cursor is quoted.
_QUOTED_CHARS_MAX = 40
# Enough for all partitions that a topic may have.
_CURSOR_BYTES_MAX = 1024 * 1024


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
