"""The bytes in which Kafka consumers tell each other what they read, written here once more, from their description."""

from __future__ import annotations

import struct
from itertools import groupby

from goqueue.model.topic import TopicPartition


def subscription(*topics: str, user_data: bytes = b"", owned: tuple[TopicPartition, ...] | None = None) -> bytes:
    """Return a subscription: of version 1 with what the member owns, if that is given."""
    head = struct.pack(">hi", 0 if owned is None else 1, len(topics))
    body = b"".join(_string(topic) for topic in topics) + struct.pack(">i", len(user_data)) + user_data
    return head + body + (b"" if owned is None else _partitions(owned))


def assignment(*partitions: TopicPartition) -> bytes:
    """Return an assignment of version 0."""
    return struct.pack(">h", 0) + _partitions(partitions) + struct.pack(">i", 0)


def _partitions(partitions: tuple[TopicPartition, ...]) -> bytes:
    topics = [(topic, list(found)) for topic, found in groupby(sorted(partitions), lambda each: each.topic)]
    body = b"".join(
        _string(topic) + struct.pack(f">i{len(found)}i", len(found), *(each.partition for each in found))
        for topic, found in topics
    )
    return struct.pack(">i", len(topics)) + body


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data
