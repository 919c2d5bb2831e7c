"""The target assignment of a group, its rebalances, and the reason of each rebalance in one sentence.

The target is computed whenever members, subscriptions or topics change; with it the group's epoch rises by one, and a
rebalance begins. It ends when every present member has reached the target, its own or a later one. Its *moves* are the
partitions whose owner in the target has changed: partitions of a member that left count, partitions that are assigned
for the first time do not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from goqueue.machines.decision import Now
from goqueue.machines.groups.assignors import ASSIGNORS, STICKY, Assignment
from goqueue.machines.groups.consumer.topics import Members, seen_topics, subscriptions_of, topic_ids
from goqueue.machines.groups.consumer.values import ConsumerGroup, ConsumerMember, MemberState
from goqueue.machines.groups.values import REBALANCES_KEPT, KnownTopics, Rebalance
from goqueue.model.groups import SESSION_TIMEOUT_MS
from goqueue.model.topic import TopicPartition

_SHOWN_MAX = 64


def retarget(group: ConsumerGroup, members: Members, reason: str, topics: KnownTopics, now: Now) -> ConsumerGroup:
    """Return the group with these members, a new target for them, and a rebalance that begins."""
    subscriptions = subscriptions_of(members, topics)
    seen = seen_topics(subscriptions, topics)
    assignor = chosen_assignor(members)
    targets = ASSIGNORS[assignor](subscriptions, seen, _current(members))
    moves = _moves(group.members, targets)
    rebalance = Rebalance(group.epoch + 1, reason, now.wall_ms, moves=moves)
    return replace(
        group,
        epoch=group.epoch + 1,
        assignor=assignor,
        members={member.id: _with_target(member, targets[member.id]) for member in members.values()},
        topics=seen,
        topic_ids=topic_ids(members, seen, group.topic_ids, topics),
        rebalances=(*group.rebalances, rebalance)[-REBALANCES_KEPT:],
        rebalance_count=group.rebalance_count + 1,
        move_count=group.move_count + moves,
        emptied_ms=0 if members else now.wall_ms,
    )


def settle(group: ConsumerGroup, now: Now) -> ConsumerGroup:
    """Note the end of rebalances, if all members have reached the target."""
    if not group.rebalances or group.rebalances[-1].ended_ms >= 0 or not is_settled(group):
        return group
    ended = tuple(
        each if each.ended_ms >= 0 else Rebalance(each.epoch, each.reason, each.began_ms, now.wall_ms, each.moves)
        for each in group.rebalances
    )
    return replace(group, rebalances=ended)


def is_settled(group: ConsumerGroup) -> bool:
    """Return whether every present member has its target, and knows it."""
    return all(
        member.is_away or (member.state is MemberState.STABLE and member.epoch == group.epoch)
        for member in group.members.values()
    )


def chosen_assignor(members: Members) -> str:
    """Return the assignor that most members ask for; the sticky one if none asks."""
    votes = Counter(_plain(member.assignor) for member in members.values() if member.assignor is not None)
    return min(votes, key=lambda name: (-votes[name], name), default=STICKY)


def _plain(assignor: str) -> str:
    """Return the first of the names of an assignor."""
    return next(name for name, assign in ASSIGNORS.items() if assign is ASSIGNORS[assignor])


def _current(members: Members) -> Assignment:
    """Return the partitions of members for stickiness: by the target first, then those that they really have.

    The target counts first, since its partitions are on their way. Partitions of a removed member's target stay with
    the member that has not revoked them yet.
    """
    promised = frozenset[TopicPartition]().union(*(member.target for member in members.values()))
    return {member.id: member.target | ((member.assigned | member.revoking) - promised) for member in members.values()}


def _moves(before: Members, targets: Assignment) -> int:
    owners = {partition: member.id for member in before.values() for partition in member.target}
    return sum(
        owners.get(partition, member_id) != member_id
        for member_id, partitions in targets.items()
        for partition in partitions
    )


def _with_target(member: ConsumerMember, target: frozenset[TopicPartition]) -> ConsumerMember:
    """Return the member with another target; one that is away has nothing to revoke, and loses partitions at once."""
    if target == member.target:
        return member
    return replace(member, target=target, assigned=member.assigned & target if member.is_away else member.assigned)


def member_reason(group: ConsumerGroup, before: ConsumerMember, member: ConsumerMember) -> str | None:
    """Return why a member's heartbeat needs a new target."""
    name = f"member {short(member.id)}"
    if member.id not in group.members:
        return f"{name} joined"
    if (member.topics, member.pattern) != (before.topics, before.pattern):
        return f"{name} subscribes to other topics"
    if member.assignor != before.assignor:
        chosen = chosen_assignor({**group.members, member.id: member})
        if chosen != group.assignor:
            return f"{name} asks for {member.assignor}, and so partitions are assigned by {chosen}"
    return None


def overdue_reason(member: ConsumerMember, now: Now) -> str | None:
    """Return why a member has to be removed."""
    if member.session_deadline_ms <= now.monotonic_ms:
        return f"member {short(member.id)} was silent for {SESSION_TIMEOUT_MS // 1000} s"
    limit_ms = member.revocation_deadline_ms
    if limit_ms is not None and limit_ms <= now.monotonic_ms:
        kept = summary([partition_name(partition) for partition in sorted(member.revoking)])
        return f"member {short(member.id)} did not revoke {kept} within {member.revocation_limit_ms / 1000:g} s"
    return None


def topics_reason(before: Mapping[str, int], after: Mapping[str, int], gone: Collection[str]) -> str:
    """Return how the topics of a group have changed; a topic in `gone` may have been re-created."""
    every = before.keys() | after.keys()
    changed = sorted(name for name in every if name in gone or before.get(name) != after.get(name))
    return summary([_topic_reason(name, before.get(name), after.get(name), is_gone=name in gone) for name in changed])


def _topic_reason(name: str, before: int | None, after: int | None, *, is_gone: bool) -> str:
    if after is None:
        return f"topic {name} was deleted"
    if before is None:
        return f"topic {name} was created"
    more = after - before
    if is_gone or more < 0:
        return f"topic {name} was re-created"
    return f"topic {name} got {more} more partition{'s' * (more != 1)}"


def summary(found: Sequence[str]) -> str:
    """Return the first of some facts, and how many more there are."""
    return found[0] if len(found) == 1 else f"{found[0]}, and {len(found) - 1} more"


def partition_name(partition: TopicPartition) -> str:
    """Return the display name of a partition."""
    return f"{partition.topic}-{partition.partition}"


def short(text: str) -> str:
    """Return an id as shown to users; clients choose ids, and may choose long ones."""
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."
