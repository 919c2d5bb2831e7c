"""The few Kafka frames that the raw client of the benchmarks sends and reads, built by hand.

Written apart from the broker's own protocol code on purpose: a benchmark that shared it would not notice if both were
wrong. Each request has one fixed version, which brokers of many years understand.

| request      | version | why this one                                             |
|--------------|---------|----------------------------------------------------------|
| Produce      | 9       | the first flexible one, what current clients come near to |
| Fetch        | 11      | the last one before the flexible ones                    |
| ListOffsets  | 1       | the first one with a single offset                       |
| CreateTopics | 4       | defaults for partitions and replicas                     |
| DeleteTopics | 1       |                                                          |

A request is `length i32 | api i16 | version i16 | correlation i32 | client string | body`; flexible ones have an empty
tag section behind the client, and lengths in them are varints of the length plus one. The frames of groups are in
`kafka_group_wire`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

PRODUCE, FETCH, LIST_OFFSETS, CREATE_TOPICS, DELETE_TOPICS = 0, 1, 2, 19, 20
ACKS_ALL, ACKS_LEADER = -1, 1
LATEST = -1

NO_TAGS = b"\0"

_CLIENT = b"goqueue-bench"
_TIMEOUT_MS = 30_000
_HEADER = struct.Struct(">hhih")
_PRODUCED = struct.Struct(">ihq")
_FETCHED = struct.Struct(">ihqqqi")
_LENGTH = struct.Struct(">i")
_SHORT = struct.Struct(">h")


class ProduceReply(NamedTuple):
    """What became of the one batch of a produce request."""

    correlation_id: int
    error: int
    base_offset: int


class FetchReply(NamedTuple):
    """What a fetch of one partition brought; `records` are whole batches, as stored."""

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
        + varint(len(name) + 1)
        + name
        + b"\x02"  # one partition
        + _LENGTH.pack(partition)
        + varint(len(batch) + 1)
        + batch
        + NO_TAGS * 3
    )
    return request_frame(PRODUCE, 9, correlation_id, body, is_flexible=True)


def parse_produce_reply(frame: memoryview, topic: str) -> ProduceReply:
    """Read a reply, without its length; it holds one partition of the topic that was sent."""
    (correlation_id,) = _LENGTH.unpack_from(frame)
    # Correlation id, tags, one topic, its name, one partition.
    position = 4 + 1 + 1 + len(varint(len(topic) + 1)) + len(topic) + 1
    _, error, base_offset = _PRODUCED.unpack_from(frame, position)
    return ProduceReply(correlation_id, error, base_offset)


def fetch_request(
    topic: str, partition: int, offset: int, *, bytes_max: int, wait_ms: int = 500, correlation_id: int = 0
) -> bytes:
    """Return a whole frame that asks for one partition from an offset on, without a fetch session."""
    body = (
        struct.pack(">iiiibii", -1, wait_ms, 1, bytes_max, 0, 0, -1)
        + _LENGTH.pack(1)
        + string(topic)
        + _LENGTH.pack(1)
        + struct.pack(">iiqqi", partition, -1, offset, -1, bytes_max)
        + _LENGTH.pack(0)
        + string("")
    )
    return request_frame(FETCH, 11, correlation_id, body)


def parse_fetch_reply(frame: memoryview) -> FetchReply:
    """Read a reply, without its length, that holds one partition of one topic, or an error of the whole fetch."""
    _, _, error, _, topics = struct.unpack_from(">iihii", frame)
    if error or topics == 0:
        return FetchReply(error, -1, frame[:0])
    position = 4 + 4 + 2 + 4 + 4
    (name_bytes,) = _SHORT.unpack_from(frame, position)
    position += 2 + name_bytes + 4
    _, error, high_watermark, _, _, aborted = _FETCHED.unpack_from(frame, position)
    # Aborted transactions have two numbers of eight bytes each; behind them comes the preferred replica.
    position += _FETCHED.size + 16 * max(0, aborted) + 4
    (size,) = _LENGTH.unpack_from(frame, position)
    position += 4
    return FetchReply(error, high_watermark, frame[position : position + max(0, size)])


def end_offset_request(topic: str, partition: int) -> bytes:
    """Return a whole frame that asks where the next record of a partition will be."""
    body = _LENGTH.pack(-1) + _LENGTH.pack(1) + string(topic) + _LENGTH.pack(1) + struct.pack(">iq", partition, LATEST)
    return request_frame(LIST_OFFSETS, 1, 0, body)


def parse_end_offset_reply(frame: memoryview, topic: str) -> tuple[int, int]:
    """Return error and offset."""
    # Correlation id, one topic, its name, one partition.
    position = 4 + 4 + 2 + len(topic) + 4
    _, error, _, offset = struct.unpack_from(">ihqq", frame, position)
    return error, offset


def create_topic_request(topic: str, partitions: int, settings: Mapping[str, str]) -> bytes:
    """Return a whole frame that makes a topic with one replica."""
    return create_topics_request([topic], partitions, settings)


def create_topics_request(topics: Sequence[str], partitions: int, settings: Mapping[str, str]) -> bytes:
    """Return a whole frame that makes topics that are alike but for their names."""
    shape = (
        struct.pack(">ihi", partitions, 1, 0)
        + _LENGTH.pack(len(settings))
        + b"".join(string(name) + string(value) for name, value in settings.items())
    )
    body = _LENGTH.pack(len(topics)) + b"".join(string(topic) + shape for topic in topics)
    return request_frame(CREATE_TOPICS, 4, 0, body + struct.pack(">ib", _TIMEOUT_MS, 0))


def parse_create_topics_reply(frame: memoryview) -> dict[str, int]:
    """Return the error of each topic."""
    errors = {}
    position = 4 + 4
    count = _LENGTH.unpack_from(frame, position)[0]
    position += 4
    for _ in range(count):
        size = _SHORT.unpack_from(frame, position)[0]
        name = bytes(frame[position + 2 : position + 2 + size]).decode()
        errors[name], message = struct.unpack_from(">hh", frame, position + 2 + size)
        position += 2 + size + 4 + max(0, message)
    return errors


def parse_create_topic_reply(frame: memoryview, topic: str) -> tuple[int, str]:
    """Return error and what the broker says about it."""
    # Correlation id, throttle time, one topic, its name.
    position = 4 + 4 + 4 + 2 + len(topic)
    error, size = struct.unpack_from(">hh", frame, position)
    return error, bytes(frame[position + 4 : position + 4 + max(0, size)]).decode()


def delete_topic_request(topic: str) -> bytes:
    """Return a whole frame that removes a topic."""
    return request_frame(DELETE_TOPICS, 1, 0, _LENGTH.pack(1) + string(topic) + _LENGTH.pack(_TIMEOUT_MS))


def parse_delete_topic_reply(frame: memoryview, topic: str) -> int:
    """Return the error."""
    error: int = _SHORT.unpack_from(frame, 4 + 4 + 4 + 2 + len(topic))[0]
    return error


def request_frame(api: int, version: int, correlation_id: int, body: bytes, *, is_flexible: bool = False) -> bytes:
    """Return a whole frame with a body."""
    header = _HEADER.pack(api, version, correlation_id, len(_CLIENT)) + _CLIENT + (NO_TAGS if is_flexible else b"")
    return _LENGTH.pack(len(header) + len(body)) + header + body


def string(text: str) -> bytes:
    """Return a string as requests have it that are not flexible."""
    data = text.encode()
    return _SHORT.pack(len(data)) + data


def varint(number: int) -> bytes:
    """Return a number as flexible requests have it."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
