"""A producer of transactions by HTTP, and what can be seen of its transactions from outside."""

from __future__ import annotations

from typing import Any

import httpx
from confluent_kafka import Consumer, TopicPartition

from goqueue.testing import Broker


class Producer:
    """A producer that keeps the identity it was given last."""

    def __init__(self, http: httpx.Client, transactional_id: str, **options: Any) -> None:
        self.http = http
        self.id = transactional_id
        self.took(self.asked("/producers/init", transactional_id=transactional_id, **options))

    def asked(self, path: str, **body: Any) -> Any:
        """Send a request, which succeeds; return what was replied."""
        reply = self.http.post(path, json=body)
        assert reply.status_code == 200, reply.text
        return reply.json()

    def took(self, given: Any) -> None:
        """Go on with the identity that was given."""
        assert given["transactional_id"] == self.id
        self.producer_id, self.epoch = given["producer_id"], given["epoch"]

    @property
    def identity(self) -> dict[str, Any]:
        return {"transactional_id": self.id, "producer_id": self.producer_id, "epoch": self.epoch}

    def send(self, verb: str, **body: Any) -> httpx.Response:
        """Act with the present identity, whatever comes of it."""
        return self.http.post(f"/transactions/{verb}", json={**self.identity, **body})

    def publish(self, topic: str, *messages: Any, **body: Any) -> Any:
        """Publish messages or values, all of which are stored; return the results."""
        given = [each if isinstance(each, dict) else {"value": each} for each in messages]
        reply = self.send("publish", topic=topic, messages=given, **body)
        assert reply.status_code == 200, reply.text
        return reply.json()["results"]

    def end(self, verb: str) -> None:
        """Commit or abort, which succeeds."""
        self.took(self.asked(f"/transactions/{verb}", **self.identity))

    def stand(self) -> Any:
        """Return how the producer stands."""
        return self.asked(f"/producers/{self.producer_id}/heartbeat", epoch=self.epoch)


def stable_offset(http: httpx.Client, topic: str, partition: int = 0) -> int:
    """Return up to where readers of what is committed can see."""
    return int(http.get(f"/topics/{topic}/partitions").json()["partitions"][partition]["last_stable_offset"])


def committed_offset(broker: Broker, group: str, topic: str) -> int | None:
    """Return the offset of a group for partition 0, asked by a Kafka client."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    try:
        (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=30)
    finally:
        consumer.close()
    return found.offset if found.offset >= 0 else None
