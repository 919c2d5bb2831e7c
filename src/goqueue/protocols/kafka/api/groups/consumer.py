"""Members of groups with assignment by the broker: ConsumerGroupHeartbeat. Topics travel by id; groups use names."""

from __future__ import annotations

from collections.abc import Iterable

from goqueue.broker.groups import membership as groups
from goqueue.errors import GoQueueError, Invalid, InvalidGroup
from goqueue.kafka_wire.decode import Request
from goqueue.kafka_wire.encode import Reply
from goqueue.machines.groups.consumer.values import JOIN_EPOCH, ConsumerHeartbeat, FormerPartition
from goqueue.model.topic import TopicPartition
from goqueue.protocols.kafka.api.context import Context
from goqueue.protocols.kafka.api.coordinator import client_id_of, coordinator_error_fields

_OWN_IDS_FROM = 1
_UNCHANGED = -1


async def consumer_group_heartbeat(context: Context, request: Request) -> Reply:
    """Let a member join, stay or leave, and return its assignment."""
    try:
        told = await groups.consumer_heartbeat(context.broker.groups, context.caller, _heartbeat(context, request))
    except InvalidGroup as error:
        # This API has one error for all mistakes of a request.
        return coordinator_error_fields(Invalid(error.message, hint=error.hint))
    except GoQueueError as error:
        return coordinator_error_fields(error)
    assignment = None
    if told.assignment is not None:
        assignment = {"topic_partitions": topic_partitions(context, told.assignment)}
    return {
        "error_code": 0,
        "member_id": told.member_id,
        "member_epoch": told.epoch,
        "heartbeat_interval": told.heartbeat_interval_ms,
        "assignment": assignment,
    }


def _heartbeat(context: Context, request: Request) -> ConsumerHeartbeat:
    if "" in (request.instance_id, request.rack_id):
        raise Invalid("an instance id or a rack id is missing or has a name, but is not empty")
    topics, pattern = request.subscribed_topic_names, request.subscribed_topic_regex
    owned, owned_former = _owned(context, request.topic_partitions)
    is_subscribing = topics is not None or pattern is not None
    return ConsumerHeartbeat(
        group=request.group_id,
        member_id=_member_id(context, request),
        epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        client_id=client_id_of(request),
        client_host=context.caller.host,
        rebalance_timeout_ms=request.rebalance_timeout,
        topics=None if topics is None else frozenset(topics),
        pattern=pattern,
        assignor=request.server_assignor,
        owned=owned,
        owned_former=owned_former,
        is_full=is_subscribing and owned is not None and request.rebalance_timeout != _UNCHANGED,
    )


def _member_id(context: Context, request: Request) -> str:
    """Return the id of the member, which it has chosen; in the first version the broker makes one when it joins."""
    member_id: str = request.member_id
    if not member_id and request.version < _OWN_IDS_FROM and request.member_epoch == JOIN_EPOCH:
        return str(context.broker.core.entropy.uuid())
    return member_id


def _owned(
    context: Context, topics: Iterable[Request] | None
) -> tuple[frozenset[TopicPartition] | None, frozenset[FormerPartition]]:
    """Return the partitions that a member owns, of existing and of other topics; None if it does not report them."""
    if topics is None:
        return None, frozenset()
    known = context.broker.topics.by_id
    owned, former = set(), set()
    for topic in topics:
        if topic.topic_id in known:
            name = known[topic.topic_id].topic.name
            owned |= {TopicPartition(name, index) for index in topic.partitions}
        else:
            former |= {FormerPartition(topic.topic_id, index) for index in topic.partitions}
    return frozenset(owned), frozenset(former)


def topic_partitions(context: Context, partitions: Iterable[TopicPartition]) -> list[Reply]:
    """Return partitions by topic, with its id and name; those of deleted topics are left out."""
    indexes: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        indexes.setdefault(topic, []).append(index)
    known = context.broker.topics.by_name
    return [
        {"topic_id": known[name].topic.id, "topic_name": name, "partitions": found}
        for name, found in indexes.items()
        if name in known
    ]
