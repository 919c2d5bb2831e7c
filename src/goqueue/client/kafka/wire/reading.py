"""Reading: ListOffsets and Fetch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from goqueue.client.kafka.wire.frame import ApiVersion, decoded, encoded
from goqueue.client.problems import BadReply

_NO_REPLICA = -1
_NO_EPOCH = -1
_NO_SESSION = 0
_BYTES_MIN = 1


class OffsetListed(NamedTuple):
    """The offset of a timestamp in a partition; -1 if there is none. `error` is Kafka's code."""

    topic: str
    partition: int
    error: int
    timestamp_ms: int
    offset: int
    leader_epoch: int


class AbortedTransaction(NamedTuple):
    """Records of the producer are aborted from the first offset on, up to its next marker."""

    producer_id: int
    first_offset: int


class FetchReply(NamedTuple):
    """The result of a fetch of one partition; `records` may end with a cut batch. `error` is Kafka's code."""

    error: int
    throttle_ms: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[AbortedTransaction, ...]
    records: memoryview


def list_offsets(partitions: Mapping[str, Iterable[int]], timestamp_ms: int, *, is_committed_only: bool) -> bytearray:
    """Ask for the offset of a timestamp; -1 stands for the end and -2 for the start."""
    topics = [
        {"name": name, "partitions": [{"partition_index": index, "timestamp": timestamp_ms} for index in indexes]}
        for name, indexes in partitions.items()
    ]
    request = {"replica_id": _NO_REPLICA, "isolation_level": int(is_committed_only), "topics": topics}
    return encoded(ApiVersion.LIST_OFFSETS, request)


def read_list_offsets(body: memoryview) -> list[OffsetListed]:
    """Return the answer for each partition."""
    return [
        OffsetListed(topic.name, each.partition_index, each.error_code, each.timestamp, each.offset, each.leader_epoch)
        for topic in decoded(ApiVersion.LIST_OFFSETS, body).topics
        for each in topic.partitions
    ]


def fetch(
    topic_id: UUID,
    partition: int,
    offset: int,
    *,
    leader_epoch: int,
    bytes_max: int,
    wait_ms: int,
    is_committed_only: bool,
) -> bytearray:
    """Ask for whole batches of one partition, beginning with the first that ends at or after the offset.

    The broker answers as soon as there is one byte, and sends one batch in any case, however large.
    """
    wanted = {
        "partition": partition,
        "current_leader_epoch": leader_epoch,
        "fetch_offset": offset,
        "last_fetched_epoch": _NO_EPOCH,
        "log_start_offset": -1,
        "partition_max_bytes": bytes_max,
    }
    request = {
        "replica_id": _NO_REPLICA,
        "max_wait": wait_ms,
        "min_bytes": _BYTES_MIN,
        "max_bytes": bytes_max,
        "isolation_level": int(is_committed_only),
        "session_id": _NO_SESSION,
        "session_epoch": -1,
        "topics": [{"topic_id": topic_id, "partitions": [wanted]}],
    }
    return encoded(ApiVersion.FETCH, request)


def read_fetch(body: memoryview, topic_id: UUID, partition: int) -> FetchReply:
    """Return the answer about the one partition that was asked for; its records are a view of the reply."""
    reply = decoded(ApiVersion.FETCH, body)
    if reply.error_code:
        return FetchReply(reply.error_code, reply.throttle_time, -1, -1, -1, (), memoryview(b""))
    found = [(topic.topic_id, each) for topic in reply.responses for each in topic.partitions]
    if len(found) != 1:
        raise BadReply(f"the reply is about {len(found)} partitions, asked for was one")
    ((answered_id, result),) = found
    if answered_id != topic_id:
        raise BadReply(f"the reply is about topic {answered_id}, asked for was {topic_id}")
    if result.partition_index != partition:
        raise BadReply(f"the reply is about partition {result.partition_index}, asked for was {partition}")
    aborted = (AbortedTransaction(each.producer_id, each.first_offset) for each in result.aborted_transactions or ())
    return FetchReply(
        result.error_code,
        reply.throttle_time,
        result.high_watermark,
        result.last_stable_offset,
        result.log_start_offset,
        tuple(aborted),
        memoryview(b"") if result.records is None else result.records,
    )
