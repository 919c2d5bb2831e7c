"""Requests of administration tools, by the admin clients that support them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from confluent_kafka import ElectionType, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient  # type: ignore[import-untyped]

from tests.clients.contract import Client, Message


@pytest.fixture
def kafka_python(bootstrap: str) -> Iterator[KafkaAdminClient]:
    """The admin client of kafka-python."""
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as client:
        yield client


def test_log_directories_tell_how_large_the_logs_of_a_topic_are(
    kafka_python: KafkaAdminClient, clients: dict[str, Client], new_topic: Callable[..., str]
) -> None:
    topic = new_topic(partitions=2)
    clients["confluent"].send(topic, [Message(b"x" * 1000, partition=1)])
    (broker,) = kafka_python.describe_log_dirs([topic])
    (directory,) = broker["log_dirs"]
    (found,) = [each for each in directory["topics"] if each["name"] == topic]
    sizes = {each["partition_index"]: each["partition_size"] for each in found["partitions"]}
    assert sizes[0] == 0
    assert sizes[1] > 1000


def test_quorum_has_one_leader_that_votes(kafka_python: KafkaAdminClient) -> None:
    (topic,) = kafka_python.describe_metadata_quorum()["topics"]
    (partition,) = topic["partitions"]
    assert partition["leader_id"] in {voter["replica_id"] for voter in partition["current_voters"]}
    assert partition["high_watermark"] > 0


def test_election_of_a_leader_that_is_there_is_not_needed(
    kafka_python: KafkaAdminClient, bootstrap: str, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(partitions=2)
    # It leaves out partitions that need none.
    assert kafka_python.elect_leaders(0, {topic: [0, 1]}) is not None
    confluent = AdminClient({"bootstrap.servers": bootstrap})
    wanted = [TopicPartition(topic, 0), TopicPartition(topic, 9)]
    elected = confluent.elect_leaders(ElectionType.PREFERRED, wanted)
    errors = {place.partition: error for place, error in elected.result().items()}
    assert errors[0].code() == KafkaError.ELECTION_NOT_NEEDED
    assert errors[9].code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_nothing_is_being_reassigned(kafka_python: KafkaAdminClient, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    assert kafka_python.list_partition_reassignments() == {}
    assert kafka_python.list_partition_reassignments({topic: [0]}) == {}


def test_topics_and_brokers_are_listed_as_what_has_settings(
    kafka_python: KafkaAdminClient, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    found = kafka_python.list_config_resources()
    assert topic in found["topic"]
    assert found["broker"]
    assert set(kafka_python.list_config_resources(["TOPIC"])) == {"topic"}
