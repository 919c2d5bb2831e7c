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
_Target = Annotated[BoundedTopicName, Meta(description="Target topic; by default, each goes to its original topic.")]


class LettersQuery(msgspec.Struct, forbid_unknown_fields=True):
    """A filter of dead letters, and their order.

    `partition` and offsets are those of the original message; `since` and `until` refer to its death.
    """

    order: Annotated[Order, Meta(description="Order by time.")] = Order.NEWEST
    limit: Annotated[int, Meta(ge=1, le=LETTERS_MAX, description="Maximum number.")] = 100
    cursor: (
        Annotated[str, Meta(max_length=_CURSOR_CHARS_MAX, description="Continue after the reply that had this cursor.")]
        | UnsetType
    ) = UNSET
    reason: Annotated[_Name, Meta(description="Reason of death.")] | UnsetType = UNSET
    group: Annotated[_Name, Meta(description="Queue group of the dead letter.")] | UnsetType = UNSET
    key: Annotated[str, Meta(description="The key of the message.")] | UnsetType = UNSET
    key_base64: _Base64 | UnsetType = UNSET
    since: _Time | UnsetType = UNSET
    until: _Time | UnsetType = UNSET
    source: Annotated[_Name, Meta(description="Original topic.")] | UnsetType = UNSET
    partition: Annotated[int, Meta(ge=0, le=PARTITION_MAX)] | UnsetType = UNSET
    first_offset: _Offset | UnsetType = UNSET
    last_offset: _Offset | UnsetType = UNSET
    redriven: Annotated[bool, Meta(description="Include republished dead letters.")] = False
    totals: Annotated[bool, Meta(description="Also count all dead letters that match.")] = False


class LetterCause(msgspec.Struct, frozen=True):
    """Why a message became a dead letter, and its origin, as far as known; times are milliseconds since 1970."""

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
    redrives: Annotated[int, Meta(description="How often the message was republished before.")]


class DeadLetter(Message, kw_only=True):
    """A dead letter: the original message, with the position and time of the dead letter, and its cause."""

    cause: LetterCause
    redriven: bool


class LetterTotals(msgspec.Struct, frozen=True):
    """Counts of dead letters; `by_reason` leaves out republished ones.

    If `cut`, only the newest were counted. `unreadable` dead letters were skipped. Reasons are cut to 200 characters;
    after 1,000 different ones, the rest counts as `(others)`.
    """

    letters: int
    redriven: int
    by_reason: dict[str, int]
    cut: bool
    unreadable: int


class DeadLetters(msgspec.Struct):
    """A page of dead letters, and the cursor for the next one, if there may be one.

    `topic` is where they are stored; null if there are none yet. If `cut`, the search ended before the page was full,
    because too many dead letters did not match: continue with the cursor. `unreadable` dead letters were skipped.
    """

    topic: str | None
    letters: list[DeadLetter]
    cursor: str | None
    cut: bool
    unreadable: int
    totals: LetterTotals | UnsetType = UNSET


class LettersOfTopic(LetterTotals, frozen=True):
    """The dead letters in a topic: their original topics, and the times of the oldest and the newest."""

    topic: str
    sources: list[str]
    oldest: int | None
    newest: int | None


class AllDeadLetters(msgspec.Struct):
    """All dead-letter topics."""

    topics: list[LettersOfTopic]


class LettersPurge(msgspec.Struct, forbid_unknown_fields=True):
    """Options of a purge."""

    dry_run: Annotated[bool, Meta(description="Show the effect, and change nothing.")] = False


class PurgedLetters(msgspec.Struct):
    """The dead-letter topic, and how many offsets were deleted; in a dry run, how many would be."""

    topic: str
    purged: int


_Names = Annotated[list[Annotated[str, Meta(min_length=1, max_length=1_000)]], Meta(max_length=REASONS_MAX)]


class RedriveRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Which dead letters to republish, and how; without a filter, all current ones.

    `partition` and offsets are those of the original message; `since` and `until` refer to its death.
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
    rate: Annotated[float, Meta(gt=0, le=RATE_MAX, description="Maximum rate, per second.")] | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=OFFSET_MAX, description="Maximum number.")] | UnsetType = UNSET
    max_redrives: Annotated[
        int, Meta(ge=0, le=OFFSET_MAX, description="Skip messages that were republished this often.")
    ] = REDRIVES_MAX
    force: Annotated[bool, Meta(description="Ignore `max_redrives`.")] = False
    repeat: Annotated[bool, Meta(description="Include dead letters that were republished before.")] = False
    dry_run: Annotated[bool, Meta(description="Show the effect, and change nothing.")] = False


class RedriveMoves(msgspec.Struct, frozen=True):
    """Counts of dead letters: republished, failed permanently, or skipped.

    `skipped_redriven` were republished by an earlier redrive, `skipped_looping` too often.
    """

    moved: int
    skipped_redriven: int
    skipped_looping: int
    failed: int


class RedriveSelection(msgspec.Struct):
    """The filter of a redrive; omitted fields match all."""

    reasons: list[str]
    groups: list[str]
    key_base64: bytes | UnsetType = UNSET
    since: int | UnsetType = UNSET
    until: int | UnsetType = UNSET
    source: str | UnsetType = UNSET
    partition: int | UnsetType = UNSET
    first_offset: int | UnsetType = UNSET
    last_offset: int | UnsetType = UNSET


class Redrive(msgspec.Struct, frozen=True, kw_only=True):
    """A redrive: `progress` is the share of dead letters that were checked, 1 at the end; times are milliseconds.

    `reason` says why it ended. `trouble` is the error of the last attempt and `failures` the number of failed attempts
    in a row. `error` is why the last dead letter failed that cannot be published at all.
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

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen."""
        return self.state.is_end


class RedrivePreview(msgspec.Struct, frozen=True):
    """The effect of a redrive; if `cut`, not all dead letters were checked.

    `error` is why the last dead letter fails that cannot be published at all.
    """

    topic: str
    moves: RedriveMoves
    cut: bool
    error: str


class RedriveReply(msgspec.Struct):
    """The new redrive, or, in a dry run, its effect."""

    redrive: Redrive | UnsetType = UNSET
    preview: RedrivePreview | UnsetType = UNSET


class Redrives(msgspec.Struct):
    """Redrives, newest first."""

    redrives: list[Redrive]
