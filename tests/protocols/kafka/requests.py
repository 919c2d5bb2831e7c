"""Requests as plain values, and the parts of replies that tests look at; one partition of one topic each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from tests.protocols.kafka.messages import Plain
from tests.protocols.kafka.raw import (
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_RECORDS,
    DELETE_TOPICS,
    FETCH,
    INCREMENTAL_ALTER_CONFIGS,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    METADATA,
    PRODUCE,
    RawClient,
)

LATEST, EARLIEST = -1, -2
ALL, LEADER, NONE = -1, 1, 0


def produce(topic: str, batch: bytes | bytearray, *, partition: int = 0, acks: int = ALL) -> Plain:
    """Return a Produce request up to version 12."""
    part = {"index": partition, "records": bytes(batch)}
    return {"acks": acks, "timeout": 1000, "topic_data": [{"name": topic, "partition_data": [part]}]}


def produced(reply: Plain) -> Plain:
    """Return the result of the one partition."""
    result: Plain = reply["responses"][0]["partition_responses"][0]
    return result


def fetch(
    topic: str | UUID,
    offset: int,
    *,
    partition: int = 0,
    wait_ms: int = 0,
    bytes_min: int = 1,
    bytes_max: int = 2**31 - 1,
    epoch: int = -1,
) -> Plain:
    """Return a Fetch request, by name up to version 12, by id from 13 on."""
    part = {
        "partition": partition,
        "fetch_offset": offset,
        "partition_max_bytes": bytes_max,
        "current_leader_epoch": epoch,
        "log_start_offset": -1,
    }
    named = {"topic": topic} if isinstance(topic, str) else {"topic_id": topic}
    return {
        "replica_id": -1,
        "max_wait": wait_ms,
        "min_bytes": bytes_min,
        "max_bytes": bytes_max,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{**named, "partitions": [part]}],
    }


def fetched(reply: Plain) -> Plain:
    """Return the result of the one partition."""
    result: Plain = reply["responses"][0]["partitions"][0]
    return result


async def create_topic(
    client: RawClient, name: str, *, partitions: int = 1, config: Mapping[str, str] | None = None
) -> Plain:
    """Make a topic and return the result."""
    configs = [{"name": key, "value": value} for key, value in (config or {}).items()]
    topic = {"name": name, "num_partitions": partitions, "replication_factor": 1, "configs": configs}
    reply = await client.call(CREATE_TOPICS, 7, {"topics": [topic], "timeout": 1000})
    result: Plain = reply["topics"][0]
    return result


async def delete_topic(client: RawClient, name: str) -> int:
    """Delete a topic and return the error code."""
    reply = await client.call(DELETE_TOPICS, 6, {"topics": [{"name": name}], "timeout": 1000})
    return int(reply["responses"][0]["error_code"])


async def grow_topic(client: RawClient, name: str, partitions: int) -> int:
    """Give a topic more partitions and return the error code."""
    reply = await client.call(CREATE_PARTITIONS, 3, {"topics": [{"name": name, "count": partitions}], "timeout": 1000})
    return int(reply["results"][0]["error_code"])


async def set_config(client: RawClient, topic: str, config: Mapping[str, str]) -> int:
    """Change single settings of a topic and return the error code."""
    changes = [{"name": name, "config_operation": 0, "value": value} for name, value in config.items()]
    resource = {"resource_type": 2, "resource_name": topic, "configs": changes}
    reply = await client.call(INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [resource]})
    return int(reply["responses"][0]["error_code"])


async def delete_records(client: RawClient, topic: str, offset: int, *, partition: int = 0) -> Plain:
    """Delete records before an offset and return the result."""
    part = {"partition_index": partition, "offset": offset}
    reply = await client.call(DELETE_RECORDS, 2, {"topics": [{"name": topic, "partitions": [part]}], "timeout": 1000})
    result: Plain = reply["topics"][0]["partitions"][0]
    return result


async def offset_at(client: RawClient, topic: str, where: int, *, partition: int = 0) -> Plain:
    """Look up an offset and return the result."""
    part = {"partition_index": partition, "timestamp": where, "current_leader_epoch": -1}
    reply = await client.call(LIST_OFFSETS, 7, {"replica_id": -1, "topics": [{"name": topic, "partitions": [part]}]})
    result: Plain = reply["topics"][0]["partitions"][0]
    return result


async def new_producer(client: RawClient) -> int:
    """Return a new producer id, or -1."""
    reply = await client.call(INIT_PRODUCER_ID, 4, {"transactional_id": None})
    return int(reply["producer_id"])


async def metadata(client: RawClient, *names: str, may_create: bool = False) -> dict[str, Any]:
    """Return what is said of topics, by name; without names, of all."""
    topics = [{"name": name} for name in names] or None
    reply = await client.call(METADATA, 12, {"topics": topics, "allow_auto_topic_creation": may_create})
    return {topic["name"]: topic for topic in reply["topics"]}


async def publish(client: RawClient, topic: str, batch: bytes | bytearray, *, partition: int = 0) -> Plain:
    """Publish with acks=all and return the result."""
    return produced(await client.call(PRODUCE, 9, produce(topic, batch, partition=partition)))


async def read(client: RawClient, topic: str, offset: int, *, partition: int = 0, wait_ms: int = 0) -> Plain:
    """Fetch and return the result."""
    return fetched(await client.call(FETCH, 11, fetch(topic, offset, partition=partition, wait_ms=wait_ms)))
