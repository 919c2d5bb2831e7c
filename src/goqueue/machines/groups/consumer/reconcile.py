"""How a member gets from what it has to what it is to have, one heartbeat after another.

The rules and the states are in the docstring of `consumer_group`. This is the only place at which partitions change
hands, and it looks at all members: nothing is given to one that another has, or has not given back.
"""

from __future__ import annotations

from dataclasses import replace

from goqueue.machines.decision import Now
from goqueue.machines.groups.consumer.values import ConsumerGroup, ConsumerMember, MemberState
from goqueue.model.topic import TopicPartition


def reconcile(
    group: ConsumerGroup, member: ConsumerMember, owned: frozenset[TopicPartition] | None, now: Now
) -> ConsumerMember:
    """Return the member one step nearer to its target; `owned` is what it says that it has, None if it does not say."""
    if member.state is MemberState.UNREVOKED:
        left = _left(member.revoking, owned)
        if left:
            return _still_revoking(member, left, now)
    elif member.state is MemberState.STABLE and member.epoch == group.epoch:
        return member
    surplus = _left(member.assigned - member.target, owned)
    if surplus:
        return replace(
            member,
            state=MemberState.UNREVOKED,
            assigned=member.assigned & member.target,
            revoking=surplus,
            former={},
            revocation_deadline_ms=now.monotonic_ms + member.revocation_limit_ms,
        )
    return _advanced(group, member)


def _left(partitions: frozenset[TopicPartition], owned: frozenset[TopicPartition] | None) -> frozenset[TopicPartition]:
    """Return those that the member has not given back; as long as it does not say, it has them all."""
    return partitions if owned is None else partitions & owned


def _still_revoking(member: ConsumerMember, left: frozenset[TopicPartition], now: Now) -> ConsumerMember:
    """Return the member with what is left to give back; if it is told only now, its time begins."""
    deadline_ms = member.revocation_deadline_ms
    if left == member.revoking and deadline_ms is not None:
        return member
    names = {partition.topic for partition in left}
    return replace(
        member,
        revoking=left,
        former={name: topic_id for name, topic_id in member.former.items() if name in names},
        revocation_deadline_ms=now.monotonic_ms + member.revocation_limit_ms if deadline_ms is None else deadline_ms,
    )


def _advanced(group: ConsumerGroup, member: ConsumerMember) -> ConsumerMember:
    """Return the member in the group's epoch, with all of its target that nobody else has."""
    taken = _held_by_others(group, member)
    return replace(
        member,
        state=MemberState.UNRELEASED if taken else MemberState.STABLE,
        epoch=group.epoch,
        previous_epoch=member.previous_epoch if member.epoch == group.epoch else member.epoch,
        assigned=member.target - taken,
        revoking=frozenset(),
        former={},
        revocation_deadline_ms=None,
    )


def _held_by_others(group: ConsumerGroup, member: ConsumerMember) -> frozenset[TopicPartition]:
    wanted = member.target - member.assigned
    taken: frozenset[TopicPartition] = frozenset()
    for other in group.members.values() if wanted else ():
        if other.id != member.id:
            taken |= (wanted & other.assigned) | (wanted & other.revoking)
    return taken
