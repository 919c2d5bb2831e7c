"""Checks of heartbeats: malformed ones, and those of unknown, fenced or replaced members.

| member                                    | heartbeat                                     | refusal                 |
|-------------------------------------------|-----------------------------------------------|-------------------------|
| any                                       | epoch below -2, no id, no subscription at join| MalformedRequest        |
| any                                       | an unknown assignor                           | UnsupportedAssignor     |
| any                                       | an invalid pattern                            | InvalidPattern          |
| unknown, or no such group                 | any but a join                                | UnknownMember           |
| known under another epoch                 | a higher epoch                                | MemberFenced            |
| known under another epoch                 | a lower one, other than its previous epoch    | MemberFenced            |
| known, has not seen its latest epoch      | the epoch before, with partitions not its own | MemberFenced            |
| static, and has not left                  | a join under its instance id by another id    | InstanceInUse           |
| static, was replaced                      | any other under its instance id               | InstanceFenced          |
| known under another instance id           | a join                                        | MalformedRequest        |

A member that is fenced or unknown has to drop all its partitions and to join again; it may keep its id.
"""

from __future__ import annotations

from goqueue.errors import (
    InstanceFenced,
    InstanceInUse,
    MalformedRequest,
    MemberFenced,
    UnknownMember,
    UnsupportedAssignor,
)
from goqueue.machines.groups.assignors import ASSIGNORS
from goqueue.machines.groups.classic.values import Leaver
from goqueue.machines.groups.consumer.values import (
    AWAY_EPOCH,
    JOIN_EPOCH,
    ConsumerGroup,
    ConsumerHeartbeat,
    ConsumerMember,
)
from goqueue.machines.groups.topic_pattern import topic_pattern
from goqueue.model.topic import TopicPartition


def check_request(command: ConsumerHeartbeat) -> None:
    """Refuse a heartbeat that is malformed, whatever the state of the group."""
    if not command.member_id:
        raise MalformedRequest("a heartbeat has no member id")
    if command.epoch < AWAY_EPOCH:
        raise MalformedRequest(f"{command.epoch} is no epoch of a member")
    if command.epoch == JOIN_EPOCH:
        if command.owned:
            raise MalformedRequest("a member that joins cannot own partitions yet")
        if command.topics is None and command.pattern is None:
            raise MalformedRequest("a member that joins has to subscribe to something")
    if command.assignor is not None and command.assignor not in ASSIGNORS:
        raise UnsupportedAssignor(
            f"there is no assignor {command.assignor[:60]!r}", hint=f"one of {', '.join(ASSIGNORS)}"
        )
    if command.pattern:
        topic_pattern(command.pattern)


def joining(group: ConsumerGroup, command: ConsumerHeartbeat) -> ConsumerMember | None:
    """Return the member that joins again, or that the new one replaces under its instance id; None if it is new."""
    member = group.members.get(command.member_id)
    if command.instance_id is None or (member is not None and member.instance_id == command.instance_id):
        return member
    if member is not None:
        raise MalformedRequest(
            f"member {member.id!r} joined with another instance id", hint="a client uses another id for each"
        )
    static = group.member_of_instance(command.instance_id)
    if static is not None and not static.is_away:
        raise InstanceInUse(
            f"member {static.id!r} of group {group.name!r} has the instance id {command.instance_id!r}",
            hint="it has to leave first, or to be silent until its session is over",
        )
    return static


def known(group: ConsumerGroup, command: ConsumerHeartbeat) -> ConsumerMember:
    """Return the member that sent a heartbeat, without a check of its epoch."""
    if command.instance_id is not None:
        static = group.member_of_instance(command.instance_id)
        if static is not None and static.id != command.member_id:
            raise InstanceFenced(f"member {command.member_id!r} was replaced by {static.id!r} under its instance id")
    member = group.members.get(command.member_id)
    if member is None or (command.instance_id is not None and member.instance_id != command.instance_id):
        raise UnknownMember(
            f"group {command.group!r} has no member {command.member_id!r}", hint="it has to join with epoch 0"
        )
    return member


def leaving(group: ConsumerGroup, leaver: Leaver) -> ConsumerMember:
    """Return the member that is to leave, by its id, or by its instance id alone."""
    if leaver.instance_id is None:
        found = group.members.get(leaver.member_id)
    else:
        found = group.member_of_instance(leaver.instance_id)
    if found is None:
        raise UnknownMember(f"group {group.name!r} has no member {leaver.instance_id or leaver.member_id!r}")
    if leaver.member_id not in {"", found.id}:
        raise InstanceFenced(f"member {leaver.member_id!r} was replaced by {found.id!r} under its instance id")
    return found


def check_epoch(member: ConsumerMember, epoch: int, owned: frozenset[TopicPartition] | None) -> None:
    """Refuse a member whose epoch is not its latest one; `owned` are the partitions that it reports.

    The previous epoch is valid if the reply with the new one may be lost: if the member owns only partitions of its
    own.
    """
    if epoch == member.epoch:
        return
    is_one_behind = epoch == member.previous_epoch and member.previous_epoch < member.epoch
    if is_one_behind and owned is not None and owned <= member.assigned:
        return
    raise MemberFenced(
        f"member {member.id!r} is at epoch {member.epoch} and came with {epoch}",
        hint="it has to drop its partitions and to join again with epoch 0",
    )
