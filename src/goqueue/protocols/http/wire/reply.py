"""Encodes replies."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus

import msgspec

from goqueue.errors import GoQueueError
from goqueue.protocols.http.calls import Answer
from goqueue.protocols.http.wire.problems import MEDIA_TYPE, MethodNotAllowed, UnsupportedContentEncoding, problem_of
from goqueue.protocols.http.wire.requests import Header

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}
_encode = msgspec.json.Encoder().encode


def lines(headers: Sequence[Header]) -> bytes:
    """Encode headers."""
    return b"".join([b"%s: %s\r\n" % header for header in headers])


def reply(answer: Answer[object], common: bytes, *, is_last: bool, is_for_head: bool = False) -> tuple[bytes, bytes]:
    """Return head and body of a reply; `common` are the header lines of all replies."""
    body = b""
    head = _STATUS_LINES[answer.status] + common
    if answer.headers:
        head += lines(answer.headers)
    if answer.value is not None:
        body = answer.value if isinstance(answer.value, bytes) else _encode(answer.value)
        head += b"content-type: %s\r\ncontent-length: %d\r\n" % (answer.media_type.encode(), len(body))
    elif answer.status != HTTPStatus.NO_CONTENT:
        head += b"content-length: 0\r\n"
    head += b"connection: close\r\n\r\n" if is_last else b"\r\n"
    return head, b"" if is_for_head else body


def encoded(answer: Answer[object]) -> Answer[object]:
    """Return an answer with its value encoded."""
    if answer.value is None or isinstance(answer.value, bytes):
        return answer
    return Answer(_encode(answer.value), *answer[1:])


def refusal(error: GoQueueError, path: str = "", *, hint: str = "") -> Answer[object]:
    """Return the answer for an error, with its own hint or a better one."""
    problem = problem_of(error, path)
    problem.hint = hint or problem.hint
    headers = []
    if isinstance(error, MethodNotAllowed):
        headers.append((b"allow", ", ".join(error.allowed).encode()))
    elif isinstance(error, UnsupportedContentEncoding):
        headers.append((b"accept-encoding", b"identity"))
    return Answer(problem, problem.status, MEDIA_TYPE, headers)
