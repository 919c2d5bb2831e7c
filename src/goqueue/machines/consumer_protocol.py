"""What members of classic groups tell each other about topics and partitions, if they are Kafka consumers.

The broker passes these bytes on and does not need them; it reads them to tell users who reads what, and to refuse
commits for partitions that are somebody else's. All numbers are big endian, sizes are i16 for strings and i32 for
arrays and bytes:

    subscription   version:i16  topics:[string]  user data:bytes  (v1: owned ...)
    assignment     version:i16  [topic:string  partitions:[i32]]  user data:bytes
"""

from __future__ import annotations

import struct
from functools import lru_cache

from goqueue.machines.group_values import TopicPartition

CONSUMER = "consumer"
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """Return the topics of a subscription; None if the bytes are something else."""
    try:
        topics = set()
        (count,) = _INT32.unpack_from(metadata, 2)
        position = 6
        for _ in range(_bounded(count, metadata)):
            topic, position = _string(metadata, position)
            topics.add(topic)
        return frozenset(topics)
    except (struct.error, ValueError):
        return None


@lru_cache(maxsize=4096)
def assigned_partitions(assignment: bytes) -> frozenset[TopicPartition] | None:
    """Return the partitions of an assignment, none if it is empty; None if the bytes are something else."""
    if not assignment:
        return frozenset()
    try:
        partitions: set[TopicPartition] = set()
        (count,) = _INT32.unpack_from(assignment, 2)
        position = 6
        for _ in range(_bounded(count, assignment)):
            topic, position = _string(assignment, position)
            (size,) = _INT32.unpack_from(assignment, position)
            indexes = struct.unpack_from(f">{_bounded(size, assignment)}i", assignment, position + 4)
            partitions.update(TopicPartition(topic, index) for index in indexes)
            position += 4 + 4 * size
        return frozenset(partitions)
    except (struct.error, ValueError):
        return None


def _string(data: bytes, position: int) -> tuple[str, int]:
    (size,) = _INT16.unpack_from(data, position)
    begin, end = position + 2, position + 2 + size
    if size < 0 or end > len(data):
        raise ValueError("a string reaches beyond the end")
    return data[begin:end].decode(), end


def _bounded(count: int, data: bytes) -> int:
    if not 0 <= count <= len(data):
        raise ValueError("there cannot be that many")
    return count
