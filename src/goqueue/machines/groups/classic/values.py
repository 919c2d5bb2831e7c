"""A classic group and what members say to it. All values are frozen; what is marked volatile is not stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

import msgspec

from goqueue.machines.decision import TicketReply
from goqueue.machines.groups.values import Rebalance

# What a record costs: numbers, names of fields, framing.
_FRAME_BYTES = 250


class Protocol(NamedTuple):
    """A way of assigning partitions that a member knows, and what it tells whoever assigns."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMember:
    """A member of a generation; `assignment` is what the leader gave it, be it in this generation or the one before.

    `stored_bytes` is how much is stored of it, besides the assignment.
    """

    id: str
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    session_timeout_ms: int = 30_000
    rebalance_timeout_ms: int = 60_000
    protocols: tuple[Protocol, ...] = ()
    assignment: bytes = b""
    # volatile
    stored_bytes: int = field(default=0, compare=False)

    @property
    def protocol_names(self) -> frozenset[str]:
        """The protocols that it knows; clients may name one twice."""
        return frozenset(protocol.name for protocol in self.protocols)

    def metadata(self, protocol: str | None) -> bytes:
        """Return what the member says under a protocol."""
        return next((each.metadata for each in self.protocols if each.name == protocol), b"")


class Joiner(NamedTuple):
    """A member that has joined the round under way, and waits for its end under a ticket."""

    member: ClassicMember
    ticket: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """A rebalance before its generation begins: members join, or are given up at the deadline.

    If nobody was there before, the round stays open until `open_until_ms`, and longer if others come, but not beyond
    `open_max_ms`: so members that start together begin together. `newcomers` has a deadline for each joiner that was no
    member before: nothing is heard of it while it waits, and it may be gone. `tally` is that of all members, as they
    are if they have joined, and as they were if not.
    """

    reason: str
    began_ms: int
    deadline_ms: int
    tally: GroupMemberCounts
    open_until_ms: int = 0
    open_max_ms: int = 0
    protocol_type: str = ""
    joiners: Mapping[str, Joiner] = field(default_factory=dict)
    newcomers: Mapping[str, int] = field(default_factory=dict)


