"""Shared by GoQueue and Apache Kafka: the same clients, the same topic, the same code.

The stock client, librdkafka under confluent-kafka, is fast enough to be used for bulk work. Replay is measured with a
bare socket as well, because making an object of each message costs that client far more than any of the servers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from goqueue_bench.broker_process import Broker
from goqueue_bench.cpu import Usage
from goqueue_bench.kafka.connection import Connection, create_topic, end_offset
from goqueue_bench.messages.latency import Probe, publish_singly
from goqueue_bench.messages.publish import Bulk, publish
from goqueue_bench.messages.replay import replay_raw, replay_with_confluent
from goqueue_bench.options import Answer
from goqueue_bench.peers.peer import MESSAGE_BYTES, Measured, Workload

CLIENTS = {Workload.PUBLISH: "confluent-kafka, batches of 1 MB", Workload.LATENCY: "raw socket"}

TOPIC = "bench"


class KafkaServer:
    """A broker that speaks the Kafka protocol, with a topic of one partition."""

    def __init__(self, broker: Broker, answer: Answer, topic_settings: Mapping[str, str]) -> None:
        self._broker = broker
        self._answer = answer
        with Connection(broker) as connection:
            create_topic(connection, TOPIC, 1, topic_settings)

    def publish(self, count: int) -> Measured:
        """Publish in bulk with the stock client."""
        bulk = Bulk(messages=count, size_bytes=MESSAGE_BYTES, acks=self._answer)
        return Measured(count, publish(self._broker, TOPIC, bulk, with_children=True))

    def latency(self, count: int) -> Measured:
        """Publish one at a time over a bare socket."""
        probe = Probe(messages=count, size_bytes=MESSAGE_BYTES, acks=self._answer.on_the_wire)
        usage, latencies_ms = publish_singly(self._broker, TOPIC, probe, with_children=True)
        return Measured(count, usage, latencies_ms)

    def replays(self) -> Mapping[str, Callable[[], Measured]]:
        """Read with the stock client, and with a bare socket."""
        return {
            "confluent-kafka": lambda: self._replay(replay_with_confluent),
            "raw socket, fetches of 1 MiB": lambda: self._replay(replay_raw),
        }

    def _replay(self, read: Callable[..., Usage]) -> Measured:
        with Connection(self._broker) as connection:
            stored = end_offset(connection, TOPIC, 0)
        return Measured(stored, read(self._broker, TOPIC, stored, with_children=True))
