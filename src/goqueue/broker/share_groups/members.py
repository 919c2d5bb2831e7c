"""Members of share groups come, stay and leave; what can be seen of such groups; and their end.

A share group is the queue group of its name. The first member makes it, if no receive has done so before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from goqueue.broker.admission import Caller, operation
from goqueue.broker.queues.start_positions import ensure_group
from goqueue.broker.topics.private import require_public
from goqueue.errors import UnknownGroup
from goqueue.machines.groups.share.members import check_share_heartbeat
from goqueue.machines.groups.share.values import JOIN_EPOCH, ShareGroup, ShareHeartbeat, ShareReply
from goqueue.model.group_name import check_group_name

if TYPE_CHECKING:
    from goqueue.broker.share_groups.service import ShareGroupService


class ShareListing(NamedTuple):
    """Share groups in order of their names; if it `is_complete`, all of them."""

    groups: Sequence[ShareGroup]
    is_complete: bool


@operation("shares.heartbeat", on="queue", at="command.group")
async def share_heartbeat(share_groups: ShareGroupService, caller: Caller, command: ShareHeartbeat) -> ShareReply:
    """Let a member join, stay or leave, and tell it where to look; the group is made if need be."""
    check_group_name(command.group)
    check_share_heartbeat(command)
    require_public(command.topics or ())
    if command.epoch == JOIN_EPOCH:
        await ensure_group(share_groups.queues, command.group)
    reply = share_groups.members.heartbeat(command, share_groups.now_ms())
    share_groups.set_timer()
    return reply


@operation("shares.list", on="cluster")
async def list_share_groups(share_groups: ShareGroupService, caller: Caller) -> ShareListing:
    """Return all queue groups as share groups, most of them without members."""
    names = sorted(name for machine in share_groups.queues.machines for name in machine.groups)
    return ShareListing([_view(share_groups, name) for name in names], share_groups.queues.is_whole)


@operation("shares.describe", on="queue")
async def describe_share_group(share_groups: ShareGroupService, caller: Caller, name: str) -> ShareGroup:
    """Return a group with its members as they are now; UnknownGroup if there is none."""
    check_group_name(name)
    if not is_share_group(share_groups, name):
        raise UnknownGroup(f"there is no share group {name!r}").about(name)
    return _view(share_groups, name)


def is_share_group(share_groups: ShareGroupService, name: str) -> bool:
    """Tell whether there is a queue group of that name."""
    machine = share_groups.queues.peek(name)
    return machine is not None and machine.find(name) is not None


def _view(share_groups: ShareGroupService, name: str) -> ShareGroup:
    return share_groups.members.groups.get(name) or ShareGroup(name)
