"""Members of classic groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

The protocols of a group and the metadata of its members are opaque bytes here.
"""

from __future__ import annotations

from goqueue.broker.groups import membership as groups
from goqueue.errors import GoQueueError, InconsistentProtocol, MemberIdRequired
from goqueue.kafka_wire.decode import Request
from goqueue.kafka_wire.encode import Reply
from goqueue.machines.groups.classic.values import Heartbeat, Join, Joined, Leave, Leaver, Protocol, Sync
from goqueue.protocols.kafka.api.context import Context
from goqueue.protocols.kafka.api.coordinator import client_id_of, code_of, new_member_id

_KNOWN_IDS_FROM = 4
_NULL_PROTOCOL_FROM = 7
_MEMBERS_FROM = 3
_PROTOCOL_NEEDED_FROM = 5


async def join_group(context: Context, request: Request) -> Reply:
    """Let a member join; answers when the rebalance has completed."""
    no_protocol = None if request.version >= _NULL_PROTOCOL_FROM else ""
    try:
        joined = await groups.join_group(context.broker.groups, context.caller, _join(context, request))
    except GoQueueError as error:
        return {
            "error_code": code_of(error),
            "generation_id": -1,
            "protocol_name": no_protocol,
            "member_id": error.member_id if isinstance(error, MemberIdRequired) else request.member_id,
        }
    return _joined(joined, no_protocol)


def _join(context: Context, request: Request) -> Join:
    client_id = client_id_of(request)
    # The first version has one timeout for both.
    rebalance_timeout_ms = request.rebalance_timeout if request.version > 0 else request.session_timeout
    return Join(
        group=request.group_id,
        member_id=request.member_id,
        new_id=new_member_id(context, request.group_instance_id or client_id),
        instance_id=request.group_instance_id,
        client_id=client_id,
        client_host=context.caller.host,
        session_timeout_ms=request.session_timeout,
        rebalance_timeout_ms=rebalance_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=tuple(Protocol(each.name, each.metadata) for each in request.protocols),
        needs_known_id=request.version >= _KNOWN_IDS_FROM,
        reason=request.reason or "",
    )


def _joined(joined: Joined, no_protocol: str | None) -> Reply:
    return {
        "error_code": 0,
        "generation_id": joined.generation,
        "protocol_type": joined.protocol_type,
        "protocol_name": no_protocol if joined.protocol is None else joined.protocol,
        "leader": joined.leader,
        # The broker ignores the assignment of the leader if the group has one; the leader may skip the work.
        "skip_assignment": joined.is_assigned and joined.leader == joined.member_id,
        "member_id": joined.member_id,
        "members": [
            {"member_id": each.member_id, "group_instance_id": each.instance_id, "metadata": each.metadata}
            for each in joined.members
        ],
    }


async def sync_group(context: Context, request: Request) -> Reply:
    """Return the assignment of a member; answers when the leader has sent it."""
    try:
        if request.version >= _PROTOCOL_NEEDED_FROM and None in (request.protocol_type, request.protocol_name):
            raise InconsistentProtocol("a member has to say which protocol it follows")
        synced = await groups.sync_group(
            context.broker.groups,
            context.caller,
            Sync(
                group=request.group_id,
                member_id=request.member_id,
                generation=request.generation_id,
                instance_id=request.group_instance_id,
                protocol_type=request.protocol_type,
                protocol=request.protocol_name,
                assignments={each.member_id: each.assignment for each in request.assignments},
            ),
        )
    except GoQueueError as error:
        return {"error_code": code_of(error)}
    return {
        "error_code": 0,
        "protocol_type": synced.protocol_type,
        "protocol_name": synced.protocol,
        "assignment": synced.assignment,
    }


async def heartbeat(context: Context, request: Request) -> Reply:
    """Keep a member alive; an error tells it to join again."""
    command = Heartbeat(
        group=request.group_id,
        member_id=request.member_id,
        generation=request.generation_id,
        instance_id=request.group_instance_id,
    )
    try:
        await groups.heartbeat(context.broker.groups, context.caller, command)
    except GoQueueError as error:
        return {"error_code": code_of(error)}
    return {"error_code": 0}


async def leave_group(context: Context, request: Request) -> Reply:
    """Remove members: one in old versions, any number in new ones, each with a result of its own."""
    is_for_many = request.version >= _MEMBERS_FROM
    leaving = request.members if is_for_many else [Request(member_id=request.member_id, group_instance_id=None)]
    leavers = tuple(
        Leaver(each.member_id, each.group_instance_id, getattr(each, "reason", None) or "") for each in leaving
    )
    try:
        results = await groups.leave_group(context.broker.groups, context.caller, Leave(request.group_id, leavers))
    except GoQueueError as error:
        return {"error_code": code_of(error)}
    codes = [code_of(result) for result in results]
    if not is_for_many:
        return {"error_code": codes[0]}
    members = [
        {"member_id": each.member_id, "group_instance_id": each.instance_id, "error_code": code}
        for each, code in zip(leavers, codes, strict=True)
    ]
    return {"error_code": 0, "members": members}
