"""Queues that change while receives wait: nothing is lost, and no receive sleeps beside messages."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import httpx
import pytest

from goqueue.records.builder import NewRecord, build_batch
from goqueue.records.layout import HEADER_BYTES, reseal
from goqueue.testing import Broker
from tests.protocols.http.expect import refused
from tests.protocols.http.queue_kit import Consumer, Got, fill, values
from tests.protocols.kafka.process import raw

WAIT = "30s"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture(scope="module")
def http(broker: Broker) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=broker.http, timeout=60) as client:
        yield client


def produce_nonsense(bootstrap: str, topic: str) -> None:
    """Publish a batch to the first partition whose records cannot be read, though its checksum is good."""
    batch = bytearray(build_batch([NewRecord(1, b"k", b"v" * 50)]))
    batch[HEADER_BYTES : HEADER_BYTES + 6] = b"\xff" * 6
    reseal(batch)
    partition = {"index": 0, "records": bytes(batch)}
    request = {
        "transactional_id": None,
        "acks": -1,
        "timeout": 5000,
        "topic_data": [{"name": topic, "partition_data": [partition]}],
    }
    with raw(int(bootstrap.rpartition(":")[2])) as connection:
        (told,) = connection.call(0, 7, request)["responses"]
    assert told["partition_responses"][0]["error_code"] == 0


class Waiting:
    """A receive that waits in a thread of its own."""

    def __init__(self, broker: Broker, group: str, topic: str) -> None:
        self.got: list[Got] = []
        self._thread = threading.Thread(target=self._receive, args=(broker.http, group, topic))
        self._thread.start()
        while not broker._require_server().broker.queues.waits.has_line(group):
            assert self._thread.is_alive()

    def _receive(self, url: str, group: str, topic: str) -> None:
        with httpx.Client(base_url=url, timeout=60) as http:
            self.got = Consumer(http, group, topic, "waiter").receive(10, wait=WAIT)

    def end(self) -> list[Got]:
        """Wait until it has got something, which must not take as long as it would wait."""
        self._thread.join(60)
        assert not self._thread.is_alive()
        return self.got


def test_group_is_not_deleted_while_a_waiting_receive_would_recreate_it(
    broker: Broker, http: httpx.Client, topic: str
) -> None:
    fill(http, topic, range(3), partition=0)
    consumer = Consumer(http, topic, topic)
    consumer.ack(consumer.receive())
    waiting = Waiting(broker, topic, topic)
    problem = refused(http.delete(f"/queues/{topic}"), 409, "group_not_empty")
    assert "would make it anew" in problem["detail"]
    fill(http, topic, ["new"], partition=0)
    assert values(waiting.end()) == ["new"]
    assert http.delete(f"/queues/{topic}").status_code == 204
    assert values(consumer.receive()) == ["0", "1", "2", "new"]


def test_seek_wakes_waiting_receive(broker: Broker, http: httpx.Client, topic: str) -> None:
    fill(http, topic, range(3), partition=0)
    consumer = Consumer(http, topic, topic)
    consumer.ack(consumer.receive())
    waiting = Waiting(broker, topic, topic)
    http.post(f"/queues/{topic}/seek", json={"topic": topic, "to": "earliest"}).raise_for_status()
    assert values(waiting.end()) == ["0", "1", "2"]


def test_waiting_receive_gets_messages_of_added_partitions(broker: Broker, http: httpx.Client, topic: str) -> None:
    waiting = Waiting(broker, topic, topic)
    known = http.get(f"/topics/{topic}").json()["partitions"]
    http.patch(f"/topics/{topic}", json={"partitions": known + 1}).raise_for_status()
    fill(http, topic, ["new"], partition=known)
    assert values(waiting.end()) == ["new"]


def test_messages_that_come_again_keep_to_the_size_of_a_reply(http: httpx.Client, topic: str) -> None:
    large = "v" * 900_000
    for _ in range(12):
        fill(http, topic, [large], partition=0)
    consumer = Consumer(http, topic, topic)
    held = consumer.receive(100) + consumer.receive(100)
    assert len(held) == 12
    consumer.settle("visibility", held, timeout=0)
    again = consumer.receive(100)
    assert 1 <= len(again) < 12
    assert len(again) + len(consumer.receive(100)) == 12


def test_unreadable_batch_does_not_block_messages_before_or_after_it(
    http: httpx.Client, broker: Broker, topic: str
) -> None:
    fill(http, topic, range(5), partition=0)
    produce_nonsense(broker.bootstrap, topic)
    consumer = Consumer(http, topic, topic)
    got = consumer.receive(100)
    assert len(got) == 5
    consumer.settle("visibility", got, timeout=0)
    assert len(consumer.receive(100)) == 5
    fill(http, topic, ["after"], partition=0)
    assert values(consumer.receive(100, wait="10s")) == ["after"]
