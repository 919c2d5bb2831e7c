"""Counts of queue groups by HTTP and as metrics match what has happened."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from goqueue.client import Client, queues
from goqueue.testing import Broker
from tests.clients.adapters.confluent_shares import ConfluentShare, take
from tests.protocols.http.letter_kit import bury, ended, moves, redrive, start
from tests.protocols.http.queue_kit import Consumer, fill


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker whose clock may be moved without disturbing other tests."""
    with Broker() as running:
        yield running


@pytest.fixture(scope="module")
def http(broker: Broker) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=broker.http, timeout=30) as client:
        yield client


def eventually(fact: Callable[[], bool], what: str) -> None:
    """Wait for a condition; each check takes a request, so the broker can work in between."""
    deadline = time.monotonic() + 120
    while not fact():
        assert time.monotonic() < deadline, f"it did not come true that {what}"


def stats(http: httpx.Client, group: str) -> dict[str, Any]:
    """Return the one row of a group."""
    reply = http.get("/reliability/stats")
    assert reply.status_code == 200, reply.text
    (row,) = (each for each in reply.json()["queues"] if each["group"] == group)
    return dict(row)


def metrics(http: httpx.Client, group: str) -> dict[str, float]:
    """Return the series of a group, by name and what other labels say."""
    found = {}
    for family in text_string_to_metric_families(http.get("/metrics").text):
        for sample in family.samples:
            if sample.labels.get("group") == group:
                more = [value for name, value in sorted(sample.labels.items()) if name in {"verdict", "reason"}]
                found[" ".join([sample.name.removeprefix("goqueue_queue_"), *more])] = sample.value
    return found


def test_stats_show_why_dead_letters_cannot_be_written(broker: Broker, http: httpx.Client, topic: str) -> None:
    letters = f"{topic}-letters"
    # There are no two replicas.
    body = {"name": letters, "partitions": 1, "config": {"min.insync.replicas": "2"}}
    http.post("/topics", json=body).raise_for_status()
    http.patch(f"/queues/{topic}", json={"dead_letters": letters}).raise_for_status()
    fill(http, topic, range(2))
    consumer = Consumer(http, topic, topic)
    consumer.settle("reject", consumer.receive())

    def trouble() -> str:
        (partition,) = http.get(f"/queues/{topic}").json()["partitions"]
        return str(partition.get("dead_letter_trouble", ""))

    eventually(lambda: "replicas" in trouble(), "the error is shown")
    assert metrics(http, topic)["stalled_dead_messages"] == 2
    with Client(broker.http) as client:
        (partition,) = client.send(queues.describe(topic)).partitions
    assert (partition.dead, partition.dead_letter_trouble) == (2, trouble())
    http.patch(f"/queues/{topic}", json={"dead_letters": ""}).raise_for_status()
    broker.advance(2)
    eventually(lambda: not trouble(), "trouble is over")
    assert metrics(http, topic)["stalled_dead_messages"] == 0


def test_everything_that_becomes_of_messages_is_counted(broker: Broker, http: httpx.Client, topic: str) -> None:
    consumer = Consumer(http, topic, topic)
    fill(http, topic, range(8))
    messages = consumer.receive(6, visibility_timeout="60s")
    consumer.ack(messages[:2])
    consumer.settle("nack", messages[2:3], delay="1h")
    consumer.settle("reject", messages[3:4], reason="never")
    consumer.settle("visibility", messages[4:5], timeout=0)
    consumer.settle("visibility", messages[5:6], timeout="90s")
    consumer.settle("ack", messages[:1], status=409)
    consumer.receive(1)
    eventually(lambda: stats(http, topic)["dead_lettered"] == 1, "the letter is written")
    assert stats(http, topic) == {
        "group": topic,
        "topic": topic,
        "paused": False,
        "depth": 5,
        "in_flight": 2,
        "oldest_seconds": pytest.approx(0, abs=30),
        "delivered": 7,
        "redelivered": 1,
        "acked": 2,
        "nacked": 1,
        "rejected": 1,
        "released": 1,
        "extended": 1,
        "refused": 1,
        "expired": 0,
        "dead_lettered": 1,
        "dead_letters": {"rejected": 1},
    }
    broker.advance(31)
    assert stats(http, topic)["expired"] == 1
    broker.advance(60)
    row = stats(http, topic)
    assert (row["expired"], row["in_flight"]) == (2, 0)
    assert row["oldest_seconds"] >= 91


def series(http: httpx.Client, name: str, **labels: str) -> float | None:
    """Return the value of a series, if there is one."""
    for family in text_string_to_metric_families(http.get("/metrics").text):
        for sample in family.samples:
            if sample.name == name and labels.items() <= sample.labels.items():
                return float(sample.value)
    return None


