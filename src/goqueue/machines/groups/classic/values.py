"""A classic group, its members, and their commands. All values are frozen; fields marked volatile are not stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

import msgspec

from goqueue.machines.decision import TicketReply
from goqueue.machines.groups.values import Rebalance

# The cost of a record: numbers, names of fields, framing.
_FRAME_BYTES = 250


class Protocol(NamedTuple):
    """An assignment protocol of a member, with the member's metadata for the leader."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMember:
    """A member of a generation; `assignment` is from the leader of this generation or of the one before.

    `stored_bytes` is its stored size without the assignment.
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
        """The protocols of the member; clients may name one twice."""
        return frozenset(protocol.name for protocol in self.protocols)

    def metadata(self, protocol: str | None) -> bytes:
        """Return the member's metadata for a protocol."""
        return next((each.metadata for each in self.protocols if each.name == protocol), b"")


class Joiner(NamedTuple):
    """A member that has joined the current round, and waits for its end under a ticket."""

    member: ClassicMember
    ticket: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """A rebalance before its generation begins: members join, or are removed at the deadline.

    If the group was empty before, the round stays open until `open_until_ms`, and longer if others join, up to
    `open_max_ms`: so members that start together share a generation. `newcomers` has a deadline for each new joiner: it
    sends nothing while it waits, and may be gone. `tally` counts all members, with their new protocols once they have
    joined.
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
    """State of a group, in Kafka's words."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicGroup:
    """A group whose leader, one of its members, assigns partitions for all.

    `is_assigned` means that the leader has done so in this generation. `sessions` has a deadline for each member that
    has to send heartbeats (members that wait for a reply do not), `pending` for each id that was handed out and has not
    joined. `syncing` has the tickets of members that wait for the leader; the others are removed at `sync_deadline_ms`.
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
        """State of the group."""
        if self.round is not None:
            return ClassicState.PREPARING
        if not self.members:
            return ClassicState.EMPTY
        return ClassicState.STABLE if self.is_assigned else ClassicState.COMPLETING

    @property
    def is_void(self) -> bool:
        """Whether nothing of the group has to be kept: it has no members, and none is joining."""
        return not self.generation and self.round is None and not self.pending

    def find(self, member_id: str) -> ClassicMember | None:
        """Return a member by its id, in the version of the current round if it has joined that."""
        joiner = self.round.joiners.get(member_id) if self.round is not None else None
        return joiner.member if joiner is not None else self.members.get(member_id)

    def everybody(self) -> dict[str, ClassicMember]:
        """Return all members and joiners, in the version of the current round if they have joined that."""
        joiners = self.round.joiners if self.round is not None else {}
        return {**self.members, **{each: joiner.member for each, joiner in joiners.items()}}

    def is_waiting(self, member_id: str) -> bool:
        """Return whether a member waits for a reply."""
        return member_id in self.syncing or (self.round is not None and member_id in self.round.joiners)

    def member_of_instance(self, instance_id: str | None) -> ClassicMember | None:
        """Return the member with an instance id, whether it has joined the current round or not."""
        if instance_id is None:
            return None
        if self.round is not None:
            for joiner in self.round.joiners.values():
                if joiner.member.instance_id == instance_id:
                    return joiner.member
        return next((member for member in self.members.values() if member.instance_id == instance_id), None)


class ClassicStep(NamedTuple):
    """The next value of a group, and the replies to send."""

    group: ClassicGroup
    answers: tuple[TicketReply, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """Join the next generation; `new_id` is for a member without an id."""

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
    """A member as the leader sees it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """The reply to a join: the member's generation; the leader also gets all members."""

    generation: int
    protocol_type: str
    protocol: str | None
    leader: str
    member_id: str
    members: Sequence[LeaderView] = ()
    is_assigned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """Ask for a member's assignment; the leader sends those of all members."""

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
    """A heartbeat of a member."""

    group: str
    member_id: str
    generation: int
    instance_id: str | None = None


class Leaver(NamedTuple):
    """A member to remove, by its id, or by its instance id alone."""

    member_id: str
    instance_id: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Leave:
    """Remove members."""

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
        """Return the counts with one more member."""
        known = dict(self.known)
        for name in member.protocol_names:
            known[name] = known.get(name, 0) + 1
        return GroupMemberCounts(self.members + 1, self.stored_bytes + member.stored_bytes, known)

    def without(self, members: Iterable[ClassicMember]) -> GroupMemberCounts:
        """Return the counts without some of the members."""
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
        """Return whether all members know one of these protocols."""
        return any(self.known.get(name, 0) == self.members for name in names)


def member_counts_of(members: Iterable[ClassicMember]) -> GroupMemberCounts:
    """Return the counts of some members."""
    members = list(members)
    known = Counter(name for member in members for name in member.protocol_names)
    return GroupMemberCounts(len(members), sum(member.stored_bytes for member in members), dict(known))


def weighed(group: str, member: ClassicMember) -> ClassicMember:
    """Return a member with its stored size, assignment excluded."""
    names = [group, member.id, member.instance_id, member.client_id, member.client_host]
    names += [each.name for each in member.protocols]
    said = sum(len(each.metadata) + 2 for each in member.protocols)
    return replace(member, stored_bytes=_FRAME_BYTES + len(msgspec.json.encode(names)) + said * 4 // 3)
