"""Writing: InitProducerId, AddPartitionsToTxn, Produce and EndTxn.

A produce request is written by hand, in parts, so that no batch is copied:

    transactional id | acks i16 | timeout i32 | topics: name | partitions: index i32 | size | batch
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from goqueue.client.kafka.wire.frame import ApiVersion, decoded, encoded, unsendable
from goqueue.kafka_wire.encode import uvarint
from goqueue.kafka_wire.frames import NO_TAGS, Buffer

_ACKS_ALL = -1
_NULL = b"\0"
_TERMS = struct.Struct(">hi")
_INDEX = struct.Struct(">i")


class InitReply(NamedTuple):
    """The identity of a producer; `error` is Kafka's code."""

    error: int
    producer_id: int
    epoch: int


class PartitionResult(NamedTuple):
    """The result for one partition of a request; `error` is Kafka's code."""

    topic: str
    partition: int
    error: int
    message: str = ""
    base_offset: int = -1


def init_producer_id(transactional_id: str, timeout_ms: int) -> bytearray:
    """Ask for an identity; the former producer with this transactional id is fenced."""
    request = {"transactional_id": transactional_id, "transaction_timeout": timeout_ms}
    return encoded(ApiVersion.INIT_PRODUCER_ID, request)


def read_init_producer_id(body: memoryview) -> InitReply:
    """Return the answer."""
    reply = decoded(ApiVersion.INIT_PRODUCER_ID, body)
    return InitReply(reply.error_code, reply.producer_id, reply.producer_epoch)


def add_partitions(
    transactional_id: str, producer_id: int, epoch: int, partitions: Mapping[str, Iterable[int]]
) -> bytearray:
    """Ask to add partitions to the transaction."""
    request = {
        "v3_and_below_transactional_id": transactional_id,
        "v3_and_below_producer_id": producer_id,
        "v3_and_below_producer_epoch": epoch,
        "v3_and_below_topics": [{"name": name, "partitions": list(indexes)} for name, indexes in partitions.items()],
    }
    return encoded(ApiVersion.ADD_PARTITIONS_TO_TXN, request)


def read_add_partitions(body: memoryview) -> list[PartitionResult]:
    """Return the answer for each partition."""
    return [
        PartitionResult(topic.name, each.partition_index, each.partition_error_code)
        for topic in decoded(ApiVersion.ADD_PARTITIONS_TO_TXN, body).results_by_topic_v3_and_below
        for each in topic.results_by_partition
    ]


def produce(transactional_id: str | None, timeout_ms: int, batches: Mapping[str, Mapping[int, Buffer]]) -> list[Buffer]:
    """Ask to store batches, and to answer when they are safe. Returned in parts; no batch is copied."""
    id_text = _NULL if transactional_id is None else _text(transactional_id)
    parts: list[Buffer] = [id_text + _TERMS.pack(_ACKS_ALL, timeout_ms) + uvarint(len(batches) + 1)]
    for name, of_topic in batches.items():
        parts.append(_text(name) + uvarint(len(of_topic) + 1))
        for index, batch in of_topic.items():
            parts += (_INDEX.pack(index) + uvarint(len(batch) + 1), batch, NO_TAGS)
        parts.append(NO_TAGS)
    parts.append(NO_TAGS)
    return parts


def read_produce(body: memoryview) -> list[PartitionResult]:
    """Return the answer for each partition."""
    return [
        PartitionResult(topic.name, each.index, each.error_code, each.error_message or "", each.base_offset)
        for topic in decoded(ApiVersion.PRODUCE, body).responses
        for each in topic.partition_responses
    ]


def end_transaction(transactional_id: str, producer_id: int, epoch: int, *, is_commit: bool) -> bytearray:
    """Ask to commit or abort the transaction."""
    request = {
        "transactional_id": transactional_id,
        "producer_id": producer_id,
        "producer_epoch": epoch,
        "committed": is_commit,
    }
    return encoded(ApiVersion.END_TXN, request)


def read_end_transaction(body: memoryview) -> int:
    """Return the error."""
    code: int = decoded(ApiVersion.END_TXN, body).error_code
    return code


def _text(written: str) -> bytes:
    try:
        data = written.encode()
    except UnicodeEncodeError as error:
        raise unsendable(error) from None
    return uvarint(len(data) + 1) + data
