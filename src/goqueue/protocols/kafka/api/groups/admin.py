"""Listing, describing and deleting groups: ListGroups, DescribeGroups, ConsumerGroupDescribe, DeleteGroups.

Names of states and kinds are Kafka's. A group that has only offsets is an empty classic group.
"""

from __future__ import annotations

from goqueue.broker.groups.membership import Listed, delete_group, find_group, list_groups
from goqueue.broker.queues.admin import delete_queue
from goqueue.broker.share_groups.members import is_share_group
from goqueue.errors import GoQueueError, UnknownGroup
from goqueue.kafka_wire.decode import Request
from goqueue.kafka_wire.encode import Reply
from goqueue.machines.groups.assignors import STICKY
from goqueue.machines.groups.classic.consumer_protocol import CONSUMER
from goqueue.machines.groups.classic.values import ClassicGroup, ClassicMember, ClassicState
from goqueue.machines.groups.consumer.group import state_of
from goqueue.machines.groups.consumer.values import ConsumerGroup, ConsumerMember
from goqueue.machines.groups.kinds import everybody
from goqueue.protocols.kafka.api.context import UNKNOWN_OPERATIONS, Context
from goqueue.protocols.kafka.api.coordinator import (
    COORDINATOR_NOT_AVAILABLE,
    code_of,
    coordinator_error_fields,
    shown_host,
)
from goqueue.protocols.kafka.api.groups.consumer import topic_partitions
from goqueue.protocols.kafka.api.share_groups.members import listed_shares

_CLASSIC_KIND, _CONSUMER_KIND = "classic", "consumer"
_DEAD = "Dead"
_MISSING_IS_TOLD_FROM = 6
_MEMBER_OF_CONSUMER_GROUP = 1
# Brokers of Kafka use another name for the sticky assignor.
_ASSIGNORS = {STICKY: "uniform"}


async def list_all_groups(context: Context, request: Request) -> Reply:
    """List groups, of some states or kinds if the request names any.

    If there may be more, an error says so beside the groups that are known: clients ask again, or report it.
    """
    try:
        listed = await list_groups(context.broker.groups, context.caller)
        shares, has_all_shares = await listed_shares(context)
    except GoQueueError as error:
        return {"error_code": code_of(error), "groups": []}
    groups = sorted([*map(_listed, listed.groups), *shares], key=lambda each: str(each["group_id"]))
    states = {state.lower() for state in request.states_filter}
    kinds = {kind.lower() for kind in request.types_filter}
    wanted = [
        each
        for each in groups
        if (not states or each["group_state"].lower() in states) and (not kinds or each["group_type"] in kinds)
    ]
    is_complete = listed.is_complete and has_all_shares
    return {"error_code": 0 if is_complete else COORDINATOR_NOT_AVAILABLE, "groups": wanted}


def _listed(listed: Listed) -> Reply:
    group = listed.group
    is_consumer = isinstance(group, ConsumerGroup)
    return {
        "group_id": listed.name,
        "protocol_type": CONSUMER if is_consumer else _protocol_type(group),
        "group_state": _state(group),
        "group_type": _CONSUMER_KIND if is_consumer else _CLASSIC_KIND,
    }


def _protocol_type(group: ClassicGroup | ConsumerGroup | None) -> str:
    if not isinstance(group, ClassicGroup):
        return ""
    return group.round.protocol_type if group.round is not None else group.protocol_type


def _state(group: ClassicGroup | ConsumerGroup | None) -> str:
    if isinstance(group, ConsumerGroup):
        return state_of(group).capitalize()
    return ClassicState.EMPTY.value if group is None else group.state.value


# -- classic groups


