"""Frames of the data client: what kio reads from its requests, what it reads from kio's replies, and bytes by hand."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from goqueue.client.kafka.wire import cluster, reading, writing
from goqueue.client.kafka.wire.frame import ApiVersion, request_frame
from goqueue.client.problems import BadReply
from goqueue.errors import Invalid
from tests.protocols.kafka.messages import Plain, read, request_class, response_class, write
from tests.protocols.kafka.messages import build as kio_message

TOPIC_ID = UUID("0f0e0d0c-0b0a-0908-0706-050403020100")
LONG_NAME = "n" * 249


def as_kio_reads(api: ApiVersion, *body: Any) -> Plain:
    """Return the values of a request's body."""
    return read(request_class(api.key, api.version), b"".join(bytes(part) for part in body))


def as_kio_writes(api: ApiVersion, **values: Any) -> memoryview:
    """Return the body of a reply with these values."""
    return memoryview(write(kio_message(response_class(api.key, api.version), values)))


def test_a_request_for_metadata_names_topics_or_all() -> None:
    named = as_kio_reads(ApiVersion.METADATA, cluster.metadata(["a", LONG_NAME]))
    assert [topic["name"] for topic in named["topics"]] == ["a", LONG_NAME]
    assert as_kio_reads(ApiVersion.METADATA, cluster.metadata([]))["topics"] == []
    every = as_kio_reads(ApiVersion.METADATA, cluster.metadata(None))
    assert every["topics"] is None
    assert every["allow_auto_topic_creation"] is False


def test_metadata_are_read() -> None:
    partition = {"error_code": 5, "partition_index": 3, "leader_id": 7, "leader_epoch": 9, "replica_nodes": [7, 8]}
    fields = as_kio_writes(
        ApiVersion.METADATA,
        brokers=[{"node_id": 7, "host": "here", "port": 9092, "rack": "r"}, {"node_id": 8, "host": "::1", "port": 1}],
        cluster_id="c",
        controller_id=7,
        topics=[
            {"error_code": 3, "name": "gone", "topic_id": TOPIC_ID},
            {"name": "t", "topic_id": TOPIC_ID, "is_internal": True, "partitions": [partition]},
        ],
    )
    assert cluster.read_metadata(fields) == cluster.MetadataReply(
        [cluster.BrokerListed(7, "here", 9092), cluster.BrokerListed(8, "::1", 1)],
        "c",
        [
            cluster.TopicListed(3, "gone", TOPIC_ID, False, []),
            cluster.TopicListed(0, "t", TOPIC_ID, True, [cluster.PartitionListed(5, 3, 7, 9)]),
        ],
    )


def test_a_coordinator_is_asked_for_and_read() -> None:
    asked = as_kio_reads(ApiVersion.FIND_COORDINATOR, cluster.find_coordinator("x"))
    assert (asked["key_type"], asked["coordinator_keys"]) == (1, ["x"])
    found = {"key": "x", "node_id": 2, "host": "h", "port": 3, "error_code": 15, "error_message": "no"}
    reply = cluster.read_coordinator(as_kio_writes(ApiVersion.FIND_COORDINATOR, coordinators=[found]))
    assert reply == cluster.CoordinatorReply(15, "no", cluster.BrokerListed(2, "h", 3))


def test_a_reply_about_more_than_was_asked_for_is_refused() -> None:
    found = {"key": "x", "node_id": 2, "host": "h", "port": 3}
    with pytest.raises(BadReply, match="2 questions where one was asked"):
        cluster.read_coordinator(as_kio_writes(ApiVersion.FIND_COORDINATOR, coordinators=[found, found]))


def test_settings_of_a_broker_are_asked_for_and_read() -> None:
    (asked,) = as_kio_reads(ApiVersion.DESCRIBE_CONFIGS, cluster.describe_broker(12))["resources"]
    assert (asked["resource_type"], asked["resource_name"], asked["configuration_keys"]) == (4, "12", None)
    settings = [
        {"name": "a", "value": "1", "synonyms": [{"name": "b", "value": None, "source": 5}], "documentation": "d"},
        {"name": "secret", "value": None, "is_sensitive": True},
    ]
    result = {"error_code": 0, "resource_type": 4, "resource_name": "12", "configs": settings}
    reply = cluster.read_configs(as_kio_writes(ApiVersion.DESCRIBE_CONFIGS, results=[result]))
    assert reply == cluster.ConfigsReply(0, "", {"a": "1", "secret": None})


