"""One broker, two protocols: what Kafka clients publish is read by HTTP, and the other way round."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from goqueue.testing import Broker
from tests.protocols.http.expect import publish, read, values

DEADLINE_S = 120


@pytest.fixture
def producer(broker: Broker) -> Iterator[Producer]:
    """A producer of librdkafka, with its partitioner set to that of the Java client."""
    made = Producer({"bootstrap.servers": broker.bootstrap, "partitioner": "murmur2_random"})
    yield made
    made.flush(DEADLINE_S)


def consume(broker: Broker, topic: str, count: int, partition: int = 0) -> list[Message]:
    """Read a partition from its start with librdkafka."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, 0)])
    messages: list[Message] = []
    while len(messages) < count:
        message = consumer.poll(DEADLINE_S)
        assert message is not None, f"only {len(messages)} of {count} messages came"
        assert message.error() is None
        messages.append(message)
    consumer.close()
    return messages


def test_librdkafka_reads_messages_published_by_http(http: httpx.Client, topic: str, broker: Broker) -> None:
    publish(
        http,
        topic,
        {"key": "k", "value": "text", "headers": {"h": "x", "none": None}, "timestamp": 1_700_000_000_000},
        {"key_base64": "AP8=", "value_base64": "/wA="},
        {"value": {"a": [1, 2]}},
        {"key": "gone", "value": None},
    )
    first, second, third, fourth = consume(broker, topic, 4)
    assert (first.key(), first.value(), first.timestamp()[1]) == (b"k", b"text", 1_700_000_000_000)
    assert first.headers() == [("h", b"x"), ("none", None)]
    assert (second.key(), second.value()) == (b"\x00\xff", b"\xff\x00")
    assert (third.key(), third.value()) == (None, b'{"a":[1,2]}')
    assert (fourth.key(), fourth.value()) == (b"gone", None)
    assert [message.offset() for message in (first, second, third, fourth)] == [0, 1, 2, 3]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_http_reads_messages_published_by_librdkafka(
    http: httpx.Client, topic: str, broker: Broker, codec: str
) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.type": codec, "linger.ms": 50})
    for number in range(50):
        producer.produce(
            topic,
            f"value {number} " * 20,
            f"key {number}",
            headers=[("n", f"{number}"), ("b", b"\xff")],
            timestamp=number + 1,
        )
    producer.produce(topic, None, b"\xff")
    assert producer.flush(DEADLINE_S) == 0
    *plain, last = read(http, topic, limit=1000)["messages"]
    assert [message["value"] for message in plain] == [f"value {number} " * 20 for number in range(50)]
    assert [message["key"] for message in plain] == [f"key {number}" for number in range(50)]
    assert [message["timestamp"] for message in plain] == list(range(1, 51))
    assert plain[7]["headers"] == {"n": "7", "b": None}
    assert plain[7]["headers_base64"] == [["n", base64.b64encode(b"7").decode()], ["b", "/w=="]]
    assert (last["key_base64"], last["value"]) == ("/w==", None)


def test_both_agree_on_the_partition_of_a_key(
    http: httpx.Client, new_topic: Callable[..., str], producer: Producer
) -> None:
    topic = new_topic(7)
    keys = [f"key-{number}" for number in range(40)]
    by_kafka: dict[str, int] = {}

    def delivered(_: object, message: Message) -> None:
        by_kafka[(message.key() or b"").decode()] = message.partition() or 0

    for key in keys:
        producer.produce(topic, "x", key, on_delivery=delivered)
    assert producer.flush(DEADLINE_S) == 0
    results = publish(http, topic, *({"key": key} for key in keys))
    assert {key: result["partition"] for key, result in zip(keys, results, strict=True)} == by_kafka


def test_a_reader_by_http_is_woken_by_a_kafka_producer(
    http: httpx.Client, topic: str, broker: Broker, producer: Producer
) -> None:
    with ThreadPoolExecutor(1) as threads, httpx.Client(base_url=broker.http, timeout=60) as other:
        waiting = threads.submit(read, other, topic, wait="60s")
        producer.produce(topic, "from kafka")
        producer.flush(DEADLINE_S)
        assert values(waiting.result(DEADLINE_S)) == ["from kafka"]


def test_a_topic_that_one_protocol_makes_the_other_knows(
    http: httpx.Client, new_topic: Callable[..., str], broker: Broker, producer: Producer
) -> None:
    topic = new_topic(4)
    metadata = producer.list_topics(topic, DEADLINE_S)
    assert len(metadata.topics[topic].partitions) == 4
    assert metadata.cluster_id == http.get("/version").json()["cluster_id"]
