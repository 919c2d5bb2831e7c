"""Groups of either kind: members, topics, who may commit and delete offsets, and when offsets expire."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from goqueue.errors import GoQueueError, GroupNotEmpty, GroupSubscribed, UnknownGroup, UnknownMember
from goqueue.machines.decision import KeyedRecord
from goqueue.machines.groups.classic import group as classic_group
from goqueue.machines.groups.classic.consumer_protocol import CONSUMER, subscribed_topics
from goqueue.machines.groups.classic.values import ClassicGroup, ClassicMember
from goqueue.machines.groups.commands import CommitOffsets
from goqueue.machines.groups.consumer import group as consumer_group
from goqueue.machines.groups.consumer.values import ConsumerGroup
from goqueue.machines.groups.offsets import OffsetTable
from goqueue.model.topic import TopicPartition

Group = ClassicGroup | ConsumerGroup
"""A classic group, whose members assign partitions, or one whose broker does."""


def everybody(group: ClassicGroup) -> Mapping[str, ClassicMember]:
    """Return the members of a classic group, and those that have joined the current round."""
    joiners = group.round.joiners if group.round is not None else {}
    return {**group.members, **{name: joiner.member for name, joiner in joiners.items()}}


def is_in_use(group: Group | None) -> bool:
    """Return whether a group has members, or consumers that are joining."""
    return group is not None and bool(group.members or (isinstance(group, ClassicGroup) and group.round is not None))


def topics_of(group: Group | None) -> frozenset[str] | None:
    """Return the topics that members of a group read; None if only the members know."""
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


def check_commit(group: Group | None, command: CommitOffsets) -> list[GoQueueError | None]:
    """Return for each offset why it cannot be committed, or None; raise what forbids the whole commit.

    Within a transaction, a commit without a member is allowed although the group has members: old producers cannot name
    their member, and their own epoch fences them.
    """
    partitions = [each.partition for each in command.offsets]
    is_transactional = command.producer_id is not None
    is_anonymous = command.epoch < 0 and not command.member_id and command.instance_id is None
    if isinstance(group, ConsumerGroup):
        if is_transactional and is_anonymous:
            return [None] * len(partitions)
        refusals = consumer_group.check_commit(group, command.member_id, command.epoch, partitions)
        return [refusals.get(each) for each in partitions]
    if group is None or group.generation == 0:
        if command.epoch >= 0 or command.member_id:
            raise UnknownMember(f"group {command.group!r} has no member {command.member_id!r}", hint="join again")
        return [None] * len(partitions)
    return classic_group.check_commit(
        group,
        command.member_id,
        command.epoch,
        command.instance_id,
        partitions,
        is_transactional=is_transactional,
    )


def check_removal(name: str, group: Group | None, *, has_offsets: bool) -> None:
    """Raise what keeps a group from being deleted."""
    if group is None and not has_offsets:
        raise UnknownGroup(f"there is no group {name!r}").about(name)
    if is_in_use(group):
        raise GroupNotEmpty(f"group {name!r} has members", hint="stop them first")


def refusals_of_removal(group: Group | None, partitions: Sequence[TopicPartition]) -> list[GoQueueError | None]:
    """Return for each offset why it cannot be deleted, or None."""
    topics = topics_of(group)
    if topics is None:
        raise GroupNotEmpty("the group has members, and only they know what they read", hint="stop them first")
    return [
        GroupSubscribed(f"members of the group read topic {each.topic!r}") if each.topic in topics else None
        for each in partitions
    ]


def expired(groups: Mapping[str, Group], offsets: OffsetTable, before_ms: int) -> list[KeyedRecord]:
    """Return the records that delete expired offsets: those of groups without members since then."""
    records = []
    for name in sorted(offsets.groups()):
        group = groups.get(name)
        if is_in_use(group) or (group is not None and group.emptied_ms > before_ms):
            continue
        old = [each for each, value in offsets.of_group(name).items() if value.committed_ms <= before_ms]
        # An offset that an open transaction is about to change must not expire.
        records += offsets.forget(name, [each for each in old if not offsets.is_pending(name, each)])
    return records


def unused(groups: Mapping[str, Group], offsets: OffsetTable, before_ms: int) -> list[str]:
    """Return the groups without members since a moment that have no offsets either."""
    empty = [name for name, group in groups.items() if 0 < group.emptied_ms <= before_ms and not is_in_use(group)]
    with_offsets = offsets.groups() if empty else ()
    return sorted(name for name in empty if name not in with_offsets)
