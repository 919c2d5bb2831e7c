"""The broker's own topics by HTTP: described on request, and neither read nor written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Consumer as KafkaConsumer
from confluent_kafka import KafkaError, TopicPartition

from goqueue.broker.internal_topics import DELIVERIES_TOPIC
from goqueue.client.kafka import KafkaData
from goqueue.client.kafka import TopicPartition as DataPartition
from goqueue.errors import Invalid
from goqueue.testing import Broker
from tests.protocols.http.expect import refused
from tests.protocols.http.group_kit import Member, done
from tests.protocols.http.queue_kit import Consumer, fill

GROUPS_TOPIC = "__consumer_offsets"


@pytest.fixture(params=[GROUPS_TOPIC, DELIVERIES_TOPIC])
def private(request: pytest.FixtureRequest, http: httpx.Client, new_topic: Callable[..., str]) -> str:
    """A topic of the broker's own that holds records."""
    topic = new_topic()
    Member(http, f"{topic}-streams", topic).join()
    fill(http, topic, ["a"])
    assert len(Consumer(http, f"{topic}-queue", topic).receive()) == 1
    return str(request.param)


def test_private_topic_is_described_but_not_read(http: httpx.Client, private: str) -> None:
    described = done(http.get(f"/topics/{private}"))
    assert described["is_internal"] is True
    for index in range(described["partitions"]):
        for query in ({}, {"offset": 0}, {"timestamp": 0}, {"isolation": "read_uncommitted"}):
            reply = http.get(f"/topics/{private}/partitions/{index}/messages", params=query)
            refused(reply, 403, "topic_private")


def test_private_topic_is_not_written_changed_or_deleted(http: httpx.Client, private: str) -> None:
    before = done(http.get(f"/topics/{private}"))
    reply = http.post(f"/topics/{private}/messages", json={"messages": [{"value": "x", "partition": 0}]})
    refused(reply, 403, "topic_protected")
    for change in ({"config": {"retention.ms": 1}}, {"partitions": 60}):
        refused(http.patch(f"/topics/{private}", json=change), 403, "topic_protected")
    refused(http.delete(f"/topics/{private}"), 403, "topic_protected")
    assert done(http.get(f"/topics/{private}")) == before


def test_no_group_reads_a_private_topic(http: httpx.Client, topic: str, private: str) -> None:
    for way in ("join", "join/cooperative"):
        reply = http.post(f"/groups/{topic}/{way}", json={"topics": [topic, private]})
        refused(reply, 403, "topic_private")
    refused(http.post(f"/groups/{topic}/receive", json={"topic": private}), 403, "topic_protected")
    Consumer(http, f"{topic}-queue", topic).receive()
    refused(http.get(f"/queues/{topic}-queue/peek", params={"topic": private}), 403, "topic_protected")


def test_private_topic_has_no_dead_letters_to_look_at(http: httpx.Client, private: str) -> None:
    refused(http.get(f"/topics/{private}/dlq"), 403, "topic_private")
    refused(http.post(f"/topics/{private}/dlq/purge", json={}), 403, "topic_private")
    refused(http.post(f"/topics/{private}/dlq/redrive", json={}), 403, "topic_private")


def test_foreign_kafka_consumer_may_not_read_private_topic(broker: Broker, private: str) -> None:
    consumer = KafkaConsumer({"bootstrap.servers": broker.bootstrap, "group.id": "g", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(private, 0, 0)])
        message = consumer.poll(30)
        assert message is not None
        error = message.error()
        assert error is not None
        assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    finally:
        consumer.close()


def test_spark_client_may_not_read_private_topic(broker: Broker, private: str) -> None:
    with KafkaData(broker.bootstrap) as data, pytest.raises(Invalid, match="not allowed"):
        data.fetch(DataPartition(private, 0), 0)


def test_receipt_made_from_a_stored_lease_is_refused(tmp_path: Path) -> None:
    """The id of a lease is stored; a client that learns it still cannot write a receipt."""
    with Broker(data_dir=tmp_path) as broker, httpx.Client(base_url=broker.http, timeout=30) as http:
        fill(http, "t", ["a", "b"])
        consumer = Consumer(http, "g", "t")
        mine, other = consumer.receive(1), Consumer(http, "g", "t", "bob").receive(1)
        mine_receipt, stored = mine[0]["receipt_handle"], other[0]["receipt_handle"]
        # What `__deliveries` says of the other lease, with the tag of a receipt that was given out.
        forged = stored[:32] + mine_receipt[32:]
        (result,) = consumer.settle("ack", [{"receipt_handle": forged}], status=400)
        assert result["error"]["code"] == "invalid_receipt"
        assert consumer.settle("ack", [*mine, *other])[1]["status"] == "done"


def test_receipts_outlive_a_restart(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path) as broker:
        with httpx.Client(base_url=broker.http, timeout=30) as http:
            fill(http, "t", range(20))
            messages = Consumer(http, "g", "t").receive(20)
        broker.restart()
        with httpx.Client(base_url=broker.http, timeout=30) as http:
            Consumer(http, "g", "t").ack(messages)
