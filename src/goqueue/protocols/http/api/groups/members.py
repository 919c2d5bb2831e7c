"""Members of groups by HTTP: join, heartbeat, leave, and give up partitions.

The broker assigns the partitions, to these members and to Kafka clients of the same group alike. There are two kinds of
members. An *eager* member has to join again whenever its group changes, and thereby gives up all partitions. A
*cooperative* member gives up only the partitions that the broker asks for.
"""

from __future__ import annotations

from msgspec import UNSET

from goqueue.api.groups import (
    SESSION_TIMEOUT,
    AssignmentQuery,
    CooperativeMember,
    CooperativeMembership,
    GivenBack,
    LeavingMember,
    Member,
    Membership,
    NewMember,
)
from goqueue.broker.groups.members import Standing, beat, give_back, join, leave, standing_of
from goqueue.errors import (
    Conflict,
    InconsistentProtocol,
    InstanceFenced,
    InstanceInUse,
    Invalid,
    InvalidGroup,
    InvalidSessionTimeout,
    InvalidTopicName,
    MemberFenced,
    TopicPrivate,
    UnknownMember,
    UnsupportedAssignor,
)
from goqueue.machines.groups.consumer.values import AWAY_EPOCH, JOIN_EPOCH, LEAVE_EPOCH, ConsumerHeartbeat
from goqueue.model.groups import SESSION_TIMEOUT_MS
from goqueue.model.topic import TopicPartition, check_name
from goqueue.model.units import parse_duration_ms
from goqueue.protocols.http.api.groups.replies import partitions_of, told
from goqueue.protocols.http.calls import Context
from goqueue.protocols.http.route import COORDINATOR_ERRORS, route

_OF_JOINING = (
    InvalidGroup,
    InvalidTopicName,
    TopicPrivate,
    InvalidSessionTimeout,
    UnsupportedAssignor,
    InstanceInUse,
    InconsistentProtocol,
    Conflict,
    *COORDINATOR_ERRORS,
)
_OF_MEMBERS = (
    InvalidGroup,
    UnknownMember,
    MemberFenced,
    InstanceFenced,
    InconsistentProtocol,
    *COORDINATOR_ERRORS,
)


@route("POST", "/groups/{group}/join", "groups.join", errors=_OF_JOINING)
async def join_eagerly(context: Context, request: NewMember) -> Membership:
    """Join a group as an eager member; joining again gives up all partitions."""
    return _eager(context, await _join(context, request))


@route("POST", "/groups/{group}/join/cooperative", "groups.join_cooperatively", errors=_OF_JOINING)
async def join_cooperatively(context: Context, request: NewMember) -> CooperativeMembership:
    """Join a group as a cooperative member, which gives up single partitions."""
    return _cooperative(context, await _join(context, request))


async def _join(context: Context, request: NewMember) -> Standing:
    _check_session(request.session_timeout)
    for topic in request.topics:
        check_name(topic)
    member_id = request.member_id
    if member_id is UNSET:
        member_id = f"{request.client_id}-{context.broker.core.entropy.uuid()}"
    command = ConsumerHeartbeat(
        group=context.group,
        member_id=member_id,
        epoch=JOIN_EPOCH,
        instance_id=None if request.instance_id is UNSET else request.instance_id,
        client_id=request.client_id,
        client_host=context.caller.host,
        topics=frozenset(request.topics),
        pattern="",
        assignor=None if request.assignor is UNSET else request.assignor,
    )
    return await join(context.broker.groups, context.caller, context.services.positions, command)


def _check_session(written: str | int) -> None:
    try:
        is_right = parse_duration_ms(written) == SESSION_TIMEOUT_MS
    except Invalid:
        is_right = False
    if not is_right:
        raise InvalidSessionTimeout(f"session_timeout has to be {SESSION_TIMEOUT}", hint="leave it out")


@route("POST", "/groups/{group}/heartbeat", "groups.heartbeat", errors=_OF_MEMBERS)
async def heartbeat_eagerly(context: Context, request: Member) -> Membership:
    """Keep an eager member alive; the reply says whether to join again."""
    command = _heartbeat(context, request.member_id, request.generation)
    standing = await beat(context.broker.groups, context.caller, context.services.positions, command)
    told = _eager(context, standing)
    if told.generation != request.generation:
        told.state = "rebalancing"
    return told


@route("POST", "/groups/{group}/heartbeat/cooperative", "groups.heartbeat_cooperatively", errors=_OF_MEMBERS)
async def heartbeat_cooperatively(context: Context, request: CooperativeMember) -> CooperativeMembership:
    """Keep a cooperative member alive; the reply says what to give up and what is new."""
    owned = None if request.owned is UNSET else partitions_of(request.owned)
    command = _heartbeat(context, request.member_id, request.generation, owned)
    standing = await beat(context.broker.groups, context.caller, context.services.positions, command)
    return _cooperative(context, standing)


@route("POST", "/groups/{group}/revoke", "groups.revoke", errors=(*_OF_MEMBERS, Conflict))
async def revoke(context: Context, request: GivenBack) -> CooperativeMembership:
    """Give up partitions that the broker asked for."""
    command = _heartbeat(context, request.member_id, request.generation)
    partitions = partitions_of(request.partitions)
    services = context.services
    return _cooperative(
        context, await give_back(context.broker.groups, context.caller, services.positions, command, partitions)
    )


@route("POST", "/groups/{group}/leave", "groups.leave", status=204, errors=_OF_MEMBERS)
@route("POST", "/groups/{group}/leave/cooperative", "groups.leave_cooperatively", status=204, errors=_OF_MEMBERS)
async def leave_group(context: Context, request: LeavingMember) -> None:
    """Leave a group."""
    command = _heartbeat(context, request.member_id, AWAY_EPOCH if request.for_a_while else LEAVE_EPOCH)
    await leave(context.broker.groups, context.caller, context.services.positions, command)


@route("GET", "/groups/{group}/assignment", "groups.assignment", errors=_OF_MEMBERS)
async def assignment(context: Context, query: AssignmentQuery) -> CooperativeMembership:
    """Return the assignment of a member, and its progress in a rebalance.

    This does not count as a heartbeat.
    """
    standing = await standing_of(context.broker.groups, context.caller, context.group, query.member_id)
    return _cooperative(context, standing)


def _heartbeat(
    context: Context, member_id: str, epoch: int, owned: frozenset[TopicPartition] | None = None
) -> ConsumerHeartbeat:
    return ConsumerHeartbeat(
        group=context.group, member_id=member_id, epoch=epoch, client_host=context.caller.host, owned=owned
    )


def _eager(context: Context, standing: Standing) -> Membership:
    return Membership(
        member_id=standing.member.id,
        generation=standing.member.epoch,
        state="rebalancing" if standing.is_behind else "stable",
        assignment=told(standing.member.assigned),
        heartbeat_interval_ms=context.broker.groups.heartbeat_pace.interval_ms(standing.group),
    )


def _cooperative(context: Context, standing: Standing) -> CooperativeMembership:
    return CooperativeMembership(
        member_id=standing.member.id,
        generation=standing.member.epoch,
        state=standing.progress,
        assigned=told(standing.member.assigned),
        revoke=told(standing.member.revoking),
        heartbeat_interval_ms=context.broker.groups.heartbeat_pace.interval_ms(standing.group),
    )
