"""Share groups as members and administrators see them: ShareGroupHeartbeat and -Describe, and the APIs of offsets.

Names of states and kinds are Kafka's. Every queue group is a share group, however it was created.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from goqueue.broker.queues.admin import QueueView, describe_queue
from goqueue.broker.share_groups import members as share_groups
from goqueue.broker.share_groups.offsets import alter_share_offsets, delete_share_offsets
from goqueue.errors import GoQueueError, Invalid, InvalidGroup
from goqueue.kafka_wire.decode import Request
from goqueue.kafka_wire.encode import Reply
from goqueue.machines.groups.share.values import ShareAssignment, ShareGroup, ShareHeartbeat, ShareMember
from goqueue.model.topic import TopicPartition
from goqueue.protocols.kafka.api.context import UNKNOWN_OPERATIONS, Context, error_fields
from goqueue.protocols.kafka.api.coordinator import client_id_of, coordinator_error_fields, shown_host
from goqueue.runtime.waiters import pause, pieces

SHARE = "share"
_ASSIGNOR = "simple"
_DEAD = "Dead"
_NO_OFFSET = -1


async def share_group_heartbeat(context: Context, request: Request) -> Reply:
    """Let a member join, stay or leave, and return its assignment."""
    topics = request.subscribed_topic_names
    command = ShareHeartbeat(
        group=request.group_id,
        member_id=request.member_id,
        epoch=request.member_epoch,
        topics=None if topics is None else frozenset(topics),
        rack_id=request.rack_id,
        client_id=client_id_of(request),
        client_host=context.caller.host,
    )
    try:
        told = await share_groups.share_heartbeat(context.broker.share_groups, context.caller, command)
    except InvalidGroup as error:
        # This API has one error for all mistakes of a request.
        return coordinator_error_fields(Invalid(error.message, hint=error.hint))
    except GoQueueError as error:
        return coordinator_error_fields(error)
    return {
        "error_code": 0,
        "member_id": command.member_id,
        "member_epoch": told.epoch,
        "heartbeat_interval": told.heartbeat_interval_ms,
        "assignment": None if told.assignment is None else {"topic_partitions": _by_topic(told.assignment)},
    }


async def share_group_describe(context: Context, request: Request) -> Reply:
    """Describe share groups: their members and assignments."""
    groups = []
    for name in request.group_ids:
        described: Reply
        try:
            described = _described(
                await share_groups.describe_share_group(context.broker.share_groups, context.caller, name)
            )
        except GoQueueError as error:
            described = {"group_state": _DEAD, **coordinator_error_fields(error)}
        groups.append({"group_id": name, "authorized_operations": UNKNOWN_OPERATIONS, **described})
    return {"groups": groups}


async def describe_share_group_offsets(context: Context, request: Request) -> Reply:
    """Return the start offsets of share groups, before which all messages are acknowledged, and their lag."""
    groups = []
    for wanted in request.groups:
        described: Reply
        try:
            view = await describe_queue(context.broker.queues, context.caller, wanted.group_id)
            described = {"topics": _progress(context, view, wanted.topics)}
        except GoQueueError as error:
            described = coordinator_error_fields(error)
        groups.append({"group_id": wanted.group_id, **described})
    return {"groups": groups}


def _progress(context: Context, view: QueueView, wanted: Sequence[Request] | None) -> list[Reply]:
    known = {each.partition: each for each in view.partitions}
    places = list(known)
    if wanted is not None:
        places = [TopicPartition(topic.topic_name, index) for topic in wanted for index in topic.partitions]
    topics: dict[str, list[Reply]] = {}
    for place in places:
        found = known.get(place)
        part: Reply = {"partition_index": place.partition, "start_offset": _NO_OFFSET, "lag": _NO_OFFSET}
        if found is not None:
            part = {**part, "start_offset": found.floor, "lag": found.backlog + found.in_flight.total()}
        topics.setdefault(place.topic, []).append(part)
    return [
        {"topic_name": name, "topic_id": _topic_id(context, name), "partitions": parts}
        for name, parts in topics.items()
    ]


async def alter_share_group_offsets(context: Context, request: Request) -> Reply:
    """Set the start offsets of a share group without members."""
    wanted = {
        TopicPartition(topic.topic_name, part.partition_index): part.start_offset
        for topic in request.topics or ()
        for part in topic.partitions or ()
    }
    try:
        outcomes = await alter_share_offsets(context.broker.share_groups, context.caller, request.group_id, wanted)
    except GoQueueError as error:
        return {**coordinator_error_fields(error), "responses": []}
    topics: dict[str, list[Reply]] = {}
    places = list(outcomes.items())
    for start, piece in pieces(places):
        if start:
            await pause(places)
        for place, outcome in piece:
            topics.setdefault(place.topic, []).append({"partition_index": place.partition, **error_fields(outcome)})
    return {
        **error_fields(None),
        "responses": [
            {"topic_name": name, "topic_id": _topic_id(context, name), "partitions": parts}
            for name, parts in topics.items()
        ],
    }


async def delete_share_group_offsets(context: Context, request: Request) -> Reply:
    """Delete the offsets of a share group without members for some topics."""
    names = list(dict.fromkeys(topic.topic_name for topic in request.topics or ()))
    try:
        outcomes = await delete_share_offsets(context.broker.share_groups, context.caller, request.group_id, names)
    except GoQueueError as error:
        return {**coordinator_error_fields(error), "responses": []}
    return {
        **error_fields(None),
        "responses": [
            {"topic_name": name, "topic_id": _topic_id(context, name), **error_fields(outcome)}
            for name, outcome in outcomes.items()
        ],
    }


def _topic_id(context: Context, name: str) -> UUID | None:
    opened = context.broker.topics.by_name.get(name)
    return None if opened is None else opened.topic.id


async def listed_shares(context: Context) -> tuple[list[Reply], bool]:
    """Return share groups as ListGroups lists them, and whether the list is complete."""
    listed = await share_groups.list_share_groups(context.broker.share_groups, context.caller)
    groups: list[Reply] = [
        {
            "group_id": group.name,
            "protocol_type": SHARE,
            "group_state": _state(group),
            "group_type": SHARE,
        }
        for group in listed.groups
    ]
    return groups, listed.is_complete


def _described(group: ShareGroup) -> Reply:
    return {
        "group_state": _state(group),
        "group_epoch": group.epoch,
        # The assignment is computed when the epoch rises.
        "assignment_epoch": group.epoch,
        "assignor_name": _ASSIGNOR,
        "members": [_member(member) for member in group.members.values()],
    }


def _state(group: ShareGroup) -> str:
    return "Stable" if group.members else "Empty"


def _member(member: ShareMember) -> Reply:
    return {
        "member_id": member.id,
        "rack_id": member.rack_id,
        "member_epoch": member.epoch,
        "client_id": member.client_id,
        "client_host": shown_host(member.client_host),
        "subscribed_topic_names": sorted(member.topics),
        "assignment": {"topic_partitions": _by_topic(member.told)},
    }


def _by_topic(shares: ShareAssignment) -> list[Reply]:
    indexes: dict[tuple[object, str], list[int]] = {}
    for topic_id, topic, index in sorted(shares, key=lambda each: (each.topic, each.partition)):
        indexes.setdefault((topic_id, topic), []).append(index)
    return [
        {"topic_id": topic_id, "topic_name": topic, "partitions": found} for (topic_id, topic), found in indexes.items()
    ]
