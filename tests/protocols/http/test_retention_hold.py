"""Retention and groups that have not read everything: what is held back for whom, and how long."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from goqueue.broker.events import ExpiryHeld, HoldExceeded, RetentionOvertook
from goqueue.client import Client, NewMessage, PartitionOffset, groups, messages, queues, topics
from goqueue.testing import Broker

HOUR_S = 3600
DAY_S = 24 * HOUR_S
# Every message fills a segment of its own.
VALUE = "v" * 900
SEGMENT_BYTES = 1024
EXPIRED_S = 2 * HOUR_S


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A broker of its own, since time passes."""
    with Broker() as running:
        yield running


@pytest.fixture
def client(broker: Broker) -> Iterator[Client]:
    """A client of that broker."""
    with Client(broker.http) as connected:
        yield connected


def make(client: Client, name: str = "t", *, hold: int = -1, partitions: int = 1, **settings: str) -> None:
    """Make a topic that keeps its messages for an hour."""
    config = {"retention.ms": str(HOUR_S * 1000), "segment.bytes": str(SEGMENT_BYTES)}
    config["goqueue.retention.hold.bytes"] = str(hold)
    config |= {key.replace("_", "."): value for key, value in settings.items()}
    client.send(topics.create(name, partitions=partitions, config=config))


def fill(client: Client, count: int, name: str = "t", *, partition: int = 0) -> None:
    """Publish messages, one after the other."""
    for _ in range(count):
        client.send(messages.publish(name, [NewMessage(VALUE, partition=partition)]))


def commit(client: Client, offset: int, *, group: str = "g", name: str = "t", partition: int = 0) -> None:
    """Commit an offset without a member."""
    client.send(groups.commit(group, [PartitionOffset(name, partition, offset)]))


def start_of(client: Client, name: str = "t", partition: int = 0) -> int:
    """Return where a partition starts."""
    return client.send(topics.partitions(name))[partition].start_offset


def test_unread_messages_of_a_group_stay_until_read(broker: Broker, client: Client) -> None:
    make(client)
    fill(client, 5)
    commit(client, 2)
    broker.advance(EXPIRED_S)
    assert start_of(client) == 2, "messages that all groups have read are deleted"
    (offset,) = client.send(groups.describe("g")).offsets
    assert (offset.retention_risk, offset.retention_left_seconds, offset.lost) == ("held", 0, 0)
    commit(client, 4)
    broker.advance(HOUR_S)
    assert start_of(client) == 4
    commit(client, 5)
    broker.advance(HOUR_S)
    assert start_of(client) == 5


def test_unprocessed_messages_of_a_queue_group_stay_until_processed(broker: Broker, client: Client) -> None:
    make(client)
    fill(client, 5)
    received = client.send(queues.receive("workers", "t", limit=3, visibility_s=8 * HOUR_S)).messages
    client.send(queues.ack(received[0], received[2]))
    broker.advance(EXPIRED_S)
    assert start_of(client) == 1, "what is done leaves, up to the first that is not"
    client.send(queues.ack(received[1]))
    broker.advance(HOUR_S)
    assert start_of(client) == 3


def test_the_slowest_group_decides(broker: Broker, client: Client) -> None:
    make(client)
    fill(client, 4)
    commit(client, 4, group="fast")
    commit(client, 1, group="slow")
    broker.advance(EXPIRED_S)
    assert start_of(client) == 1
    held = broker.sink.of(ExpiryHeld)
    assert [(event.topic, event.groups) for event in held] == [("t", "slow")]
    client.send(groups.delete("slow"))
    broker.advance(60)
    assert start_of(client) == 4


def test_nothing_is_held_back_unless_the_topic_says_so(broker: Broker, client: Client) -> None:
    make(client, hold=0)
    fill(client, 3)
    commit(client, 1)
    broker.advance(EXPIRED_S)
    assert start_of(client) == 3
    assert not broker.sink.of(ExpiryHeld)


def test_the_setting_can_be_changed_at_any_time(broker: Broker, client: Client) -> None:
    make(client)
    fill(client, 3)
    commit(client, 1)
    broker.advance(EXPIRED_S)
    assert start_of(client) == 1
    client.send(topics.alter("t", config={"goqueue.retention.hold.bytes": None}))
    broker.advance(60)
    assert start_of(client) == 3


@pytest.mark.parametrize(
    "before",
    [
        {"retention_ms": "-1"},
        {"cleanup_policy": "compact"},
        {"hold": 0, "retention_ms": str(2 * EXPIRED_S * 1000)},
    ],
    ids=str,
)
def test_a_topic_that_retention_reaches_by_new_settings_loses_nothing_that_is_unread(
    broker: Broker, client: Client, before: dict[str, Any]
) -> None:
    make(client, **before)
    fill(client, 5)
    commit(client, 2)
    broker.advance(EXPIRED_S)
    assert start_of(client) == 0
    altered = {"retention.ms": str(HOUR_S * 1000), "cleanup.policy": "delete", "goqueue.retention.hold.bytes": "-1"}
    client.send(topics.alter("t", config=altered))
    broker.advance(4)
    assert start_of(client) in {0, 2}
    # Not yet time for the next look by itself.
    broker.advance(0.6)
    assert start_of(client) == 2, "new settings apply soon, and messages that all groups have read are deleted"