async def describe_groups(context: Context, request: Request) -> Reply:
    """Describe classic groups; a missing group is dead, which only new versions call an error."""
    groups = []
    for name in request.groups:
        described: Reply
        try:
            described = _described(name, await find_group(context.broker.groups, context.caller, name))
        except UnknownGroup as error:
            is_told = request.version >= _MISSING_IS_TOLD_FROM
            described = {"group_state": _DEAD, **(coordinator_error_fields(error) if is_told else {})}
        except GoQueueError as error:
            described = coordinator_error_fields(error)
        groups.append({"group_id": name, "authorized_operations": UNKNOWN_OPERATIONS, **described})
    return {"groups": groups}


def _described(name: str, found: Listed | None) -> Reply:
    if found is None:
        raise UnknownGroup(f"there is no group {name!r}")
    if isinstance(found.group, ConsumerGroup):
        raise UnknownGroup(f"group {name!r} is not a classic group: the broker assigns its partitions")
    group = found.group or ClassicGroup(name=name)
    is_stable = group.state is ClassicState.STABLE
    return {
        "group_state": group.state.value,
        "protocol_type": _protocol_type(group),
        "protocol_data": group.protocol or "" if is_stable else "",
        "members": [_classic_member(group, member, is_stable=is_stable) for member in everybody(group).values()],
    }


def _classic_member(group: ClassicGroup, member: ClassicMember, *, is_stable: bool) -> Reply:
    return {
        "member_id": member.id,
        "group_instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": shown_host(member.client_host),
        # During a rebalance, members have neither protocol nor assignment.
        "member_metadata": member.metadata(group.protocol) if is_stable else b"",
        "member_assignment": member.assignment if is_stable else b"",
    }


# -- groups with assignment by the broker


async def describe_consumer_groups(context: Context, request: Request) -> Reply:
    """Describe groups with assignment by the broker: their members, with current and target assignments."""
    groups = []
    for name in request.group_ids:
        described: Reply
        try:
            described = _consumer_group(context, name, await find_group(context.broker.groups, context.caller, name))
        except GoQueueError as error:
            described = coordinator_error_fields(error)
        groups.append({"group_id": name, "authorized_operations": UNKNOWN_OPERATIONS, **described})
    return {"groups": groups}


def _consumer_group(context: Context, name: str, found: Listed | None) -> Reply:
    if found is None:
        raise UnknownGroup(f"there is no group {name!r}")
    group = found.group
    if not isinstance(group, ConsumerGroup):
        raise UnknownGroup(f"group {name!r} is not a consumer group: its members assign partitions themselves")
    return {
        "group_state": _state(group),
        "group_epoch": group.epoch,
        # The target is computed when the epoch rises.
        "assignment_epoch": group.epoch,
        "assignor_name": _ASSIGNORS.get(group.assignor, group.assignor),
        "members": [_consumer_member(context, member) for member in group.members.values()],
    }


def _consumer_member(context: Context, member: ConsumerMember) -> Reply:
    return {
        "member_id": member.id,
        "instance_id": member.instance_id,
        "rack_id": member.rack_id,
        "member_epoch": member.epoch,
        "client_id": member.client_id,
        "client_host": shown_host(member.client_host),
        "subscribed_topic_names": sorted(member.topics),
        "subscribed_topic_regex": member.pattern,
        "assignment": {"topic_partitions": topic_partitions(context, member.assigned)},
        "target_assignment": {"topic_partitions": topic_partitions(context, member.target)},
        "member_type": _MEMBER_OF_CONSUMER_GROUP,
    }


# -- the end of groups


async def delete_groups(context: Context, request: Request) -> Reply:
    """Delete groups without members, with their offsets, or with the deliveries of a share group."""
    results = []
    for name in request.groups_names:
        error: GoQueueError | None = None
        try:
            if is_share_group(context.broker.share_groups, name):
                await delete_queue(context.broker.queues, context.caller, name)
            else:
                await delete_group(context.broker.groups, context.caller, name)
        except GoQueueError as refusal:
            error = refusal
        results.append({"group_id": name, "error_code": code_of(error)})
    return {"results": results}
