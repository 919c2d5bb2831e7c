"""Errors that a broker tells over HTTP are the same errors again in the client."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from goqueue import errors
from goqueue.client.problems import Problem, error_of, error_of_reply, is_from_broker
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
from goqueue.protocols.faults import fault_of


def tree(kind: type[GoQueueError]) -> Iterator[type[GoQueueError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from tree(below)


PLAIN = [
    kind
    for kind in tree(GoQueueError)
    if kind.__module__.startswith(errors.__name__) and kind.__init__ is GoQueueError.__init__
]


@pytest.mark.parametrize("kind", PLAIN, ids=lambda kind: kind.__name__)
def test_an_error_of_the_tree_comes_back_as_itself(kind: type[GoQueueError]) -> None:
    told = kind("it happened", hint="do something")
    problem = Problem(status=fault_of(told).http, code=told.code, detail=told.message, hint=told.hint)
    again = error_of(problem)
    assert type(again) is kind
    assert (again.message, again.hint, str(again)) == (told.message, told.hint, str(told))


def test_an_offset_out_of_range_has_its_range_again() -> None:
    told = OffsetOutOfRange(90, start=10, end=50)
    problem = Problem(416, detail=told.message, code=told.code, offset=90, start_offset=10, end_offset=50)
    again = error_of(problem)
    assert isinstance(again, OffsetOutOfRange)
    assert (again.offset, again.start, again.end, str(again)) == (90, 10, 50, str(told))


def test_an_error_that_needs_more_than_a_problem_tells_becomes_the_kind_above_it() -> None:
    assert type(error_of(Problem(500, code="corrupt_log", detail="damaged"))) is Corrupt
    assert type(error_of(Problem(416, code="offset_out_of_range", detail="no range"))) is Invalid


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, Invalid),
        (415, Invalid),
        (404, NotFound),
        (409, Conflict),
        (413, TooLarge),
        (429, Throttled),
        (503, Unavailable),
        (502, Unavailable),
        (500, GoQueueError),
    ],
)
def test_an_unknown_code_becomes_the_kind_of_its_status_and_stays_visible(
    status: int, kind: type[GoQueueError]
) -> None:
    error = error_of(Problem(status, code="brand_new", detail="it happened", hint="upgrade"))
    assert type(error) is kind
    assert str(error) == "brand_new: it happened (upgrade)"


def test_a_reply_without_a_problem_document_is_told_by_status_and_text() -> None:
    error = error_of_reply(502, b"<html>\n<h1>Bad   Gateway</h1>\n")
    assert isinstance(error, Unavailable)
    assert str(error) == "the reply has status 502: <html> <h1>Bad Gateway</h1>"
    assert str(error_of_reply(500, b"")) == "the broker answered with status 500"
    assert len(str(error_of_reply(500, b"x" * 100_000))) < 400


def test_a_document_of_another_shape_does_not_confuse() -> None:
    for body in (b"[]", b'{"detail": {"x": 1}}', b'{"status": "bad"}', b"\xff\xfe"):
        assert isinstance(error_of_reply(400, body), Invalid)


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b'{"error": "conflict"}', b'{"title": "Forbidden", "status": 403}']
)
def test_what_somebody_else_says_is_told_apart_from_what_a_broker_says(body: bytes) -> None:
    assert not is_from_broker(error_of_reply(403, body))
    assert is_from_broker(error_of_reply(403, b'{"status": 403, "code": "brand_new"}'))


def test_fields_that_are_not_known_are_left_out() -> None:
    body = msgspec.json.encode({"type": "/docs#x", "status": 404, "code": "unknown_topic", "trace": ["x"]})
    assert error_of_reply(404, body).code == "unknown_topic"
