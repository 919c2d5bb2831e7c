"""Calls about dead letters: look at them, count them, delete them, and publish them again by redrives.

A topic is named by those whose messages have died, or is a topic of dead letters itself. A redrive is a job of the
broker: it goes on when whoever has begun it is gone.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple
from urllib.parse import quote

import msgspec

from goqueue.client.calls import Call, Reply, reading, topic_path
from goqueue.client.messages import Message, WireMessage, as_message
from goqueue.client.problems import BadReply

REDRIVES_MAX = 3
"""How often a message is published again, if nobody says otherwise."""


class Cause(msgspec.Struct, frozen=True):
    """Why a message died and where it was, as its letter says; `redrives` is how often it was published again."""

    reason: str
    error: str = ""
    attempts: int | None = None
    group: str = ""
    consumer: str = ""
    topic: str = ""
    partition: int | None = None
    offset: int | None = None
    timestamp: int | None = None
    first_delivery: int | None = None
    last_delivery: int | None = None
    redrives: int = 0


class DeadLetter(NamedTuple):
    """The message as it was, with the place and time of its letter, and the cause."""

    message: Message
    cause: Cause
    is_redriven: bool


class LetterTotals(msgspec.Struct, frozen=True):
    """How many letters there are; `by_reason` those that no redrive has published again. Not all, if `cut`.

    `unreadable` were passed over, since they cannot be read.
    """

    letters: int
    redriven: int
    by_reason: dict[str, int]
    cut: bool
    unreadable: int = 0


class LettersOfTopic(LetterTotals, frozen=True, kw_only=True):
    """The dead letters in a topic: of which topics, and when the oldest and the newest have come."""

    topic: str
    sources: list[str] = []
    oldest: int | None = None
    newest: int | None = None


class LetterPage(NamedTuple):
    """Dead letters, where they lie, the cursor for the next page, and whether the look has ended early.

    `unreadable` were passed over, since they cannot be read.
    """

    topic: str | None
    letters: list[DeadLetter]
    cursor: str | None
    is_cut: bool
    totals: LetterTotals | None
    unreadable: int = 0


class RedriveMoves(msgspec.Struct, frozen=True):
    """What became of letters: published again, skipped as published before or too often, or failed for good."""

    moved: int = 0
    skipped_redriven: int = 0
    skipped_looping: int = 0
    failed: int = 0


class Redrive(msgspec.Struct, frozen=True, kw_only=True):
    """A redrive as it is; `trouble` is what keeps it from going on now, `reason` why it has ended."""

    id: str
    topic: str
    state: str
    progress: float
    moves: RedriveMoves
    started: int
    target: str | None = None
    rate: float | None = None
    limit: int | None = None
    reason: str = ""
    error: str = ""
    trouble: str = ""
    failures: int = 0
    ended: int | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen."""
        return self.state in {"done", "cancelled", "failed"}


class RedrivePreview(msgspec.Struct, frozen=True):
    """What a redrive would do; of the letters that were looked at, if `cut`.

    `error` is why the last letter of those fails that never can be published.
    """

    topic: str
    moves: RedriveMoves
    cut: bool
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Letters:
    """Which letters are meant; what is left out does not matter.

    Times are milliseconds since 1970 or ISO 8601, and about when a message died; partition and offsets (the last
    included) are those that it had in the topic `source`.
    """

    reasons: Sequence[str] = ()
    groups: Sequence[str] = ()
    key: bytes | str | None = None
    since: int | str | None = None
    until: int | str | None = None
    source: str | None = None
    partition: int | None = None
    first_offset: int | None = None
    last_offset: int | None = None

    def as_json(self) -> dict[str, object]:
        """Return what is said, as the HTTP interface takes it."""
        said: dict[str, object] = {
            "since": self.since,
            "until": self.until,
            "source": self.source,
            "partition": self.partition,
            "first_offset": self.first_offset,
            "last_offset": self.last_offset,
            "reasons": list(self.reasons) or None,
            "groups": list(self.groups) or None,
        }
        said |= _key(self.key)
        return {name: value for name, value in said.items() if value is not None}


class _Letter(WireMessage, kw_only=True):
    cause: Cause
    redriven: bool


class _Page(msgspec.Struct):
    topic: str | None
    letters: list[_Letter]
    cursor: str | None
    cut: bool
    unreadable: int = 0
    totals: LetterTotals | None = None


class _Topics(msgspec.Struct):
    topics: list[LettersOfTopic]


class _Purged(msgspec.Struct):
    purged: int


class _Reply(msgspec.Struct):
    redrive: Redrive | None = None
    preview: RedrivePreview | None = None


class _Redrives(msgspec.Struct):
    redrives: list[Redrive]


_read_page = reading(_Page)
_read_topics = reading(_Topics)
_read_purged = reading(_Purged)
_read_reply = reading(_Reply)
_read_redrive = reading(Redrive)
_read_redrives = reading(_Redrives)
_encode = msgspec.json.Encoder().encode


def list_all() -> Call[list[LettersOfTopic]]:
    """Return all topics for dead letters, with what is in them."""
    return Call("GET", "/v1/dlq", lambda reply: _read_topics(reply).topics)


