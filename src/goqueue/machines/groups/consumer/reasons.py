"""Why a group is rebalanced, in one plain sentence each; None where there is no reason to."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from goqueue.machines.decision import Now
from goqueue.machines.groups.consumer.target import chosen_assignor
from goqueue.machines.groups.consumer.values import SESSION_TIMEOUT_MS, ConsumerGroup, ConsumerMember
from goqueue.model.topic import TopicPartition

_SHOWN_MAX = 64


def member_reason(group: ConsumerGroup, before: ConsumerMember, member: ConsumerMember) -> str | None:
    """Return why what a member said needs a new target."""
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
    """Return why a member has to go."""
    if member.session_deadline_ms <= now.monotonic_ms:
        return f"member {short(member.id)} was silent for {SESSION_TIMEOUT_MS // 1000} s"
    limit_ms = member.revocation_deadline_ms
    if limit_ms is not None and limit_ms <= now.monotonic_ms:
        kept = summary([partition_name(partition) for partition in sorted(member.revoking)])
        return f"member {short(member.id)} did not give back {kept} within {member.revocation_limit_ms / 1000:g} s"
    return None


def topics_reason(before: Mapping[str, int], after: Mapping[str, int], gone: Collection[str]) -> str:
    """Return how the topics of a group have changed; those that are gone may be there anew."""
    every = before.keys() | after.keys()
    changed = sorted(name for name in every if name in gone or before.get(name) != after.get(name))
    return summary([_topic_reason(name, before.get(name), after.get(name), is_gone=name in gone) for name in changed])


def _topic_reason(name: str, before: int | None, after: int | None, *, is_gone: bool) -> str:
    if after is None:
        return f"topic {name} was deleted"
    if before is None:
        return f"topic {name} was made"
    more = after - before
    if is_gone or more < 0:
        return f"topic {name} was made anew"
    return f"topic {name} got {more} more partition{'s' * (more != 1)}"


def summary(found: Sequence[str]) -> str:
    """Return the first of some facts, and how many more there are."""
    return found[0] if len(found) == 1 else f"{found[0]}, and {len(found) - 1} more"


def partition_name(partition: TopicPartition) -> str:
    """Return how a partition is called."""
    return f"{partition.topic}-{partition.partition}"


def short(text: str) -> str:
    """Return what is shown of an id; clients choose them, and may choose long ones."""
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."
