"""Messages that kafka-python writes are read, and those that it reads are written, in every version that is offered."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from goqueue.kafka_wire.decode import Cursor, decode_request
from goqueue.kafka_wire.encode import encode_response
from goqueue.protocols.kafka.apis import APIS
from tests.protocols.kafka.kafka_python import admin, consumer, metadata


def versions(key: int) -> pytest.MarkDecorator:
    """Run a test with every version of an API."""
    return pytest.mark.parametrize("version", range(APIS[key].first, APIS[key].last + 1))


@versions(3)
def test_metadata_means_the_same_to_kafka_python(version: int) -> None:
    asked = metadata.MetadataRequest(version=version, topics=None if version else [], allow_auto_topic_creation=True)
    request = _decode_theirs(3, version, asked)
    assert request.topics == (None if version else [])

    partition = {"partition_index": 2, "leader_id": 7, "leader_epoch": 4, "replica_nodes": [7], "isr_nodes": [7]}
    topic = {"error_code": 0, "name": "orders", "topic_id": UUID(int=5), "partitions": [partition]}
    broker = {"node_id": 7, "host": "here", "port": 9092, "rack": None}
    body = encode_response(3, version, {"brokers": [broker], "controller_id": 7, "cluster_id": "c", "topics": [topic]})
    told = metadata.MetadataResponse.decode(bytes(body), version=version)
    assert (told.brokers[0].node_id, told.brokers[0].host, told.brokers[0].port) == (7, "here", 9092)
    assert told.topics[0].name == "orders"
    assert told.topics[0].partitions[0].replica_nodes == [7]


@versions(19)
def test_a_topic_that_kafka_python_asks_for_is_read(version: int) -> None:
    topic = admin.CreateTopicsRequest.CreatableTopic(
        name="orders",
        num_partitions=4,
        replication_factor=1,
        assignments=[],
        configs=[admin.CreateTopicsRequest.CreatableTopic.CreatableTopicConfig(name="retention.ms", value="5")],
    )
    asked = admin.CreateTopicsRequest(version=version, topics=[topic], timeout_ms=1234, validate_only=True)
    request = _decode_theirs(19, version, asked)
    assert (request.timeout, request.validate_only) == (1234, True)
    assert (request.topics[0].name, request.topics[0].num_partitions) == ("orders", 4)
    assert (request.topics[0].configs[0].name, request.topics[0].configs[0].value) == ("retention.ms", "5")


@versions(2)
def test_offsets_that_kafka_python_asks_for_are_read(version: int) -> None:
    kinds = consumer.ListOffsetsRequest.ListOffsetsTopic
    partition = kinds.ListOffsetsPartition(partition_index=3, current_leader_epoch=-1, timestamp=-2)
    asked = consumer.ListOffsetsRequest(
        version=version, replica_id=-1, isolation_level=1, topics=[kinds(name="orders", partitions=[partition])]
    )
    request = _decode_theirs(2, version, asked)
    assert request.isolation_level == (1 if version >= 2 else 0)
    assert request.topics[0].partitions[0].timestamp == -2


@versions(32)
def test_settings_are_told_to_kafka_python(version: int) -> None:
    config = {"name": "retention.ms", "value": "5", "config_source": 1, "synonyms": [], "config_type": 5}
    result = {"error_code": 0, "resource_type": 2, "resource_name": "orders", "configs": [config]}
    told = admin.DescribeConfigsResponse.decode(
        bytes(encode_response(32, version, {"results": [result]})), version=version
    )
    assert told.results[0].resource_name == "orders"
    assert (told.results[0].configs[0].name, told.results[0].configs[0].value) == ("retention.ms", "5")


def _decode_theirs(key: int, version: int, asked: Any) -> Any:
    return decode_request(key, version, Cursor(bytes(asked.encode(version=version))))
