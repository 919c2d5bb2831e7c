"""Members of groups whose broker assigns, for protocols that ask and are answered: where a member stands, at once.

All of it is the one heartbeat of `groups.consumer_heartbeat`, so members of all protocols can share a group. What is
told here has become durable, and where a member polls (`group_poll`) is brought into line with it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from goqueue.broker.admission import Caller, operation
from goqueue.broker.groups.membership import consumer_heartbeat
from goqueue.broker.groups.positions import Positions
from goqueue.errors import Conflict, InconsistentProtocol, UnknownMember
from goqueue.machines.groups.classic.values import ClassicGroup
from goqueue.machines.groups.consumer.group import state_of
from goqueue.machines.groups.consumer.values import ConsumerGroup, ConsumerHeartbeat, ConsumerMember, MemberState
from goqueue.model.group_name import check_group_name
from goqueue.model.groups import MemberProgress
from goqueue.model.topic import TopicPartition

if TYPE_CHECKING:
    from goqueue.broker.groups.service import GroupService


class Standing(NamedTuple):
    """A member in its group, as of now."""

    group: ConsumerGroup
    member: ConsumerMember

    @property
    def progress(self) -> MemberProgress:
        """How far the member has come in a rebalance."""
        return progress_of(self.group, self.member)

    @property
    def is_behind(self) -> bool:
        """Whether it has something to give back, or has not heard of the group's latest rebalance."""
        return self.member.state is MemberState.UNREVOKED or self.member.epoch != self.group.epoch


def progress_of(group: ConsumerGroup, member: ConsumerMember) -> MemberProgress:
    """Return how far a member has come in a rebalance."""
    is_told = member.is_away or member.epoch == group.epoch
    if member.state is MemberState.UNREVOKED or (not is_told and member.assigned - member.target):
        return MemberProgress.PENDING_REVOKE
    if member.state is MemberState.UNRELEASED or not is_told:
        return MemberProgress.PENDING_ASSIGN
    return MemberProgress.NONE if state_of(group) == "stable" else MemberProgress.COMPLETE


def member_of(groups: GroupService, group: str, member_id: str) -> Standing:
    """Return a member of a group whose broker assigns; UnknownMember if there is none."""
    found = _find(groups, group, member_id)
    if found is None:
        raise UnknownMember(f"group {group!r} has no member {member_id!r}", hint="join again")
    return found


def _find(groups: GroupService, name: str, member_id: str) -> Standing | None:
    check_group_name(name)
    machine = groups.peek(name)
    group = None if machine is None else machine.find(name)
    if isinstance(group, ClassicGroup) and group.members:
        raise InconsistentProtocol(f"the members of group {name!r} assign their partitions themselves")
    if not isinstance(group, ConsumerGroup) or member_id not in group.members:
        return None
    return Standing(group, group.members[member_id])


@operation("groups.assignment", on="group")
async def standing_of(groups: GroupService, caller: Caller, group: str, member_id: str) -> Standing:
    """Return where a member stands, once all of it is durable; UnknownMember if there is none."""
    member_of(groups, group, member_id)
    await groups.machine(group)
    return member_of(groups, group, member_id)


async def join(groups: GroupService, caller: Caller, positions: Positions, command: ConsumerHeartbeat) -> Standing:
    """Let a member join, or join again, and return where it stands; it begins at the committed offsets.

    Conflict if it is a member under another instance id.
    """
    known = _find(groups, command.group, command.member_id)
    if known is not None and command.instance_id not in {None, known.member.instance_id}:
        raise Conflict(f"member {command.member_id!r} has joined with another instance id", hint="use another id")
    await consumer_heartbeat(groups, caller, command)
    positions.forget(command.group, command.member_id)
    return await standing_of(groups, caller, command.group, command.member_id)


async def beat(groups: GroupService, caller: Caller, positions: Positions, command: ConsumerHeartbeat) -> Standing:
    """Keep a member alive, and return where it stands; it polls no partition any more that is asked back."""
    await consumer_heartbeat(groups, caller, _as_before(groups, command))
    standing = await standing_of(groups, caller, command.group, command.member_id)
    positions.keep(command.group, standing.member)
    return standing


async def leave(groups: GroupService, caller: Caller, positions: Positions, command: ConsumerHeartbeat) -> None:
    """Let a member go, for good or for a while."""
    await consumer_heartbeat(groups, caller, _as_before(groups, command))
    positions.forget(command.group, command.member_id)


async def give_back(
    groups: GroupService,
    caller: Caller,
    positions: Positions,
    command: ConsumerHeartbeat,
    partitions: Collection[TopicPartition],
) -> Standing:
    """Take partitions back that a member was asked for; nothing happens to those that it does not have any more.

    Conflict if it has one of them and was not asked for it.
    """
    _, member = member_of(groups, command.group, command.member_id)
    kept = sorted(member.assigned.intersection(partitions))
    if kept and member.epoch == command.epoch:
        raise Conflict(
            f"{kept[0].topic}-{kept[0].partition} was not asked back", hint="leave the group to give up all partitions"
        )
    owned = (member.assigned | member.revoking).difference(partitions)
    return await beat(groups, caller, positions, replace(command, owned=owned))


def _as_before(groups: GroupService, command: ConsumerHeartbeat) -> ConsumerHeartbeat:
    """Return what a member says, with the name of its client, which it says only when it joins."""
    _, member = member_of(groups, command.group, command.member_id)
    return replace(command, client_id=member.client_id)