def test_redrives_are_counted_by_what_they_do_with_letters(broker: Broker, http: httpx.Client, topic: str) -> None:
    bury(http, topic, ["a", "b", "c"])
    dlq = f"{topic}.dlq"
    assert series(http, "goqueue_redrive_letters_total", topic=dlq) is None
    job = start(http, topic, rate=0.001, limit=2)
    eventually(lambda: series(http, "goqueue_redrive_letters_total", topic=dlq, fate="moved") == 1, "one is moved")
    assert series(http, "goqueue_redrives", state="running") == 1
    http.delete(f"/dlq/redrives/{job['id']}").raise_for_status()
    assert ended(http, job)["moves"] == moves(moved=1)
    assert series(http, "goqueue_redrives", state="running") == 0
    redrive(http, topic)
    found = {
        fate: series(http, "goqueue_redrive_letters_total", topic=dlq, fate=fate)
        for fate in ("moved", "skipped_redriven", "skipped_looping", "failed")
    }
    assert found == {"moved": 3, "skipped_redriven": 1, "skipped_looping": 0, "failed": 0}
    # A deleted topic is not shown, even if others follow.
    http.delete(f"/topics/{dlq}").raise_for_status()
    assert series(http, "goqueue_redrive_letters_total", topic=dlq) is None


def test_share_consumers_are_counted_as_members(broker: Broker, http: httpx.Client, topic: str) -> None:
    fill(http, topic, range(4))
    with ConfluentShare(broker.bootstrap, topic, topic) as first, ConfluentShare(broker.bootstrap, topic, topic):
        take(4, first)
        eventually(lambda: series(http, "goqueue_queue_share_members", group=topic) == 2, "both are members")
    eventually(lambda: series(http, "goqueue_queue_share_members", group=topic) == 0, "both have left")


def test_metrics_tell_the_same(broker: Broker, http: httpx.Client, topic: str) -> None:
    consumer = Consumer(http, topic, topic)
    fill(http, topic, range(4))
    messages = consumer.receive(3)
    consumer.ack(messages[:1])
    consumer.settle("reject", messages[1:2])
    broker.advance(31)
    consumer.receive(1)
    eventually(lambda: "dead_letters_total rejected" in metrics(http, topic), "the letter is written")
    found = metrics(http, topic)
    assert found.pop("oldest_message_age_seconds") >= 31
    assert {name: value for name, value in found.items() if not name.endswith("_created")} == {
        "paused": 0,
        "depth_messages": 2,
        "in_flight_messages": 1,
        "stalled_dead_messages": 0,
        "share_members": 0,
        "deliveries_total": 4,
        "redeliveries_total": 1,
        "leases_expired_total": 1,
        "settled_total acked": 1,
        "settled_total nacked": 0,
        "settled_total rejected": 1,
        "settled_total released": 0,
        "settled_total extended": 0,
        "settled_total refused": 0,
        "dead_letters_total rejected": 1,
    }


def test_group_is_shown_by_topic(http: httpx.Client, new_topic: Callable[..., str]) -> None:
    first, second = sorted((new_topic(partitions=2), new_topic()))
    for topic, count in ((first, 3), (second, 2)):
        fill(http, topic, range(count))
        Consumer(http, "both", topic).receive(1)
    rows = [each for each in http.get("/reliability/stats").json()["queues"] if each["group"] == "both"]
    assert [(each["topic"], each["depth"], each["delivered"]) for each in rows] == [(first, 3, 1), (second, 2, 1)]


def test_recreated_group_starts_new_counts(http: httpx.Client, topic: str) -> None:
    fill(http, topic, range(2))
    consumer = Consumer(http, topic, topic)
    consumer.receive(2)
    http.delete(f"/queues/{topic}").raise_for_status()
    assert topic not in {each["group"] for each in http.get("/reliability/stats").json()["queues"]}
    consumer.receive(1)
    assert stats(http, topic)["delivered"] == 1


def test_recreated_topic_starts_new_counts(broker: Broker, http: httpx.Client, topic: str) -> None:
    fill(http, topic, range(2))
    consumer = Consumer(http, topic, topic)
    old = consumer.receive(2)
    broker.advance(31)
    assert stats(http, topic)["expired"] == 2
    http.delete(f"/topics/{topic}").raise_for_status()
    # Neither time nor old receipts bring it back.
    broker.advance(31)
    consumer.settle("ack", old[:1], status=409)
    http.post("/topics", json={"name": topic, "partitions": 1}).raise_for_status()
    fill(http, topic, range(1))
    consumer.receive(1)
    row = stats(http, topic)
    assert (row["delivered"], row["refused"], row["expired"]) == (1, 0, 0)


def test_a_group_that_is_paused_says_so(http: httpx.Client, topic: str) -> None:
    fill(http, topic, range(1))
    Consumer(http, topic, topic).receive(1)
    http.post(f"/queues/{topic}/pause", json={}).raise_for_status()
    assert stats(http, topic)["paused"] is True
    assert metrics(http, topic)["paused"] == 1


def test_the_client_tells_them_as_values(broker: Broker, http: httpx.Client, topic: str) -> None:
    fill(http, topic, range(2))
    Consumer(http, topic, topic).receive(1)
    with Client(broker.http) as client:
        (found,) = (each for each in client.send(queues.stats()) if each.group == topic)
    assert (found.delivered, found.depth, found.in_flight, found.dead_letters) == (1, 2, 1, {})
