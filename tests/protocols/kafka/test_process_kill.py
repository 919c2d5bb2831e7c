"""A broker process, killed under load again and again: what clients were told is there, each record once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType  # type: ignore[attr-defined]

from tests.protocols.kafka.process import ServeProcess

TOPIC = "orders"
PARTITIONS = 3
FAST = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100, "retry.backoff.ms": 20, "log_level": 0}


class Load:
    """An idempotent producer that counts what was acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        self.sent = 0
        self.acknowledged: dict[bytes, tuple[int, int]] = {}
        self.errors: list[str] = []
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 1, "batch.num.messages": 50}
            | {"message.timeout.ms": 120_000, **FAST}
        )

    def until(self, count: int) -> None:
        """Publish until so many records are acknowledged."""
        while len(self.acknowledged) < count and not self.errors:
            if len(self._producer) < 500:
                value = b"%d" % self.sent
                self._producer.produce(TOPIC, value, partition=self.sent % PARTITIONS, on_delivery=self._told)
                self.sent += 1
                self._producer.poll(0)
            else:
                self._producer.poll(0.1)

    def flush(self) -> None:
        """Wait until everything is acknowledged."""
        assert self._producer.flush(120) == 0

    def _told(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(str(error))
            return
        value, partition, offset = message.value(), message.partition(), message.offset()
        assert value is not None
        assert partition is not None
        assert offset is not None
        self.acknowledged[value] = (partition, offset)


def read_all(bootstrap: str) -> dict[int, list[bytes]]:
    """Return the values of all records by partition, and see that offsets follow each other."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False})
    found: dict[int, list[bytes]] = {}
    for partition in range(PARTITIONS):
        place = TopicPartition(TOPIC, partition, OFFSET_BEGINNING)
        _, end = consumer.get_watermark_offsets(place, timeout=30)
        consumer.assign([place])
        values: list[bytes] = []
        while len(values) < end:
            for message in consumer.consume(min(1000, end - len(values)), timeout=30):
                assert message.error() is None
                assert message.offset() == len(values)
                values.append(message.value() or b"")
        found[partition] = values
    consumer.close()
    return found


@pytest.mark.seeds(2, long_count=30)
def test_a_killed_broker_loses_and_repeats_nothing(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    options = ("--default-partitions", str(PARTITIONS), "--default-segment-bytes", "20000")
    broker = ServeProcess(tmp_path / "data", *options).start()
    load = Load(broker.bootstrap)
    try:
        for _ in range(3):
            load.until(len(load.acknowledged) + random.randrange(200, 2500))
            broker.kill()
            broker.start()
        load.flush()
        assert load.errors == []
        stored = read_all(broker.bootstrap)
    finally:
        broker.kill()
    _check(load, stored)
    assert "damage" not in broker.reports().lower()


def _check(load: Load, stored: dict[int, list[bytes]]) -> None:
    assert len(load.acknowledged) == load.sent
    for value, (partition, offset) in load.acknowledged.items():
        assert stored[partition][offset] == value
    values = [value for held in stored.values() for value in held]
    assert len(values) == len(set(values)) == load.sent
    for held in stored.values():
        assert held == sorted(held, key=int)


@pytest.mark.parametrize("end", ["kill", "terminate"])
def test_topics_and_settings_are_there_after_a_restart(end: str, tmp_path: Path) -> None:
    broker = ServeProcess(tmp_path / "data").start()
    stop: Callable[[], object] = getattr(broker, end)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, **FAST})
    admin.create_topics([NewTopic("a", 4, config={"retention.ms": "12345"}), NewTopic("b", 1)])["a"].result(30)
    before = {name: len(topic.partitions) for name, topic in admin.list_topics(timeout=30).topics.items()}
    stop()
    broker.start()
    try:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, **FAST})
        assert {name: len(topic.partitions) for name, topic in admin.list_topics(timeout=30).topics.items()} == before
        resource = ConfigResource(ResourceType.TOPIC, "a")
        assert admin.describe_configs([resource])[resource].result(30)["retention.ms"].value == "12345"
    finally:
        broker.kill()
