"""Transactions by HTTP, as operators meet them: list, describe, count, and abort over the producer's head."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import httpx
import pytest

from goqueue.testing import Broker
from tests.protocols.http.expect import publish, read, refused, values
from tests.protocols.http.transaction_kit import Producer


@pytest.fixture
def producer(http: httpx.Client, new_name: Callable[[], str]) -> Producer:
    return Producer(http, new_name())


def listed(http: httpx.Client, **query: Any) -> dict[str, Any]:
    """Return what is listed, by id."""
    reply = http.get("/transactions", params=query)
    assert reply.status_code == 200, reply.text
    return {each["transactional_id"]: each for each in reply.json()["transactions"]}


def test_a_transaction_is_described_with_all_that_belongs_to_it(
    http: httpx.Client, producer: Producer, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(3)
    empty = http.get(f"/transactions/{producer.id}").json()
    assert (empty["state"], empty["started_at"], empty["partitions"], empty["groups"]) == ("Empty", None, [], [])
    producer.publish(topic, {"value": "a", "partition": 2}, {"value": "b", "partition": 0})
    producer.send("add-offsets", group="g", offsets=[{"topic": topic, "partition": 1, "offset": 1}])
    found = http.get(f"/transactions/{producer.id}").json()
    assert {name: found[name] for name in producer.identity} == producer.identity
    assert (found["state"], found["timeout_ms"]) == ("Ongoing", 60_000)
    assert 0 < found["time_left_ms"] <= 60_000
    assert found["partitions"] == [{"topic": topic, "partition": 0}, {"topic": topic, "partition": 2}]
    assert found["groups"] == ["g"]
    assert datetime.fromisoformat(found["started_at"]) <= datetime.fromisoformat(found["updated_at"])
    row = listed(http)[producer.id]
    assert row == {**found, "time_left_ms": row["time_left_ms"]}
    producer.end("commit")
    ended = http.get(f"/transactions/{producer.id}").json()
    assert (ended["state"], ended["epoch"], ended["partitions"]) == ("CompleteCommit", producer.epoch, [])
    assert (ended["started_at"], ended["time_left_ms"]) == (None, None)


def test_the_list_is_filtered_by_state_and_by_producer(
    http: httpx.Client, producer: Producer, new_name: Callable[[], str], topic: str
) -> None:
    other = Producer(http, new_name())
    producer.publish(topic, "x")
    assert list(listed(http)) == sorted(listed(http))
    assert producer.id in listed(http, state="Ongoing")
    assert other.id not in listed(http, state="Ongoing")
    assert list(listed(http, producer_id=other.producer_id)) == [other.id]
    assert listed(http, producer_id=other.producer_id, state="Ongoing") == {}
    refused(http.get("/transactions", params={"state": "Sleeping"}), 400, "malformed_request")
    producer.end("abort")


@pytest.mark.parametrize("odd", ["a b", "ä/ö?", "%2F", "stats/", "..", "a+b&c=d"])
def test_an_id_may_be_anything(http: httpx.Client, topic: str, odd: str) -> None:
    producer = Producer(http, odd)
    path = "/transactions/" + "".join(f"%{byte:02X}" for byte in odd.encode())
    producer.publish(topic, "x")
    assert http.get(path).json()["transactional_id"] == odd
    reply = http.post(f"{path}/abort", json={})
    assert (reply.status_code, reply.json()["transactional_id"]) == (200, odd)
    refused(producer.send("commit"), 409, "transaction_fenced")


def test_an_operator_can_abort_what_hangs(http: httpx.Client, producer: Producer, topic: str) -> None:
    producer.publish(topic, "hanging")
    publish(http, topic, {"value": "behind it"})
    assert read(http, topic)["messages"] == []
    reply = http.post(f"/transactions/{producer.id}/abort", json={})
    assert (reply.status_code, reply.json()["state"]) == (200, "CompleteAbort")
    assert values(read(http, topic)) == ["behind it"]
    refused(producer.send("commit"), 409, "transaction_fenced")
    # Once more is harmless, and there is nothing to be aborted without a transaction.
    assert http.post(f"/transactions/{producer.id}/abort", json={}).status_code == 200
    second = Producer(http, producer.id)
    refused(http.post(f"/transactions/{second.id}/abort", json={}), 409, "invalid_transaction_state")


def test_description_of_unused_transactional_id_is_refused(http: httpx.Client) -> None:
    refused(http.get("/transactions/nobody"), 404, "unknown_transaction")
    refused(http.post("/transactions/nobody/abort", json={}), 404, "unknown_transaction")


def test_before_the_first_transaction_there_is_nothing_to_see() -> None:
    with Broker() as broker, httpx.Client(base_url=broker.http, timeout=30) as http:
        assert listed(http) == {}
        assert http.get("/transactions/stats").json() == {
            "states": {
                "Empty": 0,
                "Ongoing": 0,
                "PrepareCommit": 0,
                "PrepareAbort": 0,
                "CompleteCommit": 0,
                "CompleteAbort": 0,
            },
            "oldest_open": None,
            "committed": 0,
            "aborted": {"abort": 0, "init": 0, "timeout": 0, "operator": 0},
        }
        refused(http.get("/transactions/x"), 404, "unknown_transaction")
        # Looking makes no topic.
        assert http.get("/topics").json()["topics"] == []


def test_the_stats_count_how_transactions_ended_and_name_the_oldest() -> None:
    with Broker() as broker, httpx.Client(base_url=broker.http, timeout=30) as http:

        def ended_by(end: Callable[[Producer], object], name: str) -> None:
            producer = Producer(http, name, timeout="5s")
            producer.publish("t", "x")
            end(producer)

        ended_by(lambda producer: producer.end("commit"), "committed")
        ended_by(lambda producer: producer.end("commit"), "committed-too")
        ended_by(lambda producer: producer.end("abort"), "aborted")
        ended_by(lambda producer: Producer(http, producer.id), "taken over")
        ended_by(lambda producer: http.post(f"/transactions/{producer.id}/abort", json={}), "aborted by hand")
        ended_by(lambda _: broker.advance(6), "slow")
        open_first, open_second = Producer(http, "b"), Producer(http, "a")
        open_first.publish("t", "x")
        broker.advance(1)
        open_second.publish("t", "x")
        stats = http.get("/transactions/stats").json()
        assert stats["committed"] == 2
        assert stats["aborted"] == {"abort": 1, "init": 1, "timeout": 1, "operator": 1}
        assert stats["oldest_open"]["transactional_id"] == "b"
        states = stats["states"]
        assert (states["Ongoing"], states["CompleteCommit"], states["Empty"]) == (2, 2, 1)
        assert states["CompleteAbort"] + states["PrepareAbort"] == 3
        assert sum(states.values()) == len(listed(http))
