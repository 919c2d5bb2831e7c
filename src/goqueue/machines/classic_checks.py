"""What several acts on a classic group ask first, and the errors that they raise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from goqueue.errors import InstanceFenced, RebalanceInProgress, StaleGeneration, UnknownMember
from goqueue.machines.classic_values import ClassicGroup
from goqueue.machines.decision import Now

T = TypeVar("T")


def require_group(group: ClassicGroup | None, name: str, member_id: str) -> ClassicGroup:
    """Return the group; UnknownMember if there is none."""
    if group is None:
        raise UnknownMember(f"group {name!r} has no member {member_id!r}")
    return group


def check_member(group: ClassicGroup, member_id: str, instance_id: str | None, generation: int) -> None:
    """Raise what keeps a member from acting in a generation."""
    check_instance(group, member_id, instance_id)
    if member_id not in group.members:
        raise unknown_member(group, member_id)
    if generation != group.generation:
        raise StaleGeneration(
            f"group {group.name!r} is in generation {group.generation}, not {generation}", hint="join again"
        )


def check_instance(group: ClassicGroup, member_id: str, instance_id: str | None) -> None:
    """Raise UnknownMember or InstanceFenced unless an instance id, if there is one, belongs to the member."""
    if instance_id is None:
        return
    known = group.member_of_instance(instance_id)
    if known is None:
        raise UnknownMember(f"group {group.name!r} has no member with instance id {instance_id!r}")
    if known.id != member_id:
        raise InstanceFenced(f"instance id {instance_id!r} belongs to member {known.id} now, not to {member_id!r}")


def has_member(group: ClassicGroup, member_id: str) -> bool:
    """Tell whether a member is there, or has joined the round under way."""
    return member_id in group.members or (group.round is not None and member_id in group.round.joiners)


def unknown_member(group: ClassicGroup, member_id: str) -> UnknownMember:
    """Return the error for somebody who is no member."""
    return UnknownMember(f"group {group.name!r} has no member {member_id!r}", hint="join again")


def in_progress(group: ClassicGroup) -> RebalanceInProgress:
    """Return the error that calls members to join again."""
    return RebalanceInProgress(f"group {group.name!r} is being rebalanced", hint="join again")


def heard(group: ClassicGroup, member_ids: Iterable[str], now: Now) -> ClassicGroup:
    """Return the group with new sessions for members that were heard, or could not be as they waited for an answer."""
    begun = {each: now.monotonic_ms + group.members[each].session_timeout_ms for each in member_ids}
    return replace(group, sessions={**group.sessions, **begun}) if begun else group


def without(mapping: Mapping[str, T], *keys: str) -> dict[str, T]:
    """Return a mapping without some keys."""
    return {key: value for key, value in mapping.items() if key not in keys}
