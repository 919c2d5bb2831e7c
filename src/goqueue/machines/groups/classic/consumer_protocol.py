"""Subscriptions and assignments that Kafka consumers of classic groups exchange.

The broker passes these bytes on. It reads them only to show which member reads what, and to refuse commits of
partitions of other members. Oversized bytes count as unreadable: only members have to read them, and all other requests
wait while the broker does. All numbers are big endian, sizes are i16 for strings and i32 for arrays and bytes:

    subscription   version:i16  topics:[string]  user data:bytes  (v1: owned ...)
    assignment     version:i16  [topic:string  partitions:[i32]]  user data:bytes
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator

from goqueue.model.topic import TopicPartition

CONSUMER = "consumer"
TOPICS_MAX = 20_000
PARTITIONS_MAX = 20_000
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """Return the topics of a subscription; None if the bytes are something else."""
    try:
        topics = set()
        (count,) = _INT32.unpack_from(metadata, 2)
        position = 6
        for _ in range(_bounded(count, TOPICS_MAX)):
            topic, position = _string(metadata, position)
            topics.add(topic)
        return frozenset(topics)
    except (struct.error, ValueError):
        return None


def assigned_partitions(assignment: bytes) -> frozenset[TopicPartition] | None:
    """Return the partitions of an assignment, none if it is empty; None if the bytes are something else."""
    try:
        return frozenset(TopicPartition(topic, index) for topic, found in _topics(assignment) for index in found)
    except (struct.error, ValueError):
        return None


def assigned_of(assignment: bytes, partitions: Collection[TopicPartition]) -> frozenset[TopicPartition]:
    """Return which of some partitions are in an assignment; none if the bytes are something else."""
    wanted: dict[str, set[int]] = {}
    for topic, index in partitions:
        wanted.setdefault(topic, set()).add(index)
    try:
        topics = [(topic, wanted[topic].intersection(found)) for topic, found in _topics(assignment) if topic in wanted]
    except (struct.error, ValueError):
        return frozenset()
    return frozenset(TopicPartition(topic, index) for topic, found in topics for index in found)


def _topics(assignment: bytes) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the topics of an assignment and their partitions."""
    if not assignment:
        return
    (count,) = _INT32.unpack_from(assignment, 2)
    left = PARTITIONS_MAX
    position = 6
    for _ in range(_bounded(count, TOPICS_MAX)):
        topic, position = _string(assignment, position)
        (size,) = _INT32.unpack_from(assignment, position)
        left -= _bounded(size, left)
        yield topic, struct.unpack_from(f">{size}i", assignment, position + 4)
        position += 4 + 4 * size


def _string(data: bytes, position: int) -> tuple[str, int]:
    (size,) = _INT16.unpack_from(data, position)
    begin, end = position + 2, position + 2 + size
    if size < 0 or end > len(data):
        raise ValueError("a string reaches beyond the end")
    return data[begin:end].decode(), end


def _bounded(count: int, count_max: int) -> int:
    if not 0 <= count <= count_max:
        raise ValueError("there are more than can be, or than are read")
    return count