class ClassicState(StrEnum):
    """Where a group stands, in Kafka's words."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicGroup:
    """A group whose members assign partitions among themselves: one of them, the leader, does it for all.

    `is_assigned` says that the leader has done so in this generation. `sessions` has a deadline for each member that
    should be heard of (those who wait for an answer cannot be), `pending` for each id that was given out and has not
    joined; `syncing` are tickets of members that wait for the leader, `sync_deadline_ms` is when those that do not are
    given up.
    """

    name: str
    generation: int = 0
    protocol_type: str = ""
    protocol: str | None = None
    leader: str = ""
    is_assigned: bool = False
    members: Mapping[str, ClassicMember] = field(default_factory=dict)
    rebalances: tuple[Rebalance, ...] = ()
    rebalance_count: int = 0
    move_count: int = 0
    emptied_ms: int = 0
    # volatile
    round: Round | None = field(default=None, compare=False)
    sessions: Mapping[str, int] = field(default_factory=dict, compare=False)
    pending: Mapping[str, int] = field(default_factory=dict, compare=False)
    syncing: Mapping[str, int] = field(default_factory=dict, compare=False)
    sync_deadline_ms: int = field(default=0, compare=False)

    @property
    def state(self) -> ClassicState:
        """Where the group stands."""
        if self.round is not None:
            return ClassicState.PREPARING
        if not self.members:
            return ClassicState.EMPTY
        return ClassicState.STABLE if self.is_assigned else ClassicState.COMPLETING

    @property
    def is_void(self) -> bool:
        """Whether there is nothing to keep of the group: nobody was ever a member, or is about to become one."""
        return not self.generation and self.round is None and not self.pending

    def find(self, member_id: str) -> ClassicMember | None:
        """Return a member by its id, as it has joined the round under way if it has."""
        joiner = self.round.joiners.get(member_id) if self.round is not None else None
        return joiner.member if joiner is not None else self.members.get(member_id)

    def everybody(self) -> dict[str, ClassicMember]:
        """Return all members and joiners, as they have joined the round under way if they have."""
        joiners = self.round.joiners if self.round is not None else {}
        return {**self.members, **{each: joiner.member for each, joiner in joiners.items()}}

    def is_waiting(self, member_id: str) -> bool:
        """Tell whether a member waits for an answer."""
        return member_id in self.syncing or (self.round is not None and member_id in self.round.joiners)

    def member_of_instance(self, instance_id: str | None) -> ClassicMember | None:
        """Return the member with an instance id, whether it has joined the round under way or not."""
        if instance_id is None:
            return None
        if self.round is not None:
            for joiner in self.round.joiners.values():
                if joiner.member.instance_id == instance_id:
                    return joiner.member
        return next((member for member in self.members.values() if member.instance_id == instance_id), None)


class ClassicStep(NamedTuple):
    """A group as it is next, and who is told what."""

    group: ClassicGroup
    answers: tuple[TicketReply, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """A member wants to be part of the next generation; `new_id` is for a member that has none yet."""

    group: str
    member_id: str
    new_id: str
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    session_timeout_ms: int = 30_000
    rebalance_timeout_ms: int = 60_000
    protocol_type: str = ""
    protocols: tuple[Protocol, ...] = ()
    needs_known_id: bool = False
    reason: str = ""


class LeaderView(NamedTuple):
    """What the leader is told of a member."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """A member is part of a generation; the leader is told of all members."""

    generation: int
    protocol_type: str
    protocol: str | None
    leader: str
    member_id: str
    members: Sequence[LeaderView] = ()
    is_assigned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """A member asks for its assignment; the leader brings those of all."""

    group: str
    member_id: str
    generation: int
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Synced:
    """A member's assignment."""

    protocol_type: str
    protocol: str | None
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A member is alive."""

    group: str
    member_id: str
    generation: int
    instance_id: str | None = None


class Leaver(NamedTuple):
    """A member that leaves, by its id, or by its instance id alone."""

    member_id: str
    instance_id: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Leave:
    """Members leave."""

    group: str
    leavers: tuple[Leaver, ...]


class GroupMemberCounts(NamedTuple):
    """Counts over members: how many there are, their stored bytes, and how many know each protocol.

    They are kept up to date while members join one by one, since counting at every join would make a round quadratic.
    """

    members: int = 0
    stored_bytes: int = 0
    known: Mapping[str, int] = {}

    def with_member(self, member: ClassicMember) -> GroupMemberCounts:
        """Return the tally with one more member."""
        known = dict(self.known)
        for name in member.protocol_names:
            known[name] = known.get(name, 0) + 1
        return GroupMemberCounts(self.members + 1, self.stored_bytes + member.stored_bytes, known)

    def without(self, members: Iterable[ClassicMember]) -> GroupMemberCounts:
        """Return the tally without some of its members."""
        count, stored_bytes, known = self.members, self.stored_bytes, dict(self.known)
        for member in members:
            count -= 1
            stored_bytes -= member.stored_bytes
            for name in member.protocol_names:
                known[name] -= 1
                if not known[name]:
                    del known[name]
        return GroupMemberCounts(count, stored_bytes, known)

    def have_in_common(self, names: Iterable[str]) -> bool:
        """Tell whether all members know one of these protocols."""
        return any(self.known.get(name, 0) == self.members for name in names)


def member_counts_of(members: Iterable[ClassicMember]) -> GroupMemberCounts:
    """Return the tally of some members."""
    members = list(members)
    known = Counter(name for member in members for name in member.protocol_names)
    return GroupMemberCounts(len(members), sum(member.stored_bytes for member in members), dict(known))


def weighed(group: str, member: ClassicMember) -> ClassicMember:
    """Return a member with how much is stored of it, besides what it is assigned."""
    names = [group, member.id, member.instance_id, member.client_id, member.client_host]
    names += [each.name for each in member.protocols]
    said = sum(len(each.metadata) + 2 for each in member.protocols)
    return replace(member, stored_bytes=_FRAME_BYTES + len(msgspec.json.encode(names)) + said * 4 // 3)
