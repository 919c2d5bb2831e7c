"""Sinks by HTTP: what several producers have staged is committed together, and once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import confluent_kafka
import httpx

from goqueue.testing import Broker
from tests.protocols.http.expect import read, refused, values
from tests.protocols.http.transaction_kit import Producer


def commit(http: httpx.Client, sink: str, batch: int, *stages: Producer) -> Any:
    """Commit a batch, which succeeds."""
    body = {"batch": batch, "stages": [stage.identity for stage in stages]}
    reply = http.post(f"/transactions/sinks/{sink}/commit", json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()


def staged(http: httpx.Client, topic: str, sink: str, task: int, *messages: str, attempt: int = 0) -> Producer:
    producer = Producer(http, f"goqueue-sink:{sink}:{task}:{attempt}")
    producer.publish(topic, *messages)
    return producer


def test_a_batch_is_seen_as_a_whole_and_once(http: httpx.Client, topic: str, new_name: Callable[[], str]) -> None:
    sink = new_name()
    assert http.get(f"/transactions/sinks/{sink}").json() == {"last_batch": None, "committed_at": None}
    stages = [staged(http, topic, sink, task, f"task {task}") for task in range(3)]
    abandoned = staged(http, topic, sink, 1, "of an attempt that has lost", attempt=7)
    assert read(http, topic)["messages"] == []
    assert commit(http, sink, 0, *stages) == {"last_batch": 0, "is_new": True}
    abandoned.end("abort")
    assert values(read(http, topic)) == ["task 0", "task 1", "task 2"]
    assert commit(http, sink, 0, *stages) == {"last_batch": 0, "is_new": False}
    repeated = [staged(http, topic, sink, task, f"task {task} again") for task in range(3)]
    assert commit(http, sink, 0, *repeated) == {"last_batch": 0, "is_new": False}
    following = [staged(http, topic, sink, task, f"task {task}, batch 1") for task in range(2)]
    assert commit(http, sink, 1, *following) == {"last_batch": 1, "is_new": True}
    assert values(read(http, topic))[3:] == ["task 0, batch 1", "task 1, batch 1"]
    assert http.get(f"/transactions/sinks/{sink}").json()["last_batch"] == 1


def test_a_sink_that_is_forgotten_begins_anew(http: httpx.Client, topic: str, new_name: Callable[[], str]) -> None:
    sink = new_name()
    url = f"/transactions/sinks/{sink}"
    assert http.delete(url).status_code == 204, "nothing is known of it, and that was wanted"
    assert commit(http, sink, 7, staged(http, topic, sink, 0, "seventh"))["is_new"]
    assert http.delete(url).status_code == 204
    assert http.get(url).json() == {"last_batch": None, "committed_at": None}
    assert commit(http, sink, 0, staged(http, topic, sink, 0, "first"))["is_new"]
    assert values(read(http, topic)) == ["seventh", "first"]
    refused(http.delete("/transactions/sinks/a b"), 400, "invalid")


def test_a_batch_with_a_stage_that_is_lost_is_refused_and_nothing_is_seen(
    http: httpx.Client, topic: str, new_name: Callable[[], str]
) -> None:
    sink = new_name()
    good, lost = (staged(http, topic, sink, task, f"task {task}") for task in range(2))
    lost.end("abort")
    body = {"batch": 0, "stages": [good.identity, lost.identity]}
    refused(http.post(f"/transactions/sinks/{sink}/commit", json=body), 409, "invalid_transaction_state")
    assert read(http, topic)["messages"] == []
    assert commit(http, sink, 0, good)["is_new"]
    assert values(read(http, topic)) == ["task 0"]


def test_stages_of_others_are_refused(http: httpx.Client, topic: str, new_name: Callable[[], str]) -> None:
    mine, other = new_name(), new_name()
    stage = staged(http, topic, other, 0, "not mine")
    body = {"batch": 0, "stages": [stage.identity]}
    refused(http.post(f"/transactions/sinks/{mine}/commit", json=body), 400, "invalid")
    refused(http.post("/transactions/sinks/a b/commit", json={"batch": 0, "stages": []}), 400, "invalid")
    refused(http.post("/producers/init", json={"transactional_id": f"goqueue-sink:{mine}"}), 400, "invalid")


def test_sink_commits_stages_of_kafka_client(
    http: httpx.Client, broker: Broker, topic: str, new_name: Callable[[], str]
) -> None:
    sink = new_name()
    producers = []
    for task in range(2):
        name = f"goqueue-sink:{sink}:{task}:0"
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": name})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(topic, f"task {task}", partition=0)
        assert producer.flush(30) == 0
        producers.append(producer)
    found = [http.get(f"/transactions/goqueue-sink:{sink}:{task}:0").json() for task in range(2)]
    names = ("transactional_id", "producer_id", "epoch")
    body = {"batch": 0, "stages": [{name: each[name] for name in names} for each in found]}
    assert read(http, topic)["messages"] == []
    assert http.post(f"/transactions/sinks/{sink}/commit", json=body).json()["is_new"]
    assert sorted(values(read(http, topic))) == ["task 0", "task 1"]
