"""Transactions in topics that lose records, by deletion or by compaction: clients read on, and miss nothing."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import Consumer, TopicPartition

from goqueue.log.events import Compacted
from goqueue.testing import Broker
from tests.clients.adapters.confluent import ConfluentClient
from tests.clients.adapters.confluent_admin import ConfluentAdmin
from tests.clients.adapters.transactional import (
    COMMITTED,
    ConfluentTransactions,
    read_with_aiokafka,
    read_with_confluent,
    read_with_kafka_python,
)
from tests.clients.contract import DEADLINE_S, Admin, Client, Message, NewTopic, Place

READERS = (read_with_confluent, read_with_aiokafka, read_with_kafka_python)
# Markers go as soon as two passes have met them.
COMPACTED = {"cleanup.policy": "compact", "segment.bytes": "1024", "delete.retention.ms": "0"}


def test_readers_wait_for_a_transaction_whose_first_records_are_deleted(
    admins: dict[str, Admin], clients: dict[str, Client], bootstrap: str, new_topic: Callable[..., str]
) -> None:
    place = Place(new_topic(), 0)
    producer = ConfluentTransactions(bootstrap, place.topic)
    try:
        producer.begin()
        producer.send(place, b"deleted", b"deleted too")
        clients["confluent"].send(place.topic, [Message(b"plain")])
        assert admins["confluent"].delete_records(place, 1) == 1
        # A read at the end is sent to the next readable offset.
        assert committed_bounds(bootstrap, place) == (1, 1)
        assert [read(bootstrap, place, COMMITTED) for read in READERS] == [[], [], []]
        producer.abort()
        assert committed_bounds(bootstrap, place) == (1, 4)
        assert [read(bootstrap, place, COMMITTED) for read in READERS[1:]] == [[b"plain"], [b"plain"]]
    finally:
        producer.close()


def committed_bounds(bootstrap: str, place: Place) -> tuple[int, int]:
    """Return from where to where a reader of what is committed can read."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "isolation.level": COMMITTED})
    start, end = consumer.get_watermark_offsets(TopicPartition(*place), timeout=DEADLINE_S)
    consumer.close()
    return start, end


def test_committed_messages_are_read_after_compaction_removed_an_older_abort() -> None:
    place = Place("compacted", 0)
    with Broker() as broker:
        admin, client = ConfluentAdmin(broker.bootstrap), ConfluentClient(broker.bootstrap)
        admin.create([NewTopic(name=place.topic, partitions=1, settings=COMPACTED)])
        producer = ConfluentTransactions(broker.bootstrap, "payments")
        for verb in ("abort", "commit", "commit"):
            producer.begin()
            producer.send(place, b"in a transaction: %s" % verb.encode())
            getattr(producer, verb)()
        for _ in range(3):
            client.send(place.topic, [Message(b"x" * 600, key=b"filler")])
            client.send(place.topic, [Message(b"x" * 600, key=b"filler")])
            broker.advance(1)
        assert any(isinstance(event, Compacted) for event in broker.events)
        for read in READERS:
            assert read(broker.bootstrap, place, COMMITTED)[:2] == [b"in a transaction: commit"] * 2
        for each in (producer, client, admin):
            each.close()
