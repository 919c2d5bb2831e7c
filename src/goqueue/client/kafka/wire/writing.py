"""What is written: InitProducerId, AddPartitionsToTxn, Produce and EndTxn."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from goqueue.client.kafka.wire.fields import INT32, NO_TAGS, Fields, array, numbers, text, varint
from goqueue.client.kafka.wire.frame import Buffer

_ACKS_ALL = -1
_NO_PRODUCER = struct.pack(">qh", -1, -1)
_IDENTITY = struct.Struct(">qh")
_INITIALISED = struct.Struct(">ihqh")
_ADDED = struct.Struct(">ih")
_ENDED = struct.Struct(">ih")
_TERMS = struct.Struct(">hi")
_PRODUCED = struct.Struct(">ihqqq")


class InitReply(NamedTuple):
    """The identity of a producer; `error` is Kafka's code."""

    error: int
    producer_id: int
    epoch: int


class PartitionResult(NamedTuple):
    """What became of one partition of a request; `error` is Kafka's code."""

    topic: str
    partition: int
    error: int
    message: str = ""
    base_offset: int = -1


def init_producer_id(transactional_id: str, timeout_ms: int) -> bytes:
    """Ask for an identity; whoever had one for this id is fenced."""
    return text(transactional_id) + INT32.pack(timeout_ms) + _NO_PRODUCER + NO_TAGS


def read_init_producer_id(fields: Fields) -> InitReply:
    """Read the answer."""
    _, error, producer_id, epoch = fields.unpack(_INITIALISED)
    fields.tags()
    fields.end()
    return InitReply(error, producer_id, epoch)


def add_partitions(
    transactional_id: str, producer_id: int, epoch: int, partitions: Mapping[str, Iterable[int]]
) -> bytes:
    """Ask that partitions become part of the transaction."""
    topics = [text(name) + numbers(indexes) + NO_TAGS for name, indexes in partitions.items()]
    return text(transactional_id) + _IDENTITY.pack(producer_id, epoch) + array(topics) + NO_TAGS


def read_add_partitions(fields: Fields) -> list[PartitionResult]:
    """Read the answer for each partition."""

    def read_result(topic: str) -> PartitionResult:
        index, error = fields.unpack(_ADDED)
        fields.tags()
        return PartitionResult(topic, index, error)

    fields.number(INT32)
    return _by_topic(fields, read_result, item_bytes_min=_ADDED.size + 1)


def produce(transactional_id: str | None, timeout_ms: int, batches: Mapping[str, Mapping[int, Buffer]]) -> list[Buffer]:
    """Ask that batches be stored, and be safe before the answer comes. Returned in parts; no batch is copied."""
    parts: list[Buffer] = [text(transactional_id) + _TERMS.pack(_ACKS_ALL, timeout_ms) + varint(len(batches) + 1)]
    for name, of_topic in batches.items():
        parts.append(text(name) + varint(len(of_topic) + 1))
        for index, batch in of_topic.items():
            parts += (INT32.pack(index) + varint(len(batch) + 1), batch, NO_TAGS)
        parts.append(NO_TAGS)
    parts.append(NO_TAGS)
    return parts


def read_produce(fields: Fields) -> list[PartitionResult]:
    """Read the answer for each partition."""

    def record_error() -> None:
        fields.number(INT32)
        fields.nullable_text()
        fields.tags()

    def read_result(topic: str) -> PartitionResult:
        index, error, base_offset, _, _ = fields.unpack(_PRODUCED)
        fields.array(record_error, item_bytes_min=6)
        message = fields.nullable_text() or ""
        fields.tags()
        return PartitionResult(topic, index, error, message, base_offset)

    return _by_topic(fields, read_result, item_bytes_min=_PRODUCED.size + 3, is_throttle_last=True)


def end_transaction(transactional_id: str, producer_id: int, epoch: int, *, is_commit: bool) -> bytes:
    """Ask that the transaction be committed or aborted."""
    return text(transactional_id) + _IDENTITY.pack(producer_id, epoch) + bytes((is_commit,)) + NO_TAGS


def read_end_transaction(fields: Fields) -> int:
    """Return the error."""
    _, error = fields.unpack(_ENDED)
    fields.tags()
    fields.end()
    return error


def _by_topic(
    fields: Fields,
    read_result: Callable[[str], PartitionResult],
    *,
    item_bytes_min: int,
    is_throttle_last: bool = False,
) -> list[PartitionResult]:
    found: list[PartitionResult] = []

    def topic() -> None:
        name = fields.text()
        found.extend(fields.array(lambda: read_result(name), item_bytes_min=item_bytes_min))
        fields.tags()

    fields.array(topic, item_bytes_min=3)
    if is_throttle_last:
        fields.number(INT32)
    fields.tags()
    fields.end()
    return found