def test_the_offered_versions_are_read() -> None:
    keys = [{"api_key": 0, "min_version": 3, "max_version": 12}, {"api_key": 18, "min_version": 0, "max_version": 4}]
    fields = as_kio_writes(ApiVersion.API_VERSIONS, error_code=0, api_keys=keys)
    assert cluster.read_api_versions(fields) == (0, {0: (3, 12), 18: (0, 4)})


@pytest.mark.parametrize("is_committed_only", [True, False])
def test_offsets_are_asked_for_and_read(is_committed_only: bool) -> None:
    asked = as_kio_reads(
        ApiVersion.LIST_OFFSETS,
        reading.list_offsets({"a": [0, 4], "b": [1]}, -2, is_committed_only=is_committed_only),
    )
    assert (asked["replica_id"], asked["isolation_level"]) == (-1, int(is_committed_only))
    assert [(t["name"], [p["partition_index"] for p in t["partitions"]]) for t in asked["topics"]] == [
        ("a", [0, 4]),
        ("b", [1]),
    ]
    assert {p["timestamp"] for t in asked["topics"] for p in t["partitions"]} == {-2}
    part = {"partition_index": 4, "error_code": 3, "timestamp": 5, "offset": 2**40, "leader_epoch": 6}
    fields = as_kio_writes(ApiVersion.LIST_OFFSETS, topics=[{"name": "a", "partitions": [part]}])
    assert reading.read_list_offsets(fields) == [reading.OffsetListed("a", 4, 3, 5, 2**40, 6)]


def test_a_fetch_asks_for_one_partition_without_a_session() -> None:
    body = reading.fetch(TOPIC_ID, 3, 2**40, leader_epoch=7, bytes_max=99, wait_ms=500, is_committed_only=True)
    asked = as_kio_reads(ApiVersion.FETCH, body)
    assert (asked["replica_id"], asked["max_wait"], asked["min_bytes"], asked["max_bytes"]) == (-1, 500, 1, 99)
    assert (asked["isolation_level"], asked["session_id"], asked["session_epoch"]) == (1, 0, -1)
    (topic,) = asked["topics"]
    assert topic["topic_id"] == TOPIC_ID
    (part,) = topic["partitions"]
    assert (part["partition"], part["fetch_offset"], part["current_leader_epoch"]) == (3, 2**40, 7)
    assert (part["partition_max_bytes"], part["log_start_offset"], part["last_fetched_epoch"]) == (99, -1, -1)


def fetched(**part: Any) -> memoryview:
    """Return a reply about partition 3 of the topic."""
    values = {"partition_index": 3, "high_watermark": 12, "last_stable_offset": 11, "log_start_offset": 10, **part}
    return as_kio_writes(ApiVersion.FETCH, responses=[{"topic_id": TOPIC_ID, "partitions": [values]}])


def test_what_was_fetched_is_read() -> None:
    aborted = [{"producer_id": 1, "first_offset": 2}, {"producer_id": 3, "first_offset": 4}]
    records = bytes(range(256)) * 3
    reply = reading.read_fetch(fetched(records=records, aborted_transactions=aborted), TOPIC_ID, 3)
    assert bytes(reply.records) == records
    assert reply.aborted == (reading.AbortedTransaction(1, 2), reading.AbortedTransaction(3, 4))
    assert (reply.error, reply.throttle_ms) == (0, 0)
    assert (reply.high_watermark, reply.last_stable_offset, reply.log_start_offset) == (12, 11, 10)


def test_no_records_and_no_transactions_may_be_null() -> None:
    reply = reading.read_fetch(fetched(records=None, aborted_transactions=None, error_code=1), TOPIC_ID, 3)
    assert (bytes(reply.records), reply.aborted, reply.error) == (b"", (), 1)


def test_what_was_fetched_of_another_partition_or_topic_is_refused() -> None:
    with pytest.raises(BadReply, match="about partition 3, asked for was 4"):
        reading.read_fetch(fetched(records=b""), TOPIC_ID, 4)
    with pytest.raises(BadReply, match="about topic"):
        reading.read_fetch(fetched(records=b""), UUID(int=1), 3)