def browse(
    topic: str,
    *,
    order: Literal["newest", "oldest"] = "newest",
    limit: int = 100,
    cursor: str | None = None,
    reason: str | None = None,
    group: str | None = None,
    key: bytes | str | None = None,
    since: int | str | None = None,
    until: int | str | None = None,
    source: str | None = None,
    partition: int | None = None,
    first_offset: int | None = None,
    last_offset: int | None = None,
    redriven: bool = False,
    totals: bool = False,
) -> Call[LetterPage]:
    """Return a page of dead letters; with a cursor, the one behind the page that had it.

    Letters that a redrive has published again are left out, unless `redriven`.
    """
    said = {
        "order": order,
        "limit": limit,
        "cursor": cursor,
        "reason": reason,
        "group": group,
        **_key(key),
        "since": since,
        "until": until,
        "source": source,
        "partition": partition,
        "first_offset": first_offset,
        "last_offset": last_offset,
        "redriven": "true" if redriven else None,
        "totals": "true" if totals else None,
    }
    query = {name: str(value) for name, value in said.items() if value is not None}
    return Call("GET", topic_path(topic, "dlq"), _as_page, query=query)


def purge(topic: str, *, dry_run: bool = False) -> Call[int]:
    """Delete all dead letters of a topic; return how many offsets they had. RedriveRunning if one is under way.

    Conflict if there are messages beside them that do not say why they died. With `dry_run` nothing is deleted.
    """
    path, body = topic_path(topic, "dlq", "purge"), _encode({"dry_run": True} if dry_run else {})
    return Call("POST", path, lambda reply: _read_purged(reply).purged, body=body, is_repeatable=dry_run)


def redrive(
    topic: str,
    letters: Letters | None = None,
    *,
    target: str | None = None,
    rate: float | None = None,
    limit: int | None = None,
    max_redrives: int = REDRIVES_MAX,
    force: bool = False,
    repeat: bool = False,
) -> Call[Redrive]:
    """Begin to publish dead letters again that are there now; RedriveRunning if that is under way already.

    Each goes to the topic and partition that it came from, or to the target. Messages that were published again
    `max_redrives` times are skipped, unless `force`, and letters of earlier redrives, unless `repeat`.
    """
    said = _terms(target, rate, limit, max_redrives, force=force, repeat=repeat)

    def read(reply: Reply) -> Redrive:
        found = _read_reply(reply).redrive
        if found is None:
            raise BadReply("the reply has no redrive")
        return found

    return Call("POST", topic_path(topic, "dlq", "redrive"), read, body=_body(letters, said))


def preview(
    topic: str,
    letters: Letters | None = None,
    *,
    target: str | None = None,
    limit: int | None = None,
    max_redrives: int = REDRIVES_MAX,
    force: bool = False,
    repeat: bool = False,
) -> Call[RedrivePreview]:
    """Return what a redrive would do, and do nothing."""
    said = _terms(target, None, limit, max_redrives, force=force, repeat=repeat) | {"dry_run": True}

    def read(reply: Reply) -> RedrivePreview:
        found = _read_reply(reply).preview
        if found is None:
            raise BadReply("the reply has no preview")
        return found

    body = _body(letters, said)
    return Call("POST", topic_path(topic, "dlq", "redrive"), read, body=body, is_repeatable=True)


def list_redrives() -> Call[list[Redrive]]:
    """Return the redrives that are remembered, the one that began last first."""
    return Call("GET", "/v1/dlq/redrives", lambda reply: _read_redrives(reply).redrives)


def find_redrive(redrive_id: str) -> Call[Redrive]:
    """Return how a redrive is; UnknownRedrive if there is none."""
    return Call("GET", f"/v1/dlq/redrives/{quote(redrive_id, safe='')}", _read_redrive)


def cancel_redrive(redrive_id: str) -> Call[Redrive]:
    """Have a redrive end; what it has published stays. Harmless if it has ended."""
    return Call("DELETE", f"/v1/dlq/redrives/{quote(redrive_id, safe='')}", _read_redrive, is_repeatable=True)


def _terms(
    target: str | None, rate: float | None, limit: int | None, max_redrives: int, *, force: bool, repeat: bool
) -> dict[str, object]:
    said: dict[str, object] = {"target": target, "rate": rate, "limit": limit}
    said = {name: value for name, value in said.items() if value is not None}
    return said | {"max_redrives": max_redrives, "force": force, "repeat": repeat}


def _key(key: bytes | str | None) -> dict[str, str | None]:
    return {"key_base64": b64encode(key).decode()} if isinstance(key, bytes) else {"key": key}


def _body(letters: Letters | None, said: dict[str, object]) -> bytes:
    return _encode((letters or Letters()).as_json() | said)


def _as_page(reply: Reply) -> LetterPage:
    page = _read_page(reply)
    letters = [DeadLetter(as_message(each), each.cause, each.redriven) for each in page.letters]
    return LetterPage(page.topic, letters, page.cursor, page.cut, page.totals, page.unreadable)
