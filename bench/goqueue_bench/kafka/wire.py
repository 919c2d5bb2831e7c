"""The few Kafka frames that the raw client of the benchmarks sends and reads.

Each request has one fixed version, which brokers of many years understand. Produce and Fetch are written and read by
hand, so that the client costs as little as possible; the others by `goqueue.kafka_wire`.

| request      | version | why this one                                             |
|--------------|---------|----------------------------------------------------------|
| Produce      | 9       | the first flexible one, close to what current clients use |
| Fetch        | 11      | the last one before the flexible ones                    |
| ListOffsets  | 1       | the first one with a single offset                       |
| CreateTopics | 4       | defaults for partitions and replicas                     |
| DeleteTopics | 1       |                                                          |

The frames of groups are in `group_wire`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from goqueue.kafka_wire import frames
from goqueue.kafka_wire.decode import Response, decode_response
from goqueue.kafka_wire.encode import Values, uvarint
from goqueue.kafka_wire.frames import NO_TAGS

ACKS_ALL, ACKS_LEADER = -1, 1
LATEST = -1

_CLIENT = b"goqueue-bench"
_TIMEOUT_MS = 30_000
_PRODUCE, _FETCH, _LIST_OFFSETS, _CREATE_TOPICS, _DELETE_TOPICS = (0, 9), (1, 11), (2, 1), (19, 4), (20, 1)
_PRODUCED = struct.Struct(">ihq")
_FETCHED = struct.Struct(">ihqqqi")
_LENGTH = struct.Struct(">i")
_SHORT = struct.Struct(">h")


class ProduceReply(NamedTuple):
    """The result for the one batch of a produce request."""

    correlation_id: int
    error: int
    base_offset: int


class FetchReply(NamedTuple):
    """The result of a fetch of one partition; `records` are whole batches, as stored."""

    error: int
    high_watermark: int
    records: memoryview


def produce_request(topic: str, partition: int, batch: bytes, *, acks: int, correlation_id: int = 0) -> bytes:
    """Return a whole frame with one batch for one partition."""
    name = topic.encode()
    body = (
        b"\0"  # no transactional id
        + struct.pack(">hi", acks, _TIMEOUT_MS)
        + b"\x02"  # one topic
        + uvarint(len(name) + 1)
        + name
        + b"\x02"  # one partition
        + _LENGTH.pack(partition)
        + uvarint(len(batch) + 1)
        + batch
        + NO_TAGS * 3
    )
    return _framed(_PRODUCE, correlation_id, body)


def parse_produce_reply(frame: memoryview, topic: str) -> ProduceReply:
    """Read a reply, without its length; it holds one partition of the topic that was sent."""
    (correlation_id,) = _LENGTH.unpack_from(frame)
    # Correlation id, tags, one topic, its name, one partition.
    position = 4 + 1 + 1 + len(uvarint(len(topic) + 1)) + len(topic) + 1
    _, error, base_offset = _PRODUCED.unpack_from(frame, position)
    return ProduceReply(correlation_id, error, base_offset)


def fetch_request(
    topic: str, partition: int, offset: int, *, bytes_max: int, wait_ms: int = 500, correlation_id: int = 0
) -> bytes:
    """Return a whole frame that asks for one partition from an offset on, without a fetch session."""
    body = (
        struct.pack(">iiiibii", -1, wait_ms, 1, bytes_max, 0, 0, -1)
        + _LENGTH.pack(1)
        + _string(topic)
        + _LENGTH.pack(1)
        + struct.pack(">iiqqi", partition, -1, offset, -1, bytes_max)
        + _LENGTH.pack(0)
        + _string("")
    )
    return _framed(_FETCH, correlation_id, body)


def parse_fetch_reply(frame: memoryview) -> FetchReply:
    """Read a reply, without its length, that holds one partition of one topic, or an error of the whole fetch."""
    _, _, error, _, topics = struct.unpack_from(">iihii", frame)
    if error or topics == 0:
        return FetchReply(error, -1, frame[:0])
    position = 4 + 4 + 2 + 4 + 4
    (name_bytes,) = _SHORT.unpack_from(frame, position)
    position += 2 + name_bytes + 4
    _, error, high_watermark, _, _, aborted = _FETCHED.unpack_from(frame, position)
    # Aborted transactions have two numbers of eight bytes each; the preferred replica follows.
    position += _FETCHED.size + 16 * max(0, aborted) + 4
    (size,) = _LENGTH.unpack_from(frame, position)
    position += 4
    return FetchReply(error, high_watermark, frame[position : position + max(0, size)])


def end_offset_request(topic: str, partition: int) -> bytes:
    """Return a whole frame that asks for the offset after the last record of a partition."""
    partitions = [{"partition_index": partition, "timestamp": LATEST}]
    return request_frame(*_LIST_OFFSETS, {"replica_id": -1, "topics": [{"name": topic, "partitions": partitions}]})


def parse_end_offset_reply(frame: memoryview) -> tuple[int, int]:
    """Return error and offset of the one partition that was asked for."""
    found = parse_reply(*_LIST_OFFSETS, frame).topics[0].partitions[0]
    return found.error_code, found.offset


def create_topics_request(topics: Sequence[str], partitions: int, settings: Mapping[str, str]) -> bytes:
    """Return a whole frame that creates topics with one replica, all with the same settings."""
    configs = [{"name": name, "value": value} for name, value in settings.items()]
    shape = {"num_partitions": partitions, "replication_factor": 1, "configs": configs}
    wanted = [{"name": topic, **shape} for topic in topics]
    return request_frame(*_CREATE_TOPICS, {"topics": wanted, "timeout": _TIMEOUT_MS})


def parse_create_topics_reply(frame: memoryview) -> dict[str, tuple[int, str]]:
    """Return the error of each topic, and the broker's message about it."""
    topics = parse_reply(*_CREATE_TOPICS, frame).topics
    return {topic.name: (topic.error_code, topic.error_message or "") for topic in topics}


def delete_topic_request(topic: str) -> bytes:
    """Return a whole frame that deletes a topic."""
    return request_frame(*_DELETE_TOPICS, {"topic_names": [topic], "timeout": _TIMEOUT_MS})


def parse_delete_topic_reply(frame: memoryview) -> int:
    """Return the error."""
    error: int = parse_reply(*_DELETE_TOPICS, frame).responses[0].error_code
    return error


def request_frame(api: int, version: int, request: Values) -> bytes:
    """Return a whole frame."""
    return frames.request_frame(api, version, 0, _CLIENT, request)


def parse_reply(api: int, version: int, frame: memoryview) -> Response:
    """Read a reply to the request with correlation id 0, without its length."""
    return decode_response(api, version, frames.reply_body(api, version, 0, frame))


def _framed(api: tuple[int, int], correlation_id: int, body: bytes) -> bytes:
    return frames.request_head(*api, correlation_id, _CLIENT, len(body)) + body


def _string(text: str) -> bytes:
    data = text.encode()
    return _SHORT.pack(len(data)) + data
