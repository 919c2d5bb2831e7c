"""Members of share groups come, stay and leave; what can be seen of such groups; and their end.

A share group is the queue group of its name. The first member makes it, if no receive has done so before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from goqueue.broker.admission import Caller, operation
from goqueue.broker.groups.membership import check_group_name
from goqueue.broker.queues.start_positions import ensure_group
from goqueue.broker.topics.private import require_public
from goqueue.errors import UnknownGroup
from goqueue.machines.groups.share.members import check_share_heartbeat
from goqueue.machines.groups.share.values import JOIN_EPOCH, ShareGroup, ShareHeartbeat, ShareMember, ShareReply

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker


class ShareListing(NamedTuple):
    """Share groups in order of their names; if it `is_complete`, all of them."""

    groups: Sequence[ShareGroup]
    is_complete: bool


@operation("shares.heartbeat", on="queue", at="command.group")
async def share_heartbeat(broker: Broker, caller: Caller, command: ShareHeartbeat) -> ShareReply:
    """Let a member join, stay or leave, and tell it where to look; the group is made if need be."""
    check_group_name(command.group)
    check_share_heartbeat(command)
    require_public(command.topics or ())
    if command.epoch == JOIN_EPOCH:
        await ensure_group(broker, command.group)
    reply = broker.shares.members.heartbeat(command, broker.shares.now_ms())
    broker.shares.set_timer()
    return reply


@operation("shares.list", on="cluster")
async def list_share_groups(broker: Broker, caller: Caller) -> ShareListing:
    """Return all queue groups as share groups, most of them without members."""
    names = sorted(name for machine in broker.queues.machines for name in machine.groups)
    return ShareListing([_view(broker, name) for name in names], broker.queues.is_whole)


@operation("shares.describe", on="queue")
async def describe_share_group(broker: Broker, caller: Caller, name: str) -> ShareGroup:
    """Return a group with its members as they are now; UnknownGroup if there is none."""
    check_group_name(name)
    if not is_share_group(broker, name):
        raise UnknownGroup(f"there is no share group {name!r}").about(name)
    return _view(broker, name)


def is_share_group(broker: Broker, name: str) -> bool:
    """Tell whether there is a queue group of that name."""
    machine = broker.queues.peek(name)
    return machine is not None and machine.find(name) is not None


def members_of(broker: Broker, name: str) -> Sequence[ShareMember]:
    """Return the share consumers that are members of a group now, in order of their ids."""
    return sorted(_view(broker, name).members.values(), key=lambda member: member.id)


def _view(broker: Broker, name: str) -> ShareGroup:
    return broker.shares.members.groups.get(name) or ShareGroup(name)
