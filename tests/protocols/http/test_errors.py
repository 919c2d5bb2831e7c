"""Errors by HTTP: problem documents without internal details."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import PurePath
from typing import Any

import httpx
import msgspec
import pytest

from goqueue.broker.admission import INSIDE
from goqueue.broker.broker import Broker
from goqueue.broker.messages.publish import PartitionTurns
from goqueue.broker.messages.reading import Polls
from goqueue.errors import GoQueueError
from goqueue.model.broker_options import BrokerOptions
from goqueue.protocols.faults import TABLE, fault_of
from goqueue.protocols.http.calls import Answer, Context, Health, Services
from goqueue.protocols.http.route import Route
from goqueue.protocols.http.routes import ROUTES, errors_of
from goqueue.protocols.http.wire.endpoint import Endpoint, HttpRequestFailed
from goqueue.protocols.http.wire.requests import Request
from goqueue.testing import ManualClock, RecordingSink, SeededEntropy, SimDisk
from tests.protocols.http.expect import PROBLEM, refused

JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    ("method", "path", "given", "hint"),
    [
        ("PATCH", "/queues/g", {"ordering": "fifo"}, "it has to be none or key"),
        ("POST", "/queues/g/seek", {"topic": "t", "to": "start"}, "it has to be earliest or latest"),
        ("POST", "/topics/t/messages", {"messages": [{}], "acks": "1"}, "it has to be all, leader or none"),
        ("GET", "/topics/t/dlq", {"order": "up` - at `$.x`"}, "it has to be newest or oldest"),
        ("GET", "/transactions", {"state": "on"}, "it has to be Empty, Ongoing, PrepareCommit, PrepareAbort, "),
        ("GET", "/topics/t/partitions/0/messages", {"isolation": ""}, "it has to be read_committed or read_uncommi"),
    ],
)
def test_invalid_word_is_answered_with_the_valid_ones(
    http: httpx.Client, method: str, path: str, given: dict[str, Any], hint: str
) -> None:
    reply = http.get(path, params=given) if method == "GET" else http.request(method, path, json=given)
    problem = refused(reply, 400, "malformed_request")
    assert "Invalid enum value" in problem["detail"]
    assert problem["hint"].startswith(hint)


@pytest.mark.parametrize("path", ["/nope", "/topics/", "/topics/t/nope", "/v1", "/v1/v1/topics", "/topics//", "/é"])
def test_a_path_where_nothing_is_offered(http: httpx.Client, path: str) -> None:
    reply = http.get(path)
    assert (reply.status_code, reply.json()["code"]) == (404, "unknown_path")
    assert reply.headers["content-type"] == PROBLEM


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/topics", {"POST", "GET", "HEAD"}),
        ("PUT", "/topics/t", {"GET", "HEAD", "PATCH", "DELETE"}),
        ("POST", "/livez", {"GET", "HEAD"}),
        ("GET", "/topics/t/messages", {"POST"}),
        ("OPTIONS", "/v1/topics", {"POST", "GET", "HEAD"}),
        ("TRACE", "/topics", {"POST", "GET", "HEAD"}),
    ],
)
def test_a_method_that_a_path_does_not_take(http: httpx.Client, method: str, path: str, allowed: set[str]) -> None:
    reply = http.request(method, path)
    refused(reply, 405, "method_not_allowed")
    assert set(reply.headers["allow"].split(", ")) == allowed


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "application/json; charset=latin-1"},
        {"content-type": "application/jsonx"},
    ],
)
def test_a_body_must_say_that_it_is_json(http: httpx.Client, headers: dict[str, str]) -> None:
    """Media types that a web page can send without a preflight request are refused."""
    refused(http.post("/topics", content=b'{"name": "t"}', headers=headers), 415, "unsupported_media_type")
    refused(http.get("/topics/t"), 404, "unknown_topic")


@pytest.mark.parametrize("media_type", ["application/json", "Application/JSON", 'application/json; charset="UTF-8"'])
def test_json_may_be_written_in_several_ways(http: httpx.Client, media_type: str) -> None:
    reply = http.post("/topics", content=b"{}", headers={"content-type": media_type})
    refused(reply, 400, "malformed_request")


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"", "truncated"),
        (b"{", "truncated"),
        (b"nonsense", "malformed"),
        (b'{"name": "t"} {}', "trailing"),
        (b"\xef\xbb\xbf{}", "byte 0"),
        (b'{"name": "\xff"}', "utf-8"),
        (b'{"name": "\\ud800"}', "JSON"),
        (b'{"name": "t", "config": ' + b'{"a":' * 100_000, "$.config"),
        (b'{"name": "t", "partitions": 1e999}', "$.partitions"),
        (b'{"name": "t", "partitions": ' + b"9" * 5000 + b"}", ""),
    ],
)
def test_a_body_that_is_no_json_is_refused(http: httpx.Client, body: bytes, told: str) -> None:
    problem = refused(http.post("/topics", content=body, headers=JSON), 400, "malformed_request")
    assert told.lower() in problem["detail"].lower()
    assert len(problem["detail"]) < 500


def test_a_body_without_end_of_nesting_is_refused(http: httpx.Client, topic: str) -> None:
    body = b'{"messages": [{"value": ' + b"[" * 100_000
    problem = refused(http.post(f"/topics/{topic}/messages", content=body, headers=JSON), 400, "malformed_request")
    assert "nested" in problem["detail"]


def test_a_query_is_refused_where_none_is_taken(http: httpx.Client) -> None:
    problem = refused(http.get("/topics?limit=5"), 400, "malformed_request")
    assert "limit" in problem["detail"]


# -- unexpected errors


def services(sink: RecordingSink) -> Services:
    """Return what endpoints need, with a broker that was never started."""

    async def health() -> Health:
        raise AssertionError("not requested")

    async def metrics(accept: str) -> tuple[bytes, str]:
        raise AssertionError("not requested")

    broker = Broker(
        SimDisk(seed=1), PurePath("data"), BrokerOptions(), clock=ManualClock(), entropy=SeededEntropy(1), sink=sink
    )
    return Services(broker, health, metrics, Polls(), PartitionTurns())


def test_unexpected_error_is_reported_and_answered_without_details() -> None:
    sink = RecordingSink()

    async def broken(context: Context) -> None:
        raise ZeroDivisionError("the secret inside")

    async def main() -> Answer[object]:
        route = Route(name="test.broken", method="GET", path="/broken", summary="", handle=broken)
        endpoint = Endpoint([route], services(sink))
        request = Request("GET", "/broken", b"/broken", b"", [], b"", is_last=False)
        return await endpoint.answer(INSIDE, request, "", {})

    answer = asyncio.run(main())
    assert answer.status == 500
    assert answer.media_type == PROBLEM
    assert b'"code":"internal_error"' in (told := msgspec.json.encode(answer.value))
    assert b"secret" not in told
    (event,) = sink.of(HttpRequestFailed)
    assert event.request == "GET /broken"
    assert "the secret inside" in event.error


# -- the table


def tree(kind: type[GoQueueError]) -> Iterator[type[GoQueueError]]:
    """Yield a class of errors and all below it."""
    yield kind
    for below in kind.__subclasses__():
        yield from tree(below)


def test_every_error_has_a_status_that_exists() -> None:
    for kind in tree(GoQueueError):
        if kind.__module__.startswith("goqueue.") and kind is not GoQueueError:
            error = kind.__new__(kind)
            HTTPStatus(fault_of(error).http)


def test_every_error_of_a_route_is_in_the_table() -> None:
    for route in ROUTES:
        for error in errors_of(route):
            assert error.code in TABLE, f"{route.name}: {error.code}"
