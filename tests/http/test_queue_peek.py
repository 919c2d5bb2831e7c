"""Peeking into a queue: it shows what the next receive brings, and leases nothing."""

from __future__ import annotations

import httpx
import pytest

from tests.http.expect import publish
from tests.http.queue_kit import Consumer, fill, values
from tests.http.test_queue_admin import alter


def peek(http: httpx.Client, topic: str, limit: int = 100) -> list[str]:
    """Return what the messages say that come next for the group that is called as the topic is."""
    reply = http.get(f"/queues/{topic}/peek", params={"topic": topic, "limit": limit})
    assert reply.status_code == 200, reply.text
    return values(reply.json()["messages"])


def publish_keyed(http: httpx.Client, topic: str, *told: str) -> None:
    """Publish messages to one partition whose keys are their first letters."""
    publish(http, topic, *({"value": value, "key": value[0], "partition": 0} for value in told))


def test_a_peek_leases_nothing(http: httpx.Client, topic: str) -> None:
    fill(http, topic, range(3))
    consumer = Consumer(http, topic, topic)
    (first,) = consumer.receive(1)
    consumer.settle("nack", [first], delay=0)
    assert peek(http, topic, 2) == ["0", "1"]
    assert values(consumer.receive()) == ["0", "1", "2"]


def test_a_peek_shows_no_message_that_waits_for_another_one_of_its_key(http: httpx.Client, topic: str) -> None:
    alter(http, topic, ordering="key")
    publish_keyed(http, topic, "a0", "a1", "b0", "b1")
    consumer = Consumer(http, topic, topic)
    assert values(consumer.receive(1)) == ["a0"]
    assert peek(http, topic) == ["b0"]
    assert values(consumer.receive()) == ["b0"]


def test_a_peek_goes_on_behind_messages_that_wait_for_others_of_their_key(http: httpx.Client, topic: str) -> None:
    alter(http, topic, ordering="key")
    publish_keyed(http, topic, *(f"a{number}" for number in range(26)), "b0", "b1", "c0")
    consumer = Consumer(http, topic, topic)
    assert values(consumer.receive(1)) == ["a0"]
    assert peek(http, topic, 5) == ["b0", "c0"]
    assert peek(http, topic, 1) == ["b0"], "it has changed nothing"
    assert values(consumer.receive(5)) == ["b0", "c0"]


def test_a_peek_begins_where_the_group_would(http: httpx.Client, topic: str) -> None:
    alter(http, topic, start="latest")
    fill(http, topic, ["old"])
    assert peek(http, topic) == []
    consumer = Consumer(http, topic, topic)
    assert consumer.receive() == []
    fill(http, topic, ["new"])
    assert peek(http, topic) == ["new"]
    assert values(consumer.receive()) == ["new"]


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_a_peek_into_a_topic_that_was_made_anew_knows_nothing_of_the_former_one(
    http: httpx.Client, topic: str, start: str
) -> None:
    alter(http, topic, start=start)
    consumer = Consumer(http, topic, topic)
    consumer.receive()
    fill(http, topic, range(3), partition=0)
    consumer.ack(consumer.receive())
    http.delete(f"/topics/{topic}").raise_for_status()
    fill(http, topic, ["again"], partition=0)
    assert peek(http, topic) == (["again"] if start == "earliest" else [])
    assert values(consumer.receive()) == (["again"] if start == "earliest" else [])
