"""Consumer groups, whose broker assigns partitions (KIP-848).

A group is a value; the functions here take one and return the next, or raise what forbids it. They change nothing and
wait for nothing: the caller stores the difference (`records`) and keeps the new value.

The *target* is the assignment to reach. It is computed at once whenever the group changes, and the group's epoch rises
with it. Members get there one by one, each at its own heartbeats, and a member's epoch shows whether it has arrived. A
partition that a member keeps is never taken away on the way.

| state      | epoch       | at a heartbeat, the member                        | next                               |
|------------|-------------|---------------------------------------------------|------------------------------------|
| stable     | the group's |                                                   | stable                             |
| stable     | an older    | has partitions that are not in its target         | unrevoked: has to revoke them, and |
|            |             |                                                   | keeps its epoch                    |
| stable     | an older    | has none of those, or reports that it owns none   | advances                           |
| unrevoked  | an older    | still owns some of them, or does not report any   | unrevoked                          |
| unrevoked  | an older    | owns none of them                                 | like stable in an older epoch      |
| unreleased | any         |                                                   | like stable in an older epoch      |

To *advance* is to take the group's epoch and all of the target that no other member has or is revoking: the member is
stable if that is all of it, else unreleased, and gets the rest at a later heartbeat.

- A partition is with one member at most: assigned to it, or being revoked by it.
- A heartbeat with the epoch before the member's (the reply may be lost) revokes nothing.
- A member that joins again owns nothing. It keeps its place, and there is no rebalance.
- A static member that has left for a while (epoch -2) keeps its place until its session expires; partitions that its
  target loses in the meantime go to others at once.
- A member that is silent for 30 s, or does not revoke partitions within its limit (60 s or less), is removed.
- Members revoke partitions of a deleted or re-created topic before they get any of the new one.

`topics` are all existing topics. Heartbeats do not look for changes in them: `refresh` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from goqueue.errors import Conflict, GoQueueError, StaleMemberEpoch, UnknownMember, UnknownTopic
from goqueue.machines.decision import Now
from goqueue.machines.groups.classic.values import Leaver
from goqueue.machines.groups.consumer.heartbeat_pace import HeartbeatPace
from goqueue.machines.groups.consumer.requests import check_epoch, check_request, joining, known, leaving
from goqueue.machines.groups.consumer.target import (
    is_settled,
    member_reason,
    overdue_reason,
    partition_name,
    retarget,
    settle,
    short,
    summary,
    topics_reason,
)
from goqueue.machines.groups.consumer.topics import (
    gone_topics,
    owned_by,
    seen_topics,
    subscriptions_of,
    topic_ids,
    without_gone,
)
from goqueue.machines.groups.consumer.values import (
    AWAY_EPOCH,
    JOIN_EPOCH,
    LEAVE_EPOCH,
    REVOCATION_MAX_MS,
    ConsumerGroup,
    ConsumerHeartbeat,
    ConsumerMember,
    ConsumerReply,
    MemberState,
)
from goqueue.machines.groups.values import REBALANCES_KEPT, KnownTopics
from goqueue.model.groups import SESSION_TIMEOUT_MS
from goqueue.model.topic import TopicPartition


def heartbeat(
    group: ConsumerGroup | None, command: ConsumerHeartbeat, topics: KnownTopics, now: Now, pace: HeartbeatPace
) -> tuple[ConsumerGroup, ConsumerReply]:
    """Handle a heartbeat, and return the next value of the group and the reply.

    None is no group: a join creates it. `requests` lists the refusals.
    """
    check_request(command)
    group = group or ConsumerGroup(name=command.group)
    if command.epoch in {LEAVE_EPOCH, AWAY_EPOCH}:
        return _leave(group, command, topics, now)
    if command.epoch == JOIN_EPOCH:
        group, before = _admitted(group, command, now)
        owned: frozenset[TopicPartition] | None = frozenset()
    else:
        before = known(group, command)
        said = owned_by(before, command)
        check_epoch(before, command.epoch, said)
        owned = said if command.epoch == before.epoch else None
    member = _heard(before, command, now)
    reason = member_reason(group, before, member)
    if reason is not None:
        group = retarget(group, {**group.members, member.id: member}, reason, topics, now)
        member = group.members[member.id]
    member = reconcile(group, member, owned, now)
    group = settle(replace(group, members={**group.members, member.id: member}), now)
    is_behind = command.epoch == JOIN_EPOCH or command.epoch != before.epoch
    # Partitions of a deleted topic were taken away between two heartbeats.
    is_poorer = bool(before.former)
    has_news = command.is_full or is_behind or is_poorer or member.assigned != before.assigned
    reply = ConsumerReply(
        member_id=member.id,
        epoch=member.epoch,
        heartbeat_interval_ms=pace.interval_ms(group),
        assignment=member.assigned if has_news else None,
    )
    return group, reply


def still_alive(group: ConsumerGroup, command: ConsumerHeartbeat, now: Now) -> ConsumerMember | None:
    """Return the member with a new session if its heartbeat changes nothing and there is no news for it; else None.

    Most heartbeats are of this kind: nothing is stored, and no other member is looked at.
    """
    member = group.members.get(command.member_id)
    if member is None or not member.epoch == command.epoch == group.epoch or member.state is not MemberState.STABLE:
        return None
    if command.is_full or command.instance_id not in {None, member.instance_id}:
        return None
    check_request(command)
    heard = _heard(member, command, now)
    return heard if heard == member else None


def dismiss(
    group: ConsumerGroup, leavers: Sequence[Leaver], topics: KnownTopics, now: Now
) -> tuple[ConsumerGroup, Sequence[GoQueueError | None]]:
    """Return the group without the members that an administrator removes, and an error or None for each of them."""
    results: list[GoQueueError | None] = []
    gone: dict[str, str] = {}
    for leaver in leavers:
        try:
            member = leaving(group, leaver)
            gone[member.id] = f"member {short(member.id)} left" + (f": {short(leaver.reason)}" * bool(leaver.reason))
            results.append(None)
        except GoQueueError as error:
            results.append(error)
    return remove(group, gone, summary(list(gone.values())), topics, now) if gone else group, results


def remove(
    group: ConsumerGroup, member_ids: Iterable[str], reason: str, topics: KnownTopics, now: Now
) -> ConsumerGroup:
    """Return the group without these members, and with a new target for the others."""
    gone = set(member_ids) & group.members.keys()
    if not gone:
        return group
    staying = {member.id: member for member in group.members.values() if member.id not in gone}
    return settle(retarget(group, staying, reason, topics, now), now)


def refresh(group: ConsumerGroup, topics: KnownTopics, now: Now) -> ConsumerGroup:
    """Return the group with a new target if its topics have changed: created, deleted, grown or newly matched."""
    gone = gone_topics(group, topics)
    if gone:
        group = without_gone(group, gone)
    seen = seen_topics(subscriptions_of(group.members, topics), topics)
    if seen == group.topics and gone.keys().isdisjoint(seen):
        ids = topic_ids(group.members, seen, group.topic_ids, topics)
        return group if ids == group.topic_ids else replace(group, topic_ids=ids)
    return settle(retarget(group, group.members, topics_reason(group.topics, seen, gone), topics, now), now)


def tick(group: ConsumerGroup, topics: KnownTopics, now: Now) -> ConsumerGroup:
    """Return the group without expired members."""
    reasons = {
        member.id: reason for member in group.members.values() if (reason := overdue_reason(member, now)) is not None
    }
    return remove(group, reasons, summary(list(reasons.values())), topics, now) if reasons else group


def deadline_ms(group: ConsumerGroup) -> int | None:
    """Return the monotonic moment of the next deadline."""
    members = group.members.values()
    deadlines = [member.session_deadline_ms for member in members]
    deadlines += [each for member in members if (each := member.revocation_deadline_ms) is not None]
    return min(deadlines, default=None)


def revive(group: ConsumerGroup, now: Now) -> ConsumerGroup:
    """Return the group after a restart: all members have their full time again."""
    members = {
        member.id: replace(
            member,
            session_deadline_ms=now.monotonic_ms + SESSION_TIMEOUT_MS,
            # It is unknown whether the member knows that its partitions are gone with their topic.
            revocation_deadline_ms=(
                now.monotonic_ms + member.revocation_limit_ms if member.revoking and not member.former else None
            ),
        )
        for member in group.members.values()
    }
    return replace(group, members=members)


def check_commit(
    group: ConsumerGroup | None, member_id: str, epoch: int, partitions: Iterable[TopicPartition]
) -> Mapping[TopicPartition, GoQueueError]:
    """Return why partitions cannot be committed, for those that cannot; raise what forbids the whole commit.

    Without a member (a negative epoch), offsets can be committed while the group has no members.
    """
    members: Mapping[str, ConsumerMember] = group.members if group is not None else {}
    if epoch < 0 and not members:
        return {}
    member = members.get(member_id)
    if member is None:
        raise UnknownMember(f"there is no member {member_id!r}, and only members can commit while the group has any")
    if epoch != member.epoch or member.is_away:
        raise StaleMemberEpoch(f"member {member_id!r} is at epoch {member.epoch} and commits with {epoch}")
    refusals: dict[TopicPartition, GoQueueError] = {}
    for partition in partitions:
        if partition in member.revoking and partition.topic in member.former:
            # Not StaleMemberEpoch: the client would retry until the error is gone, before it revokes anything.
            refusals[partition] = UnknownTopic(f"the topic {partition.topic!r} that the member has read is gone")
        elif partition not in member.assigned and partition not in member.revoking:
            refusals[partition] = StaleMemberEpoch(
                f"{partition_name(partition)} is not assigned to member {member_id!r}"
            )
    return refusals


def state_of(group: ConsumerGroup) -> str:
    """Return the state of the group: "empty", "reconciling" or "stable".

    Kafka also has "assigning", while there is no target yet; here there always is one.
    """
    if not group.members:
        return "empty"
    return "stable" if is_settled(group) else "reconciling"


def validate(group: ConsumerGroup) -> None:
    """Check the group's own invariants; AssertionError if one is broken."""
    members = group.members.values()
    held = [partition for member in members for partition in (*member.assigned, *member.revoking)]
    assert len(held) == len(set(held)), "a partition has two owners"
    every = {TopicPartition(name, number) for name, count in group.topics.items() for number in range(count)}
    assert group.topics.keys() <= group.topic_ids.keys()
    targets = [partition for member in members for partition in member.target]
    assert len(targets) == len(every)
    assert set(targets) == every
    for key, member in group.members.items():
        assert key == member.id
        _validate_member(member, group.epoch)
    instances = [member.instance_id for member in members if member.instance_id is not None]
    assert len(instances) == len(set(instances))
    assert len(group.rebalances) <= min(REBALANCES_KEPT, group.rebalance_count)
    assert bool(members) == (group.emptied_ms == 0)


