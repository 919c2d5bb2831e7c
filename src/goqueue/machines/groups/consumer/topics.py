"""What a group knows of topics: which of them its members subscribe to, and what becomes of those that are gone.

A topic that is deleted and made anew has the same name and another id, and nothing else in common with the former one.
What members have of the former one is theirs no longer: it moves to what they are to give back, and is kept there
under the former id, which is the one that they know. Only then can they be given anything of the new one.
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
    """Return the topics of each member that exist; members that want the same share one set."""
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
    """Return how many partitions the topics have that any member subscribes to."""
    wanted = frozenset[str]().union(*set(subscriptions.values()))
    return {name: topics[name].partitions for name in sorted(wanted)}


def topic_ids(
    members: Members, seen: Collection[str], known: Mapping[str, UUID], topics: KnownTopics
) -> Mapping[str, UUID]:
    """Return the ids of the topics that a group sees or has to give back: those that it knows, or else as they are."""
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
    """Return the topics that the group knows and that are not there any more, or others by now; with their ids."""
    return {
        name: topic_id
        for name, topic_id in group.topic_ids.items()
        if name not in topics or topics[name].id != topic_id
    }


def without_gone(group: ConsumerGroup, gone: Mapping[str, UUID]) -> ConsumerGroup:
    """Return the group with all that members have of these topics among what they are to give back."""
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
        # What was of a former topic before is of that one still: nothing was given of a later one since.
        former={**former, **member.former},
        # Its time begins when it is told.
        revocation_deadline_ms=None if lost else member.revocation_deadline_ms,
    )


def owned_by(member: ConsumerMember, command: ConsumerHeartbeat) -> frozenset[TopicPartition] | None:
    """Return what a member says that it has, that of former topics included; None if it does not say."""
    if command.owned is None or not command.owned_former:
        return command.owned
    names = {topic_id: name for name, topic_id in member.former.items()}
    former = {
        TopicPartition(names[each.topic_id], each.partition) for each in command.owned_former if each.topic_id in names
    }
    return command.owned | former
