"""Problem documents (RFC 9457), and the errors that only HTTP has.

The status comes from the one table of errors. `code` is stable and meant for programs; `type` links to its
explanation.
"""

from __future__ import annotations

from collections.abc import Sequence

from goqueue.api.problems import MessageError, Problem
from goqueue.errors import GoQueueError, Invalid, NotFound, OffsetOutOfRange, TooLarge
from goqueue.protocols.faults import UNEXPECTED, fault_of

MEDIA_TYPE = "application/problem+json"
INTERNAL_ERROR = "internal_error"


class UnknownPath(NotFound):
    """Nothing is offered at this path."""

    code = "unknown_path"


class MethodNotAllowed(Invalid):
    """The path exists, but not with this method."""

    code = "method_not_allowed"

    def __init__(self, method: str, allowed: Sequence[str]) -> None:
        super().__init__(f"{method} is not allowed on this path", hint=f"use {', '.join(allowed)}")
        self.allowed = allowed


class UnsupportedMediaType(Invalid):
    """The body is not JSON, or does not say so."""

    code = "unsupported_media_type"


class UnsupportedContentEncoding(Invalid):
    """The body is compressed, or encoded in another way that the broker does not read."""

    code = "unsupported_content_encoding"


class BodyTooLarge(TooLarge):
    """The body of the request is larger than the broker takes."""

    code = "body_too_large"


class HeadTooLarge(Invalid):
    """The address and headers of the request are larger than the broker takes."""

    code = "head_too_large"


class RequestTimeout(Invalid):
    """The request did not arrive in time."""

    code = "request_timeout"


def problem_of(error: GoQueueError, instance: str) -> Problem:
    """Return the problem document of an error; `instance` is the path of the request."""
    problem = Problem(
        type=f"/docs#{error.code}",
        title=title_of(error.code),
        status=fault_of(error).http,
        detail=error.message,
        code=error.code,
        hint=error.hint,
        instance=instance,
    )
    if isinstance(error, OffsetOutOfRange):
        problem.offset, problem.start_offset, problem.end_offset = error.offset, error.start, error.end
    return problem


def unexpected_problem(instance: str) -> Problem:
    """Return the problem document of an unexpected error, without its details."""
    return Problem(
        type=f"/docs#{INTERNAL_ERROR}",
        title=title_of(INTERNAL_ERROR),
        status=UNEXPECTED.http,
        detail="the broker met an unexpected error and has logged it",
        code=INTERNAL_ERROR,
        instance=instance,
    )


def error_of(error: GoQueueError) -> MessageError:
    """Return an error as part of a reply."""
    told = MessageError(code=error.code, message=error.message, status=fault_of(error).http, hint=error.hint)
    if isinstance(error, OffsetOutOfRange):
        told.offset, told.start_offset, told.end_offset = error.offset, error.start, error.end
    return told


def title_of(code: str) -> str:
    """Return a code as words."""
    return code.replace("_", " ").capitalize()