def _validate_member(member: ConsumerMember, group_epoch: int) -> None:
    assert bool(member.revoking) == (member.state is MemberState.UNREVOKED)
    assert member.former.keys() <= {partition.topic for partition in member.revoking}
    if member.is_away:
        assert member.assigned <= member.target
        return
    assert 0 <= member.previous_epoch <= member.epoch <= group_epoch
    if member.epoch == group_epoch:
        assert member.assigned <= member.target
        assert (member.assigned == member.target) == (member.state is MemberState.STABLE)


def _admitted(group: ConsumerGroup, command: ConsumerHeartbeat, now: Now) -> tuple[ConsumerGroup, ConsumerMember]:
    """Return the previous state of a joining member; a returning static member takes its place under the new id."""
    found = joining(group, command)
    if found is None:
        return group, ConsumerMember(id=command.member_id, instance_id=command.instance_id, joined_ms=now.wall_ms)
    if not found.is_away:
        return group, found
    back = replace(found, id=command.member_id, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)
    others = {member.id: member for member in group.members.values() if member.id != found.id}
    return replace(group, members={**others, back.id: back}), back


def _heard(member: ConsumerMember, command: ConsumerHeartbeat, now: Now) -> ConsumerMember:
    """Return the member with the changes of its heartbeat."""
    timeout_ms = command.rebalance_timeout_ms
    if timeout_ms <= 0:
        timeout_ms = REVOCATION_MAX_MS if command.epoch == JOIN_EPOCH else member.rebalance_timeout_ms
    return replace(
        member,
        rack_id=member.rack_id if command.rack_id is None else command.rack_id,
        client_id=command.client_id,
        client_host=command.client_host,
        topics=member.topics if command.topics is None else command.topics,
        pattern=member.pattern if command.pattern is None else command.pattern,
        assignor=member.assignor if command.assignor is None else command.assignor,
        rebalance_timeout_ms=timeout_ms,
        session_deadline_ms=now.monotonic_ms + SESSION_TIMEOUT_MS,
    )


