"""Committed offsets of groups: OffsetCommit, OffsetFetch, OffsetDelete.

The newest versions name topics by id, all others by name; groups use names only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from goqueue.broker.groups.membership import OffsetReader, commit_offsets, delete_offsets, fetch_offsets
from goqueue.errors import GoQueueError, StaleMemberEpoch
from goqueue.kafka_wire.decode import Request
from goqueue.kafka_wire.encode import Reply
from goqueue.machines.groups.commands import CommitOffsets
from goqueue.machines.groups.offsets import CommittedOffset, NewOffset
from goqueue.model.topic import TopicPartition
from goqueue.protocols.kafka.api.context import Context
from goqueue.protocols.kafka.api.coordinator import code_of

_TOPIC_IDS_FROM = 10
_EPOCHS_FROM = 9
_GROUPS_FROM = 8
_GROUP_ERRORS_FROM = 2
_UNKNOWN_TOPIC = 3
_UNSUPPORTED_VERSION = 35

Found = Mapping[TopicPartition, CommittedOffset | GoQueueError | None]


class _Asked(NamedTuple):
    """A topic of a request: its fields in the reply, its name or the error about it, and its part of the request."""

    named: Mapping[str, object]
    name: str | GoQueueError
    topic: Request


def _asked(context: Context, version: int, topics: Sequence[Request]) -> list[_Asked]:
    if version < _TOPIC_IDS_FROM:
        return [_Asked({"name": topic.name}, topic.name, topic) for topic in topics]
    return [_Asked({"topic_id": topic.topic_id}, _name_of(context, topic.topic_id), topic) for topic in topics]


def _name_of(context: Context, topic_id: UUID) -> str | GoQueueError:
    try:
        return context.broker.topics.topic_by_id(topic_id).topic.name
    except GoQueueError as error:
        return error


# -- commit


async def offset_commit(context: Context, request: Request) -> Reply:
    """Commit offsets of a group; an error about the whole group is repeated for each of them."""
    asked = _asked(context, request.version, request.topics)
    command = CommitOffsets(
        group=request.group_id,
        offsets=[_new_offset(each.name, part) for each in asked if isinstance(each.name, str) for part in _parts(each)],
        member_id=request.member_id,
        epoch=request.generation_id_or_member_epoch,
        instance_id=request.group_instance_id,
    )
    try:
        results = await commit_offsets(context.broker.groups, context.caller, command)
    except GoQueueError as error:
        results = [error] * len(command.offsets)
    codes = iter([_commit_code(result, request.version) for result in results])
    topics = []
    for each in asked:
        refusal = code_of(each.name) if isinstance(each.name, GoQueueError) else None
        parts = [
            {"partition_index": part.partition_index, "error_code": next(codes) if refusal is None else refusal}
            for part in _parts(each)
        ]
        topics.append({**each.named, "partitions": parts})
    return {"topics": topics}


def _parts(asked: _Asked) -> Sequence[Any]:
    parts: Sequence[Any] = asked.topic.partitions
    return parts


def _new_offset(topic: str, part: Any) -> NewOffset:
    value = CommittedOffset(part.committed_offset, part.committed_leader_epoch, part.committed_metadata or "")
    return NewOffset(TopicPartition(topic, part.partition_index), value)


def _commit_code(result: GoQueueError | None, version: int) -> int:
    # Members of a group with assignment by the broker use versions with epochs; the others lack such an error.
    if isinstance(result, StaleMemberEpoch) and version < _EPOCHS_FROM:
        return _UNSUPPORTED_VERSION
    return code_of(result)


# -- fetch


async def offset_fetch(context: Context, request: Request) -> Reply:
    """Return the offsets of a group, or of several in newer versions."""
    if request.version >= _GROUPS_FROM:
        replies = [await _fetch(context, request, group) for group in request.groups]
        return {
            "groups": [
                {"group_id": group.group_id, **reply} for group, reply in zip(request.groups, replies, strict=True)
            ]
        }
    return await _fetch(context, request, request)


async def _fetch(context: Context, request: Request, group: Request) -> Reply:
    """Return the reply about one group; `group` is a part of the request, or all of it in old versions."""
    asked = None if group.topics is None else _asked(context, request.version, group.topics)
    wanted = None
    if asked is not None:
        wanted = [
            TopicPartition(each.name, index)
            for each in asked
            if isinstance(each.name, str)
            for index in each.topic.partition_indexes
        ]
    try:
        found = await fetch_offsets(
            context.broker.groups,
            context.caller,
            group.group_id,
            wanted,
            reader=_reader(group),
            needs_stable=request.require_stable,
        )
    except GoQueueError as error:
        if request.version >= _GROUP_ERRORS_FROM:
            return {"error_code": code_of(error), "topics": []}
        found = dict.fromkeys(wanted or (), error)
    if asked is None:
        return {"error_code": 0, "topics": _all_topics(context, request.version, found)}
    return {"error_code": 0, "topics": [_topic(each, found) for each in asked]}


def _reader(group: Request) -> OffsetReader | None:
    member_id, epoch = getattr(group, "member_id", None), getattr(group, "member_epoch", -1)
    return OffsetReader(member_id, epoch) if member_id and epoch >= 0 else None


def _topic(asked: _Asked, found: Found) -> Reply:
    name = asked.name
    partitions = [
        _offset(index, name if isinstance(name, GoQueueError) else found[TopicPartition(name, index)])
        for index in asked.topic.partition_indexes
    ]
    return {**asked.named, "partitions": partitions}


def _all_topics(context: Context, version: int, found: Found) -> list[Reply]:
    """Return all offsets that were found; deleted topics have no id, so they are left out of newer versions."""
    by_topic: dict[str, list[Reply]] = {}
    for partition, value in sorted(found.items(), key=lambda item: item[0]):
        by_topic.setdefault(partition.topic, []).append(_offset(partition.partition, value))
    if version < _TOPIC_IDS_FROM:
        return [{"name": topic, "partitions": partitions} for topic, partitions in by_topic.items()]
    known = context.broker.topics.by_name
    return [
        {"topic_id": known[topic].topic.id, "partitions": partitions}
        for topic, partitions in by_topic.items()
        if topic in known
    ]


def _offset(index: int, value: CommittedOffset | GoQueueError | None) -> Reply:
    if isinstance(value, CommittedOffset):
        return {
            "partition_index": index,
            "committed_offset": value.offset,
            "committed_leader_epoch": value.leader_epoch,
            "metadata": value.metadata,
            "error_code": 0,
        }
    return {
        "partition_index": index,
        "committed_offset": -1,
        "committed_leader_epoch": -1,
        "metadata": "",
        "error_code": code_of(value),
    }


# -- delete


async def offset_delete(context: Context, request: Request) -> Reply:
    """Delete offsets of a group for topics that its members do not read."""
    unknown = {topic.name for topic in request.topics if topic.name not in context.broker.topics.by_name}
    wanted = [
        TopicPartition(topic.name, part.partition_index)
        for topic in request.topics
        if topic.name not in unknown
        for part in topic.partitions
    ]
    try:
        results = await delete_offsets(context.broker.groups, context.caller, request.group_id, wanted)
    except GoQueueError as error:
        return {"error_code": code_of(error), "topics": []}
    codes = iter([code_of(result) for result in results])
    topics = []
    for topic in request.topics:
        parts = [
            {
                "partition_index": part.partition_index,
                "error_code": _UNKNOWN_TOPIC if topic.name in unknown else next(codes),
            }
            for part in topic.partitions
        ]
        topics.append({"name": topic.name, "partitions": parts})
    return {"error_code": 0, "topics": topics}
