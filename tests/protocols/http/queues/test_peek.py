"""Peeking into a queue: it shows what the next receive brings, and leases nothing."""

from __future__ import annotations

import httpx
import pytest

from goqueue.broker.admission import INSIDE
from goqueue.broker.topics.admin import delete_records
from goqueue.errors import LogOffline
from goqueue.testing import Simulation, simulate
from tests.protocols.http.expect import publish
from tests.protocols.http.queue_kit import Consumer, alter, fill, values
from tests.protocols.http.raw import RawHttp, SimServer, serving


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


def test_peek_continues_after_messages_that_wait_for_their_key(http: httpx.Client, topic: str) -> None:
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


async def fill_simulated(server: SimServer, *told: str) -> RawHttp:
    """Publish messages to the second of two partitions, with a group that has not begun; return a client."""
    client = await server.client()
    await client.call("POST", "/topics", {"name": "t", "partitions": 2})
    await client.call("PATCH", "/queues/g", {})
    messages = [{"value": value, "partition": 1} for value in told]
    await client.call("POST", "/topics/t/messages", {"messages": messages})
    return client


def test_a_peek_passes_messages_that_are_gone() -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await fill_simulated(server, *"abcde")
            taken = (await client.call("POST", "/groups/g/receive", {"topic": "t"})).json()["messages"]
            receipts = [each["receipt_handle"] for each in taken]
            await client.call("POST", "/messages/nack", {"receipt_handles": receipts, "delay": 0})
            await delete_records(server.server.broker.topics, INSIDE, "t", 1, 3)
            assert values((await client.call("GET", "/queues/g/peek?topic=t&limit=2")).json()["messages"]) == ["d", "e"]
            received = await client.call("POST", "/groups/g/receive", {"topic": "t", "max": 2})
            assert values(received.json()["messages"]) == ["d", "e"]

    simulate(main, 1)


def test_a_partition_that_is_offline_keeps_no_other_from_being_shown() -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await fill_simulated(server, "a")
            partitions = server.server.broker.topics.topic("t").partitions
            known, partitions[0] = partitions[0], LogOffline("no disk")
            assert values((await client.call("GET", "/queues/g/peek?topic=t")).json()["messages"]) == ["a"]
            partitions[0] = known

    simulate(main, 1)


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_peek_into_recreated_topic_shows_no_former_messages(http: httpx.Client, topic: str, start: str) -> None:
    alter(http, topic, start=start)
    consumer = Consumer(http, topic, topic)
    consumer.receive()
    fill(http, topic, range(3), partition=0)
    consumer.ack(consumer.receive())
    http.delete(f"/topics/{topic}").raise_for_status()
    fill(http, topic, ["again"], partition=0)
    assert peek(http, topic) == (["again"] if start == "earliest" else [])
    assert values(consumer.receive()) == (["again"] if start == "earliest" else [])