def _leave(
    group: ConsumerGroup, command: ConsumerHeartbeat, topics: KnownTopics, now: Now
) -> tuple[ConsumerGroup, ConsumerReply]:
    member = known(group, command)
    reply = ConsumerReply(member_id=member.id, epoch=command.epoch, heartbeat_interval_ms=0)
    if command.epoch == LEAVE_EPOCH:
        return remove(group, [member.id], f"member {short(member.id)} left", topics, now), reply
    if member.instance_id is None:
        raise Conflict(
            f"member {member.id!r} has no instance id, and cannot leave for a while", hint="-1 leaves for good"
        )
    away = replace(
        member,
        epoch=AWAY_EPOCH,
        state=MemberState.STABLE,
        assigned=member.assigned & member.target,
        revoking=frozenset(),
        former={},
        session_deadline_ms=now.monotonic_ms + SESSION_TIMEOUT_MS,
        revocation_deadline_ms=None,
    )
    return settle(replace(group, members={**group.members, away.id: away}), now), reply


def reconcile(
    group: ConsumerGroup, member: ConsumerMember, owned: frozenset[TopicPartition] | None, now: Now
) -> ConsumerMember:
    """Return the member one step nearer to its target; `owned` is what it reports, None if it reports nothing.

    Only here do partitions change hands, and all members are considered: a member gets no partition that another member
    has or has not revoked yet.
    """
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
    """Return the partitions that the member has not revoked; until it reports its partitions, that is all of them."""
    return partitions if owned is None else partitions & owned


def _still_revoking(member: ConsumerMember, left: frozenset[TopicPartition], now: Now) -> ConsumerMember:
    """Return the member with the partitions that it still has to revoke; its limit starts now if it learns of them only
    now.
    """
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
    """Return the member in the group's epoch, with all of its target that no other member has."""
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
