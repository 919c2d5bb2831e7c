"""From problem documents back to errors: what the broker raised there is raised here.

An error is found by its `code`. A code that this version does not know becomes the kind that fits the status, with
the code in its message. Two things can go wrong on the way only: nobody answers, or somebody who is no broker. What a
proxy says by a status of failure becomes the kind that fits the status as well, caused by a `BadReply`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from goqueue.errors import (
    Conflict,
    Corrupt,
    GoQueueError,
    Invalid,
    NotFound,
    OffsetOutOfRange,
    Throttled,
    TooLarge,
    Unavailable,
)

_TEXT_MAX = 300

_KIND_BY_STATUS: Mapping[int, type[GoQueueError]] = {
    404: NotFound,
    409: Conflict,
    412: Conflict,
    413: TooLarge,
    429: Throttled,
}


class ServerUnreachable(Unavailable):
    """Nobody answers at the address; nothing of the request has arrived there, unless `is_sent`."""

    code = "unreachable"

    def __init__(self, message: str, *, hint: str = "", is_sent: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.is_sent = is_sent


class RequestTimedOut(Unavailable):
    """No reply came in time; whether the request was carried out is not known."""

    code = "request_timed_out"


class BadReply(Corrupt):
    """What answers is no GoQueue broker, or one of a version that is too different."""

    code = "bad_reply"


class Problem(msgspec.Struct, frozen=True):
    """A problem document (RFC 9457), or the error of one message in a batch; the range is that of a log."""

    status: int = 0
    title: str = ""
    detail: str = ""
    message: str = ""
    code: str = ""
    hint: str = ""
    offset: int | None = None
    start_offset: int | None = None
    end_offset: int | None = None


def error_of(problem: Problem) -> GoQueueError:
    """Return the error that a problem tells of."""
    text = problem.detail or problem.message or problem.title or f"the broker answered with status {problem.status}"
    kind = _BY_CODE.get(problem.code)
    if kind is OffsetOutOfRange and problem.start_offset is not None and problem.end_offset is not None:
        offset = -1 if problem.offset is None else problem.offset
        return OffsetOutOfRange(offset, start=problem.start_offset, end=problem.end_offset)
    if kind is None:
        kind = _by_status(problem.status)
        text = f"{problem.code}: {text}" if problem.code else text
    return _plain(kind)(text, hint=problem.hint)


def error_of_reply(status: int, body: bytes) -> GoQueueError:
    """Return the error that a reply with a status of failure tells of, whether a broker wrote it or a proxy."""
    try:
        problem = msgspec.json.decode(body, type=Problem)
    except msgspec.DecodeError:
        text = " ".join(body[:_TEXT_MAX].decode("utf-8", "replace").split())
        problem = Problem(detail=f"the reply has status {status}: {text}" if text else "")
    error = error_of(problem if problem.status else msgspec.structs.replace(problem, status=status))
    if not problem.code:
        error.__cause__ = BadReply(f"a reply with status {status} is no problem document of a broker")
    return error


def is_from_broker(error: GoQueueError) -> bool:
    """Return whether a broker has said so, and not somebody in between, such as a proxy."""
    return not isinstance(error.__cause__, BadReply)


def _plain(kind: type[GoQueueError]) -> type[GoQueueError]:
    """Return the kind itself, or the nearest one above it that needs no more than a message and a hint."""
    while kind.__init__ is not GoQueueError.__init__:
        kind = kind.__mro__[1]
    return kind


def _by_status(status: int) -> type[GoQueueError]:
    if status in _KIND_BY_STATUS:
        return _KIND_BY_STATUS[status]
    if 400 <= status < 500:
        return Invalid
    return Unavailable if status in {502, 503, 504, 507} else GoQueueError


def _tree(kind: type[GoQueueError]) -> Iterator[type[GoQueueError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _tree(below)


# Of the one tree only: what a program that holds a broker as well has added to it is nobody else's.
_BY_CODE = {kind.code: kind for kind in _tree(GoQueueError) if kind.__module__.startswith("goqueue.errors")}
