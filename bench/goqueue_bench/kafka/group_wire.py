"""The frames of groups that the raw client of the benchmarks sends and reads: how far they are, and who is in them.

Written apart from the broker's own protocol code, like those of `kafka_wire`. Each request has one fixed version.

| request                | version | why this one                                              |
|------------------------|---------|-----------------------------------------------------------|
| OffsetCommit           | 8       | the first flexible one, what current clients come near to |
| OffsetFetch            | 5       | the last one before the flexible ones                     |
| FindCoordinator        | 0       |                                                           |
| DeleteGroups           | 1       | the last one before the flexible ones                     |
| ConsumerGroupHeartbeat | 1       | the first one of brokers that offer it by default         |
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from goqueue_bench.kafka.wire import NO_TAGS, request_frame, string, varint

OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR, DELETE_GROUPS, CONSUMER_GROUP_HEARTBEAT = 8, 9, 10, 42, 68
JOIN_EPOCH, LEAVE_EPOCH = 0, -1

_NO_MEMBER = -1
_NO_EPOCH = -1
_UNCHANGED_MS = -1
_ID_BYTES = 16
_COMMITTED = struct.Struct(">iqi")
_FETCHED = struct.Struct(">iqih")
_NUMBER = struct.Struct(">i")


class HeartbeatReply(NamedTuple):
    """What a member is told; `partitions` is None if they are those that it knows, else of the one topic with an id."""

    error: int
    message: str
    epoch: int
    interval_ms: int
    topic_id: bytes
    partitions: frozenset[int] | None


def offset_commit_request(group: str, topic: str, offsets: Mapping[int, int]) -> bytes:
    """Return a whole frame that sets offsets, by partition, of a group without members."""
    body = bytearray(_compact(group))
    body += _NUMBER.pack(_NO_MEMBER) + _compact("") + _compact(None)
    body += varint(2) + _compact(topic) + varint(len(offsets) + 1)
    for partition, offset in offsets.items():
        body += _COMMITTED.pack(partition, offset, _NO_EPOCH) + _compact("") + NO_TAGS
    return request_frame(OFFSET_COMMIT, 8, 0, bytes(body + NO_TAGS * 2), is_flexible=True)


def parse_offset_commit_reply(frame: memoryview, topic: str, partitions: int) -> list[int]:
    """Return the error of each of so many partitions of the one topic that was sent."""
    # Correlation id, tags, throttle time, one topic, its name, the count of its partitions.
    position = 4 + 1 + 4 + 1 + len(varint(len(topic) + 1)) + len(topic) + len(varint(partitions + 1))
    return [error for _, error, _ in struct.iter_unpack(">ihb", frame[position : position + 7 * partitions])]


def offset_fetch_request(group: str, topic: str, partitions: Iterable[int]) -> bytes:
    """Return a whole frame that asks for offsets of a group."""
    wanted = list(partitions)
    body = string(group) + _NUMBER.pack(1) + string(topic) + struct.pack(f">i{len(wanted)}i", len(wanted), *wanted)
    return request_frame(OFFSET_FETCH, 5, 0, body)


def parse_offset_fetch_reply(frame: memoryview, topic: str) -> tuple[int, dict[int, int]]:
    """Return the first error there is, or none, and the offsets of the one topic that was asked for."""
    # Correlation id, throttle time, one topic, its name.
    position = 4 + 4 + 4 + 2 + len(topic)
    (count,) = _NUMBER.unpack_from(frame, position)
    position += 4
    errors: list[int] = []
    offsets: dict[int, int] = {}
    for _ in range(count):
        partition, offset, _, metadata_bytes = _FETCHED.unpack_from(frame, position)
        position += _FETCHED.size + max(0, metadata_bytes)
        errors += struct.unpack_from(">h", frame, position)
        position += 2
        offsets[partition] = offset
    errors += struct.unpack_from(">h", frame, position)
    return next(filter(None, errors), 0), offsets


def find_coordinator_request(group: str) -> bytes:
    """Return a whole frame that asks who looks after a group."""
    return request_frame(FIND_COORDINATOR, 0, 0, string(group))


def parse_find_coordinator_reply(frame: memoryview) -> int:
    """Return the error."""
    error: int = struct.unpack_from(">h", frame, 4)[0]
    return error


def delete_group_request(group: str) -> bytes:
    """Return a whole frame that removes a group."""
    return request_frame(DELETE_GROUPS, 1, 0, _NUMBER.pack(1) + string(group))


def parse_delete_group_reply(frame: memoryview, group: str) -> int:
    """Return the error."""
    # Correlation id, throttle time, one group, its name.
    error: int = struct.unpack_from(">h", frame, 4 + 4 + 4 + 2 + len(group))[0]
    return error


def heartbeat_request(
    group: str,
    member_id: str,
    epoch: int,
    *,
    topics: Iterable[str] | None = None,
    owned: tuple[bytes, Iterable[int]] | None = None,
    rebalance_timeout_ms: int = _UNCHANGED_MS,
) -> bytes:
    """Return a whole frame of a member that says what is new with it; what it owns is of one topic, by its id."""
    body = bytearray(_compact(group) + _compact(member_id))
    body += _NUMBER.pack(epoch) + _compact(None) * 2 + _NUMBER.pack(rebalance_timeout_ms)
    names = None if topics is None else list(topics)
    body += varint(0) if names is None else varint(len(names) + 1) + b"".join(map(_compact, names))
    # Neither a pattern nor an assignor of its own choice.
    body += _compact(None) * 2
    body += varint(0) if owned is None else _owned(*owned)
    return request_frame(CONSUMER_GROUP_HEARTBEAT, 1, 0, bytes(body + NO_TAGS), is_flexible=True)


def _owned(topic_id: bytes, partitions: Iterable[int]) -> bytes:
    numbers = list(partitions)
    if not numbers:
        return varint(1)
    listed = struct.pack(f">{len(numbers)}i", *numbers)
    return varint(2) + topic_id + varint(len(numbers) + 1) + listed + NO_TAGS


def parse_heartbeat_reply(frame: memoryview) -> HeartbeatReply:
    """Read a reply, without its length, that assigns partitions of one topic at most."""
    # Correlation id, tags, throttle time.
    (error,) = struct.unpack_from(">h", frame, 4 + 1 + 4)
    message, position = _take_string(frame, 4 + 1 + 4 + 2)
    _, position = _take_string(frame, position)
    epoch, interval_ms, has_assignment = struct.unpack_from(">iib", frame, position)
    position += 9
    if has_assignment < 0:
        return HeartbeatReply(error, message, epoch, interval_ms, b"", None)
    topics, position = _take_varint(frame, position)
    if topics <= 1:
        return HeartbeatReply(error, message, epoch, interval_ms, b"", frozenset())
    topic_id = bytes(frame[position : position + _ID_BYTES])
    count, position = _take_varint(frame, position + _ID_BYTES)
    partitions = struct.unpack_from(f">{count - 1}i", frame, position)
    return HeartbeatReply(error, message, epoch, interval_ms, topic_id, frozenset(partitions))


def _compact(text: str | None) -> bytes:
    if text is None:
        return varint(0)
    data = text.encode()
    return varint(len(data) + 1) + data


def _take_string(frame: memoryview, position: int) -> tuple[str, int]:
    """Return a string, empty for none, and where it ends."""
    size, position = _take_varint(frame, position)
    end = position + max(0, size - 1)
    return bytes(frame[position:end]).decode(), end


def _take_varint(frame: memoryview, position: int) -> tuple[int, int]:
    """Return a number and where it ends."""
    number = shift = 0
    while True:
        byte = frame[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, position
        shift += 7
