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

from goqueue.api.dead_letters import (
    AllDeadLetters,
    DeadLetters,
    LetterCause,
    LettersOfTopic,
    LetterTotals,
    PurgedLetters,
    Redrive,
    RedrivePreview,
    RedriveReply,
    Redrives,
)
from goqueue.client.calls import Call, Reply, reading, topic_path
from goqueue.client.messages import Message, as_message
from goqueue.client.problems import BadReply
from goqueue.model.redrives import REDRIVES_MAX


class DeadLetter(NamedTuple):
    """The message as it was, with the place and time of its letter, and the cause."""

    message: Message
    cause: LetterCause
    is_redriven: bool


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


_read_page = reading(DeadLetters)
_read_topics = reading(AllDeadLetters)
_read_purged = reading(PurgedLetters)
_read_reply = reading(RedriveReply)
_read_redrive = reading(Redrive)
_read_redrives = reading(Redrives)
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
        if found is msgspec.UNSET:
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
        if found is msgspec.UNSET:
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
    totals = None if page.totals is msgspec.UNSET else page.totals
    return LetterPage(page.topic, letters, page.cursor, page.cut, totals, page.unreadable)
