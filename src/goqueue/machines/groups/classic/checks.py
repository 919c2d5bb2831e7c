"""Checks and session updates that several operations on a classic group share, and the errors that they raise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from goqueue.errors import InstanceFenced, RebalanceInProgress, StaleGeneration, UnknownMember
from goqueue.machines.decision import Now
from goqueue.machines.groups.classic.values import ClassicGroup, ClassicMember

T = TypeVar("T")


def require_group(group: ClassicGroup | None, name: str, member_id: str) -> ClassicGroup:
    """Return the group; UnknownMember if it does not exist."""
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
    own = group.find(member_id)
    if own is not None and own.instance_id == instance_id:
        # The fast path: no other member has the id, and groups may have many members.
        return
    check_owner(group, instance_id, group.member_of_instance(instance_id), member_id)


def check_owner(group: ClassicGroup, instance_id: str, owner: ClassicMember | None, member_id: str) -> ClassicMember:
    """Return the owner of an instance id; UnknownMember if there is none, InstanceFenced if it is another member."""
    if owner is None:
        raise UnknownMember(f"group {group.name!r} has no member with instance id {instance_id!r}")
    if owner.id != member_id:
        raise InstanceFenced(f"instance id {instance_id!r} belongs to member {owner.id} now, not to {member_id!r}")
    return owner


def unknown_member(group: ClassicGroup, member_id: str) -> UnknownMember:
    """Return the error for an unknown member id."""
    return UnknownMember(f"group {group.name!r} has no member {member_id!r}", hint="join again")


def in_progress(group: ClassicGroup) -> RebalanceInProgress:
    """Return the error that calls members to join again."""
    return RebalanceInProgress(f"group {group.name!r} is being rebalanced", hint="join again")


def heard(group: ClassicGroup, member_id: str, now: Now) -> ClassicGroup:
    """Return the group with a new session for a member, unless it waits for a reply: then it has no session."""
    if group.is_waiting(member_id):
        return group
    deadline_ms = now.monotonic_ms + group.members[member_id].session_timeout_ms
    return replace(group, sessions={**group.sessions, member_id: deadline_ms})


def answered(group: ClassicGroup, now: Now) -> ClassicGroup:
    """Return the group with new sessions for all members that waited for the leader, since they get a reply now."""
    begun = {each: now.monotonic_ms + group.members[each].session_timeout_ms for each in group.syncing}
    return replace(group, sessions={**group.sessions, **begun}, syncing={}) if begun else group


def without(mapping: Mapping[str, T], keys: Iterable[str]) -> dict[str, T]:
    """Return a mapping without some keys."""
    rest = dict(mapping)
    for key in keys:
        rest.pop(key, None)
    return rest