def test_an_identity_is_asked_for_and_read() -> None:
    asked = as_kio_reads(ApiVersion.INIT_PRODUCER_ID, writing.init_producer_id("x", 5000))
    assert (asked["transactional_id"], asked["transaction_timeout"]) == ("x", 5000)
    assert (asked["producer_id"], asked["producer_epoch"]) == (-1, -1)
    fields = as_kio_writes(ApiVersion.INIT_PRODUCER_ID, error_code=51, producer_id=2**40, producer_epoch=9)
    assert writing.read_init_producer_id(fields) == writing.InitReply(51, 2**40, 9)


def test_partitions_of_a_transaction_are_sent_and_their_results_read() -> None:
    asked = as_kio_reads(ApiVersion.ADD_PARTITIONS_TO_TXN, writing.add_partitions("x", 7, 8, {"a": [0, 2]}))
    assert asked["v3_and_below_transactional_id"] == "x"
    assert (asked["v3_and_below_producer_id"], asked["v3_and_below_producer_epoch"]) == (7, 8)
    assert asked["v3_and_below_topics"] == [{"name": "a", "partitions": [0, 2]}]
    result = {"name": "a", "results_by_partition": [{"partition_index": 2, "partition_error_code": 3}]}
    fields = as_kio_writes(ApiVersion.ADD_PARTITIONS_TO_TXN, results_by_topic_v3_and_below=[result])
    assert writing.read_add_partitions(fields) == [writing.PartitionResult("a", 2, 3)]


def test_batches_are_sent_uncopied_and_their_results_read() -> None:
    batch = b"b" * 300
    parts = writing.produce("x", 7, {"a": {0: batch, 5: b"c"}, LONG_NAME: {1: b""}})
    assert any(part is batch for part in parts)
    asked = as_kio_reads(ApiVersion.PRODUCE, *parts)
    assert (asked["transactional_id"], asked["acks"], asked["timeout"]) == ("x", -1, 7)
    assert {
        (topic["name"], part["index"]): bytes(part["records"])
        for topic in asked["topic_data"]
        for part in topic["partition_data"]
    } == {("a", 0): batch, ("a", 5): b"c", (LONG_NAME, 1): b""}
    error = {"batch_index": 0, "batch_index_error_message": "bad"}
    part = {"index": 5, "error_code": 87, "base_offset": 3, "record_errors": [error], "error_message": "no"}
    fields = as_kio_writes(ApiVersion.PRODUCE, responses=[{"name": "a", "partition_responses": [part]}])
    assert writing.read_produce(fields) == [writing.PartitionResult("a", 5, 87, "no", 3)]


@pytest.mark.parametrize("is_commit", [True, False])
def test_an_end_is_asked_for_and_read(is_commit: bool) -> None:
    asked = as_kio_reads(ApiVersion.END_TXN, writing.end_transaction("x", 7, 8, is_commit=is_commit))
    assert asked == {"transactional_id": "x", "producer_id": 7, "producer_epoch": 8, "committed": is_commit}
    assert writing.read_end_transaction(as_kio_writes(ApiVersion.END_TXN, error_code=48)) == 48


def test_a_frame_says_what_it_is_and_how_long() -> None:
    body = writing.end_transaction("x", 1, 2, is_commit=True)
    assert b"".join(map(bytes, request_frame(ApiVersion.END_TXN, 7, b"me", [body]))) == bytes.fromhex(
        "0000001b"  # 27 bytes follow
        "001a 0004 00000007 0002 6d65 00"  # EndTxn, version 4, request 7, client "me", no tags
        "02 78 0000000000000001 0002 01 00"  # "x", producer 1, epoch 2, commit, no tags
    )
    greeting = b"".join(map(bytes, request_frame(ApiVersion.API_VERSIONS, 1, b"me", ())))
    assert greeting == bytes.fromhex("0000000c 0012 0000 00000001 0002 6d65")


def test_text_that_cannot_be_sent_is_refused() -> None:
    with pytest.raises(Invalid, match="cannot be sent"):
        cluster.metadata(["\ud800"])
