"""The progress of a stream reaches its group, and never stands in its way."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

import pytest

from goqueue.client import Client, groups, topics
from goqueue.errors import NotFound
from goqueue.spark.broker import http_address
from goqueue.spark.source.positions import StreamPositions, TopicPosition
from goqueue.spark.source.stream import Progress
from goqueue.testing.broker import Broker, MovableClock

NOBODY = "http://127.0.0.1:1"


def at(offset: int) -> StreamPositions:
    return StreamPositions({"orders": TopicPosition(UUID(int=1), {0: offset})})


def no_settings() -> Mapping[str, str | None]:
    return {}


def test_a_position_becomes_the_offset_of_the_group() -> None:
    with Broker() as broker, Client(broker.http) as client:
        client.send(topics.create("orders", partitions=1))
        Progress("reports", broker.http, no_settings).report(at(0))

        (offset,) = client.send(groups.offsets("reports")).offsets

    assert (offset.topic, offset.partition, offset.offset) == ("orders", 0, 0)


def test_what_fails_is_logged_once_and_tried_again_later(caplog: pytest.LogCaptureFixture) -> None:
    clock = MovableClock()
    asked: list[int] = []

    def settings() -> Mapping[str, str | None]:
        asked.append(1)
        return {}

    progress = Progress("reports", None, settings, clock)
    progress.report(at(1))
    progress.report(at(2))
    assert len(asked) == 1
    clock.advance(31)
    progress.report(at(2))

    assert len(asked) == 2
    (told,) = caplog.messages
    assert "group 'reports' cannot be committed, the query continues" in told
    assert "goqueue.http.url" in told


def test_an_address_that_the_broker_told_is_asked_for_again_after_a_failure() -> None:
    clock = MovableClock()
    with Broker() as broker, Client(broker.http) as client:
        client.send(topics.create("orders", partitions=1))
        told = iter(["HTTP://127.0.0.1:1", broker.http])
        progress = Progress("reports", None, lambda: {"listeners": next(told)}, clock)
        progress.report(at(0))
        clock.advance(31)
        progress.report(at(0))

        (offset,) = client.send(groups.offsets("reports")).offsets

    assert offset.offset == 0


def test_an_address_where_nobody_is_fails_nothing(caplog: pytest.LogCaptureFixture) -> None:
    Progress("reports", NOBODY, no_settings).report(at(1))
    assert len(caplog.messages) == 1


def test_the_http_address_is_among_the_listeners_of_a_broker() -> None:
    listeners = "PLAINTEXT://10.0.0.1:9092,HTTP://10.0.0.1:8080"

    assert http_address({"advertised.listeners": listeners}) == "http://10.0.0.1:8080"
    assert http_address({"listeners": "HTTP://h:1"}) == "http://h:1"
    with pytest.raises(NotFound, match="does not tell its HTTP address"):
        http_address({"listeners": "PLAINTEXT://h:1", "advertised.listeners": None})
