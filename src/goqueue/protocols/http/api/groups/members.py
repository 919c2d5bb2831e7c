"""Members of groups by HTTP: join, heartbeat, leave, and give up partitions.

The broker assigns the partitions, to these members and to Kafka clients of the same group alike. There are two kinds of
members. An *eager* member has to join again whenever its group changes, and thereby gives up all partitions. A
*cooperative* member gives up only the partitions that the broker asks for.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from goqueue.api.fields import REQUEST_PARTITIONS_MAX, Generation, MemberId, TopicName
from goqueue.broker.groups.members import MemberProgress, Standing, beat, give_back, join, leave, standing_of
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
from goqueue.machines.groups.assignors import ASSIGNORS
from goqueue.machines.groups.consumer.values import (
    AWAY_EPOCH,
    JOIN_EPOCH,
    LEAVE_EPOCH,
    SESSION_TIMEOUT_MS,
    ConsumerHeartbeat,
)
from goqueue.model.topic import TopicPartition, check_name
from goqueue.model.units import duration_text, parse_duration_ms
from goqueue.protocols.http.api.groups.shapes import GroupPartition, partitions_of, told
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

_SESSION = duration_text(SESSION_TIMEOUT_MS)
_Partitions = Annotated[list[GroupPartition], Meta(max_length=REQUEST_PARTITIONS_MAX)]


class NewMember(msgspec.Struct, forbid_unknown_fields=True):
    """A member that joins, or joins again with its id; without an id it gets a new one."""

    topics: Annotated[
        list[TopicName],
        Meta(min_length=1, max_length=1000, description="Topics to read. They need not exist yet."),
    ]
    client_id: Annotated[str, Meta(max_length=200, description="Display name of the member.")] = "http"
    member_id: MemberId | UnsetType = UNSET
    instance_id: (
        Annotated[
            str,
            Meta(min_length=1, max_length=200, description="Static membership: keeps the assignment across restarts."),
        ]
        | UnsetType
    ) = UNSET
    assignor: (
        Annotated[
            str,
            Meta(description="The assignor that the member votes for.", extra_json_schema={"enum": list(ASSIGNORS)}),
        ]
        | UnsetType
    ) = UNSET
    session_timeout: Annotated[
        str | int,
        Meta(
            description=f"Time without heartbeats after which a member is removed; always {_SESSION}.",
            extra_json_schema={"enum": [_SESSION, SESSION_TIMEOUT_MS]},
        ),
    ] = _SESSION


class Member(msgspec.Struct, forbid_unknown_fields=True):
    """A heartbeat of an eager member, with the generation that it knows."""

    member_id: MemberId
    generation: Generation


class CooperativeMember(msgspec.Struct, forbid_unknown_fields=True):
    """A heartbeat of a cooperative member. If `owned` is present, all other partitions are given up."""

    member_id: MemberId
    generation: Generation
    owned: _Partitions | UnsetType = UNSET


class GivenBack(msgspec.Struct, forbid_unknown_fields=True):
    """Partitions that a member gives up, because the broker asked for them."""

    member_id: MemberId
    generation: Generation
    partitions: _Partitions


class LeavingMember(msgspec.Struct, forbid_unknown_fields=True):
    """A member that leaves. With an instance id it can leave `for_a_while`, and keeps its partitions."""

    member_id: MemberId
    for_a_while: bool = False


class AssignmentQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which member to describe."""

    member_id: MemberId


class Membership(msgspec.Struct, kw_only=True):
    """The state of an eager member: if `rebalancing`, it has to join again."""

    member_id: str
    generation: int
    state: Literal["stable", "rebalancing"]
    assignment: list[GroupPartition]
    heartbeat_interval_ms: int


class CooperativeMembership(msgspec.Struct, kw_only=True):
    """The state of a cooperative member: the partitions to read, and those to give up.

    `pending_revoke`: it has to give up partitions; `pending_assign`: it waits for partitions of others; `complete`: it
    has its target assignment, others have not; `none`: no rebalance is in progress.
    """

    member_id: str
    generation: int
    state: MemberProgress
    assigned: list[GroupPartition]
    revoke: list[GroupPartition]
    heartbeat_interval_ms: int


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
        raise InvalidSessionTimeout(f"session_timeout has to be {_SESSION}", hint="leave it out")


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
