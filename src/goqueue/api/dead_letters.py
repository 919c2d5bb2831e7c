"""Requests and replies about dead letters and redrives."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from goqueue.api.fields import (
    BASE64_PATTERN,
    OFFSET_MAX,
    PARTITION_MAX,
    Base64Bytes,
    BoundedTopicName,
    Milliseconds,
    Moment,
)
from goqueue.api.messages import Message
from goqueue.model.dead_letter_selection import REASONS_MAX, Order
from goqueue.model.redrives import RATE_MAX, REDRIVES_MAX, RedriveState

LETTERS_MAX = 1_000
_CURSOR_CHARS_MAX = 40_000
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
_Target = Annotated[BoundedTopicName, Meta(description="Where to; otherwise each goes to the topic it came from.")]


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


_Names = Annotated[list[Annotated[str, Meta(min_length=1, max_length=1_000)]], Meta(max_length=REASONS_MAX)]


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
    target: _Target | UnsetType = UNSET
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
