"""The topics of a group: subscriptions of its members, and partitions of deleted topics.

A re-created topic has the same name and another id, and nothing else in common with the former one. Partitions of the
former topic become partitions to revoke, under the former id, which members know. Only then can members get partitions
of the new topic.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from uuid import UUID

from goqueue.machines.groups.assignors import Subscriptions
from goqueue.machines.groups.consumer.values import ConsumerGroup, ConsumerHeartbeat, ConsumerMember, MemberState
from goqueue.machines.groups.topic_pattern import topic_pattern
from goqueue.machines.groups.values import KnownTopics
from goqueue.model.topic import TopicPartition

Members = Mapping[str, ConsumerMember]


def subscriptions_of(members: Members, topics: KnownTopics) -> Subscriptions:
    """Return the existing topics of each member; members with equal subscriptions share one set."""
    resolved: dict[tuple[frozenset[str], str], frozenset[str]] = {}
    found: dict[str, frozenset[str]] = {}
    for member in members.values():
        wanted = (member.topics, member.pattern)
        if wanted not in resolved:
            resolved[wanted] = _existing(*wanted, topics)
        found[member.id] = resolved[wanted]
    return found


def _existing(names: frozenset[str], pattern: str, topics: KnownTopics) -> frozenset[str]:
    named = frozenset(name for name in names if name in topics)
    return named | frozenset(filter(topic_pattern(pattern).matches, topics)) if pattern else named


def seen_topics(subscriptions: Subscriptions, topics: KnownTopics) -> Mapping[str, int]:
    """Return the partition counts of the topics that any member subscribes to."""
    wanted = frozenset[str]().union(*set(subscriptions.values()))
    return {name: topics[name].partitions for name in sorted(wanted)}


def topic_ids(
    members: Members, seen: Collection[str], known: Mapping[str, UUID], topics: KnownTopics
) -> Mapping[str, UUID]:
    """Return the ids of topics that a group reads or has to revoke: the known id, or else the current one."""
    held = {
        partition.topic
        for member in members.values()
        for partition in member.assigned | member.revoking
        if partition.topic not in member.former
    }
    return {
        name: known[name] if name in known else topics[name].id
        for name in sorted(held.union(seen))
        if name in known or name in topics
    }


def gone_topics(group: ConsumerGroup, topics: KnownTopics) -> Mapping[str, UUID]:
    """Return the topics that the group knows and that were deleted or re-created; with their former ids."""
    return {
        name: topic_id
        for name, topic_id in group.topic_ids.items()
        if name not in topics or topics[name].id != topic_id
    }


def without_gone(group: ConsumerGroup, gone: Mapping[str, UUID]) -> ConsumerGroup:
    """Return the group with all partitions of these topics to be revoked."""
    members = {member.id: _without_gone(member, gone) for member in group.members.values()}
    ids = {name: topic_id for name, topic_id in group.topic_ids.items() if name not in gone}
    return replace(group, members=members, topic_ids=ids)


def _without_gone(member: ConsumerMember, gone: Mapping[str, UUID]) -> ConsumerMember:
    lost = frozenset(partition for partition in member.assigned if partition.topic in gone)
    former = {each.topic: gone[each.topic] for each in (*lost, *member.revoking) if each.topic in gone}
    if not former:
        return member
    if member.is_away:
        return replace(member, assigned=member.assigned - lost)
    return replace(
        member,
        state=MemberState.UNREVOKED,
        assigned=member.assigned - lost,
        revoking=member.revoking | lost,
        # Partitions of a topic that was former before stay with that one: no later topic of the name was assigned
        # since.
        former={**former, **member.former},
        # The limit starts when the member learns of it.
        revocation_deadline_ms=None if lost else member.revocation_deadline_ms,
    )


def owned_by(member: ConsumerMember, command: ConsumerHeartbeat) -> frozenset[TopicPartition] | None:
    """Return the partitions that a member reports, those of former topics included; None if it does not report any."""
    if command.owned is None or not command.owned_former:
        return command.owned
    names = {topic_id: name for name, topic_id in member.former.items()}
    former = {
        TopicPartition(names[each.topic_id], each.partition) for each in command.owned_former if each.topic_id in names
    }
    return command.owned | former