def test_a_new_topic_holds_back_before_it_was_looked_at(broker: Broker, client: Client) -> None:
    broker.advance(60)
    make(client, retention_ms="1")
    commit(client, 1)
    fill(client, 5)
    broker.advance(1)
    assert start_of(client) <= 1
    broker.advance(60)
    assert start_of(client) == 1


def test_oldest_messages_over_the_budget_are_deleted_unread_with_an_event(broker: Broker, client: Client) -> None:
    make(client, hold=2 * SEGMENT_BYTES, partitions=2)
    for _ in range(3):
        fill(client, 1, partition=0)
        broker.advance(1)
        fill(client, 1, partition=1)
        broker.advance(1)
    for partition in (0, 1):
        commit(client, 0, partition=partition)
    broker.advance(EXPIRED_S)
    broker.advance(60)
    assert [start_of(client, partition=each) for each in (0, 1)] == [2, 2], "two partitions share one budget"
    (told,) = broker.sink.of(HoldExceeded)
    assert (told.topic, told.groups, told.budget_bytes) == ("t", "g", 2 * SEGMENT_BYTES)
    (overtaken,) = broker.sink.of(RetentionOvertook)
    assert (overtaken.group, overtaken.topic, overtaken.partitions) == ("g", "t", 2)
    assert [(each.retention_risk, each.lost) for each in client.send(groups.describe("g")).offsets] == [("lost", 2)] * 2


def test_size_retention_is_held_back_as_well(broker: Broker, client: Client) -> None:
    make(client, retention_ms="-1", retention_bytes=str(SEGMENT_BYTES))
    fill(client, 6)
    commit(client, 3)
    broker.advance(60)
    assert start_of(client) == 3
    commit(client, 6)
    broker.advance(60)
    assert start_of(client) == 4, "as much stays as retention keeps"


def test_a_group_that_is_not_heard_of_any_more_holds_nothing_back(broker: Broker, client: Client) -> None:
    make(client)
    fill(client, 3)
    commit(client, 1)
    broker.advance(DAY_S - 60)
    assert start_of(client) == 1
    broker.advance(120)
    assert start_of(client) == 3


def test_how_long_a_silent_group_holds_back_can_be_set(broker: Broker, client: Client) -> None:
    make(client, goqueue_retention_hold_ms=str(3 * HOUR_S * 1000))
    fill(client, 3)
    commit(client, 1)
    broker.advance(3 * HOUR_S - 60)
    assert start_of(client) == 1
    broker.advance(120)
    assert start_of(client) == 3


def test_members_hold_back_what_they_read_however_long_their_last_commit_was_ago(
    broker: Broker, client: Client
) -> None:
    for name in ("read", "left"):
        make(client, name, retention_ms="5000", goqueue_retention_hold_ms="1000")
        fill(client, 3, name)
        commit(client, 1, name=name)
    client.send(groups.join("g", ["read"]))
    broker.advance(15)
    assert (start_of(client, "read"), start_of(client, "left")) == (1, 3), "the members read one of the topics"


def test_explicit_deletion_is_not_held_back(broker: Broker, client: Client) -> None:
    make(client)
    fill(client, 4)
    commit(client, 1)
    broker.advance(EXPIRED_S)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.delete_records([TopicPartition("t", 0, 3)]).values():
        future.result(60)
    assert start_of(client) == 3
    client.send(topics.delete("t"))
    broker.advance(60)
    assert [topic.name for topic in client.send(topics.list_all())] == []


def test_retention_is_held_back_after_a_restart(broker: Broker) -> None:
    with Client(broker.http) as client:
        make(client)
        fill(client, 3)
        commit(client, 1)
        broker.advance(EXPIRED_S)
    broker.restart()
    with Client(broker.http) as client:
        broker.advance(60)
        assert start_of(client) == 1
        commit(client, 3)
        broker.advance(60)
        assert start_of(client) == 3


def test_a_kafka_consumer_reads_what_was_held_back_for_it(broker: Broker, client: Client) -> None:
    make(client)
    fill(client, 4)
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "k", "enable.auto.commit": False}
    consumer = Consumer(settings | {"auto.offset.reset": "error"})
    try:
        consumer.commit(offsets=[TopicPartition("t", 0, 1)], asynchronous=False)
        broker.advance(EXPIRED_S)
        consumer.assign([TopicPartition("t", 0, 1)])
        found = [consumer.poll(60) for _ in range(3)]
        assert [message.offset() for message in found if message is not None] == [1, 2, 3]
        consumer.commit(offsets=[TopicPartition("t", 0, 4)], asynchronous=False)
        broker.advance(60)
        assert start_of(client) == 4
    finally:
        consumer.close()
