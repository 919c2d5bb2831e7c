"""The frames of groups that the raw client of the benchmarks sends and reads: offsets and members.

Each request has one fixed version.

| request                | version | why this one                                              |
|------------------------|---------|-----------------------------------------------------------|
| OffsetCommit           | 8       | the first flexible one, close to what current clients use |
| OffsetFetch            | 5       | the last one before the flexible ones                     |
| FindCoordinator        | 0       |                                                           |
| DeleteGroups           | 1       | the last one before the flexible ones                     |
| ConsumerGroupHeartbeat | 1       | the first one of brokers that offer it by default         |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from goqueue_bench.kafka.wire import parse_reply, request_frame

FIND_COORDINATOR, CONSUMER_GROUP_HEARTBEAT = 10, 68
JOIN_EPOCH, LEAVE_EPOCH = 0, -1

_OFFSET_COMMIT, _OFFSET_FETCH, _DELETE_GROUPS = (8, 8), (9, 5), (42, 1)
_FIND_COORDINATOR, _HEARTBEAT = (FIND_COORDINATOR, 0), (CONSUMER_GROUP_HEARTBEAT, 1)
_UNCHANGED_MS = -1


class HeartbeatReply(NamedTuple):
    """The reply to a member. `partitions` is None for no change, else those of the one topic with an id."""

    error: int
    message: str
    epoch: int
    interval_ms: int
    topic_id: UUID | None
    partitions: frozenset[int] | None


def offset_commit_request(group: str, topic: str, offsets: Mapping[int, int]) -> bytes:
    """Return a whole frame that sets offsets, by partition, of a group without members."""
    partitions = [
        {"partition_index": partition, "committed_offset": offset, "committed_metadata": ""}
        for partition, offset in offsets.items()
    ]
    return request_frame(*_OFFSET_COMMIT, {"group_id": group, "topics": [{"name": topic, "partitions": partitions}]})


def parse_offset_commit_reply(frame: memoryview) -> list[int]:
    """Return the error of each partition of the one topic that was sent."""
    return [each.error_code for each in parse_reply(*_OFFSET_COMMIT, frame).topics[0].partitions]


def offset_fetch_request(group: str, topic: str, partitions: Iterable[int]) -> bytes:
    """Return a whole frame that asks for offsets of a group."""
    topics = [{"name": topic, "partition_indexes": list(partitions)}]
    return request_frame(*_OFFSET_FETCH, {"group_id": group, "topics": topics})


def parse_offset_fetch_reply(frame: memoryview) -> tuple[int, dict[int, int]]:
    """Return the first error, or 0, and the offsets of the one topic that was asked for."""
    reply = parse_reply(*_OFFSET_FETCH, frame)
    partitions = [each for topic in reply.topics for each in topic.partitions]
    errors = [*(each.error_code for each in partitions), reply.error_code]
    return next(filter(None, errors), 0), {each.partition_index: each.committed_offset for each in partitions}


def find_coordinator_request(group: str) -> bytes:
    """Return a whole frame that asks for the coordinator of a group."""
    return request_frame(*_FIND_COORDINATOR, {"key": group})


def parse_find_coordinator_reply(frame: memoryview) -> int:
    """Return the error."""
    error: int = parse_reply(*_FIND_COORDINATOR, frame).error_code
    return error


def delete_group_request(group: str) -> bytes:
    """Return a whole frame that deletes a group."""
    return request_frame(*_DELETE_GROUPS, {"groups_names": [group]})


def parse_delete_group_reply(frame: memoryview) -> int:
    """Return the error."""
    error: int = parse_reply(*_DELETE_GROUPS, frame).results[0].error_code
    return error


def heartbeat_request(
    group: str,
    member_id: str,
    epoch: int,
    *,
    topics: Iterable[str] | None = None,
    owned: tuple[UUID | None, Iterable[int]] | None = None,
    rebalance_timeout_ms: int = _UNCHANGED_MS,
) -> bytes:
    """Return a whole frame of a member, with what has changed; it owns partitions of one topic at most."""
    request = {
        "group_id": group,
        "member_id": member_id,
        "member_epoch": epoch,
        "rebalance_timeout": rebalance_timeout_ms,
        "subscribed_topic_names": None if topics is None else list(topics),
        "topic_partitions": None if owned is None else _owned(*owned),
    }
    return request_frame(*_HEARTBEAT, request)


def _owned(topic_id: UUID | None, partitions: Iterable[int]) -> list[dict[str, object]]:
    numbers = list(partitions)
    return [{"topic_id": topic_id, "partitions": numbers}] if numbers else []


def parse_heartbeat_reply(frame: memoryview) -> HeartbeatReply:
    """Read a reply, without its length, that assigns partitions of one topic at most."""
    reply = parse_reply(*_HEARTBEAT, frame)
    topic_id, partitions = None, None
    if reply.assignment is not None:
        partitions = frozenset[int]()
        for topic in reply.assignment.topic_partitions:
            topic_id, partitions = topic.topic_id, frozenset(topic.partitions)
    return HeartbeatReply(
        reply.error_code,
        reply.error_message or "",
        reply.member_epoch,
        reply.heartbeat_interval,
        topic_id,
        partitions,
    )
