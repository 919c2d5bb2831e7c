"""What is read: ListOffsets and Fetch.

fetch reply   throttle i32 | error i16 | session i32
              topics: id | partitions: index i32 | error i16 | high watermark i64 | last stable offset i64
                      | start offset i64 | aborted: producer id i64, first offset i64 | replica i32 | records
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from goqueue.client.kafka.wire.fields import INT32, NO_TAGS, Fields, array, text
from goqueue.client.problems import BadReply

NO_SESSION = 0
_NO_REPLICA = -1
_NO_EPOCH = -1
_BYTES_MIN = 1
_LIST_HEAD = struct.Struct(">ib")
_LIST_PARTITION = struct.Struct(">iiq")
_FOUND = struct.Struct(">ihqqi")
_FETCH_HEAD = struct.Struct(">iiiibii")
_FETCH_PARTITION = struct.Struct(">iiqiqi")
_FETCHED_HEAD = struct.Struct(">ihi")
_FETCHED = struct.Struct(">ihqqq")
_ABORTED = struct.Struct(">qq")
_SESSION_END = -1


class OffsetListed(NamedTuple):
    """Where a place or time lies in a partition; -1 if it lies nowhere. `error` is Kafka's code."""

    topic: str
    partition: int
    error: int
    timestamp_ms: int
    offset: int
    leader_epoch: int


class AbortedTransaction(NamedTuple):
    """Records of the producer are void from the first offset on, up to its next marker."""

    producer_id: int
    first_offset: int


class FetchReply(NamedTuple):
    """What a fetch of one partition brought; `records` may end with a cut batch. `error` is Kafka's code."""

    error: int
    throttle_ms: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[AbortedTransaction, ...]
    records: memoryview


def list_offsets(partitions: Mapping[str, Iterable[int]], timestamp_ms: int, *, is_committed_only: bool) -> bytes:
    """Ask where a time lies; -1 stands for the end and -2 for the start."""
    topics = [
        text(name)
        + array([_LIST_PARTITION.pack(index, _NO_EPOCH, timestamp_ms) + NO_TAGS for index in indexes])
        + NO_TAGS
        for name, indexes in partitions.items()
    ]
    return _LIST_HEAD.pack(_NO_REPLICA, is_committed_only) + array(topics) + NO_TAGS


def read_list_offsets(fields: Fields) -> list[OffsetListed]:
    """Read the answer for each partition."""
    found: list[OffsetListed] = []

    def topic() -> None:
        name = fields.text()

        def partition() -> None:
            index, error, timestamp_ms, offset, leader_epoch = fields.unpack(_FOUND)
            fields.tags()
            found.append(OffsetListed(name, index, error, timestamp_ms, offset, leader_epoch))

        fields.array(partition, item_bytes_min=_FOUND.size + 1)
        fields.tags()

    fields.number(INT32)
    fields.array(topic, item_bytes_min=3)
    fields.tags()
    fields.end()
    return found


def fetch(
    topic_id: UUID,
    partition: int,
    offset: int,
    *,
    leader_epoch: int,
    bytes_max: int,
    wait_ms: int,
    is_committed_only: bool,
) -> bytes:
    """Ask for whole batches of one partition, beginning with the one that holds the offset, or the next that is there.

    The broker answers as soon as there is one byte, and sends one batch in any case, however large.
    """
    wanted = _FETCH_PARTITION.pack(partition, leader_epoch, offset, _NO_EPOCH, -1, bytes_max) + NO_TAGS
    return (
        _FETCH_HEAD.pack(_NO_REPLICA, wait_ms, _BYTES_MIN, bytes_max, is_committed_only, NO_SESSION, _SESSION_END)
        + array([topic_id.bytes + array([wanted]) + NO_TAGS])
        + array([])
        + text("")
        + NO_TAGS
    )


def read_fetch(fields: Fields, topic_id: UUID, partition: int) -> FetchReply:
    """Read the answer about the one partition that was asked for; its records are a view of the reply."""
    throttle_ms, error, _ = fields.unpack(_FETCHED_HEAD)
    if error:
        return FetchReply(error, throttle_ms, -1, -1, -1, (), memoryview(b""))

    def aborted() -> AbortedTransaction:
        found = AbortedTransaction(*fields.unpack(_ABORTED))
        fields.tags()
        return found

    def result() -> FetchReply:
        index, error, high_watermark, last_stable_offset, log_start_offset = fields.unpack(_FETCHED)
        if index != partition:
            raise BadReply(f"the reply is about partition {index}, asked for was {partition}")
        void = tuple(fields.array(aborted, item_bytes_min=_ABORTED.size + 1))
        fields.number(INT32)
        records = fields.view()
        fields.tags()
        return FetchReply(error, throttle_ms, high_watermark, last_stable_offset, log_start_offset, void, records)

    def topic() -> list[FetchReply]:
        named = fields.uuid()
        if named != topic_id:
            raise BadReply(f"the reply is about topic {named}, asked for was {topic_id}")
        results = fields.array(result, item_bytes_min=_FETCHED.size)
        fields.tags()
        return results

    found = [each for results in fields.array(topic, item_bytes_min=17) for each in results]
    fields.tags()
    fields.end()
    if len(found) != 1:
        raise BadReply(f"the reply is about {len(found)} partitions, asked for was one")
    return found[0]
