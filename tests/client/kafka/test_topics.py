"""Topics, offsets and settings, as the data client learns them from a broker."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from goqueue.client import Client, topics
from goqueue.client.kafka import Isolation, KafkaData, NamedOffset, TopicPartition, parse_bootstrap
from goqueue.errors import Invalid, InvalidPattern, UnknownPartition, UnknownTopic
from goqueue.testing.broker import Broker
from tests.client.kafka.kit import batch_of, publish, publish_in_transaction


def test_topics_are_told_with_their_partitions_and_leaders(
    broker: Broker, data: KafkaData, new_topic: Callable[..., str]
) -> None:
    name = new_topic(3)
    found, missing = sorted(data.topics([name, "there-is-none"]), key=lambda topic: topic.name != name)
    (address,) = parse_bootstrap(broker.bootstrap)
    assert [(each.number, each.leader, each.error) for each in found.partitions] == [
        (number, address, None) for number in range(3)
    ]
    assert (found.error, found.is_internal, found.id.int != 0) == (None, False, True)
    assert isinstance(missing.error, UnknownTopic)


def test_asking_for_a_topic_makes_none(data: KafkaData) -> None:
    data.topics(["never-made"])
    assert data.topics_like("never-.*") == []


def test_a_pattern_matches_whole_names(data: KafkaData, new_topic: Callable[..., str]) -> None:
    first, second = new_topic(), new_topic()
    assert [topic.name for topic in data.topics_like(f"{first}|{second}|__.*")] == sorted([first, second])
    assert data.topics_like(first[:-1]) == []
    with pytest.raises(InvalidPattern, match="no regular expression"):
        data.topics_like("(")


def test_places_and_times_are_found(broker: Broker, data: KafkaData, new_topic: Callable[..., str]) -> None:
    name = new_topic(2)
    publish(broker.bootstrap, name, [b"v"] * 25, partition=1)
    empty, full = TopicPartition(name, 0), TopicPartition(name, 1)
    ends = data.offsets([empty, full], NamedOffset.LATEST)
    assert [ends[place].offset for place in (empty, full)] == [0, 25]
    assert [found.offset for found in data.offsets([full, empty], NamedOffset.EARLIEST).values()] == [0, 0]
    first = data.offsets([full], 1)[full]
    assert (first.offset, first.leader_epoch) == (0, 0)
    assert first.timestamp_ms > 1
    assert data.offsets([full], first.timestamp_ms + 10**9)[full].offset is None
    assert data.offsets([], NamedOffset.LATEST) == {}
    with pytest.raises(Invalid, match="no time"):
        data.offsets([full], -3)


def test_an_open_transaction_hides_its_records(broker: Broker, data: KafkaData, topic: str) -> None:
    place = TopicPartition(topic, 0)
    publish_in_transaction(broker.bootstrap, topic, [b"v"] * 3, transactional_id=topic)
    producer = data.init_producer(topic)
    data.add_partitions(producer, [place])
    data.produce(producer, {place: batch_of(producer, [b"open"], 0)})
    assert data.offsets([place], NamedOffset.LATEST)[place].offset == 4
    assert data.offsets([place], NamedOffset.LATEST, Isolation.UNCOMMITTED)[place].offset == 5
    data.abort(producer)
    assert data.offsets([place], NamedOffset.LATEST)[place].offset == 6


def test_what_does_not_exist_is_told_at_once(data: KafkaData, topic: str) -> None:
    with pytest.raises(UnknownTopic, match="there is no topic 'none'"):
        data.offsets([TopicPartition("none", 0)], NamedOffset.LATEST)
    with pytest.raises(UnknownPartition, match="has no partition 1, it has 1"):
        data.fetch(TopicPartition(topic, 1), 0)


def test_the_settings_of_the_broker_are_told(data: KafkaData) -> None:
    (node_id,) = data.brokers()
    assert data.describe_broker()["broker.id"] == str(node_id)
    assert data.describe_broker(node_id) == data.describe_broker()


def test_a_setting_of_topics_is_told_where_it_is_set(data: KafkaData, topic: str, broker: Broker) -> None:
    setting = "goqueue.archive.path"
    assert data.topic_setting([topic, "none"], setting) == {}
    with Client(broker.http) as client:
        client.send(topics.alter(topic, config={setting: "/data/archive"}))
    assert data.topic_setting([topic, "none"], setting) == {topic: "/data/archive"}
    assert data.topic_setting([topic], "no.such.setting") == {}
    assert data.topic_setting([], setting) == {}
