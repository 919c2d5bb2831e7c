"""A group of either kind, and what can be said of both: who is in it, whether it is used, and what it reads."""

from __future__ import annotations

from collections.abc import Mapping

from goqueue.machines.groups.classic.consumer_protocol import CONSUMER, subscribed_topics
from goqueue.machines.groups.classic.values import ClassicGroup, ClassicMember
from goqueue.machines.groups.consumer.values import ConsumerGroup

Group = ClassicGroup | ConsumerGroup
"""A classic group, whose members assign partitions, or one whose broker does."""


def everybody(group: ClassicGroup) -> Mapping[str, ClassicMember]:
    """Return the members of a classic group, and those who are about to become one."""
    joiners = group.round.joiners if group.round is not None else {}
    return {**group.members, **{name: joiner.member for name, joiner in joiners.items()}}


def is_in_use(group: Group | None) -> bool:
    """Tell whether a group has members, or somebody is about to become one."""
    return group is not None and bool(group.members or (isinstance(group, ClassicGroup) and group.round is not None))


def topics_of(group: Group | None) -> frozenset[str] | None:
    """Return the topics that members of a group read; None if only they know."""
    if group is None:
        return frozenset()
    if isinstance(group, ConsumerGroup):
        return frozenset(group.topics)
    if group.members and group.protocol_type != CONSUMER:
        return None
    subscriptions = [subscribed_topics(member.metadata(group.protocol)) for member in group.members.values()]
    if any(topics is None for topics in subscriptions):
        return None
    return frozenset(topic for topics in subscriptions for topic in topics or ())
