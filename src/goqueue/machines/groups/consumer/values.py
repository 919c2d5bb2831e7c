"""Values of consumer groups: groups, members, heartbeats and their replies.

All values are frozen. Fields marked volatile are not stored and do not count in comparisons: two groups are equal if
their stored parts are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from goqueue.machines.groups.assignors import STICKY
from goqueue.machines.groups.values import Rebalance
from goqueue.model.topic import TopicPartition

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
AWAY_EPOCH = -2

REVOCATION_MAX_MS = 60_000
"""The longest limit for revoking partitions; a member may ask for less."""


class MemberState(StrEnum):
    """Progress of a member towards its target."""

    STABLE = "stable"
    UNREVOKED = "unrevoked"
    UNRELEASED = "unreleased"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """A member: its subscription, and its partitions.

    `assigned` are the partitions that it may read, `revoking` those that it has to give up and still may have, `target`
    those that it will have in the end. `former` has the ids of topics in `revoking` that were deleted or re-created.
    Its epoch is that of the group whose target it has reached; -2 if it is static and has left for a while. A static
    member has an instance id: it comes back under it, with another member id.
    """

    id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    pattern: str = ""
    assignor: str | None = None
    rebalance_timeout_ms: int = REVOCATION_MAX_MS
    epoch: int = JOIN_EPOCH
    previous_epoch: int = JOIN_EPOCH
    state: MemberState = MemberState.STABLE
    assigned: frozenset[TopicPartition] = frozenset()
    revoking: frozenset[TopicPartition] = frozenset()
    target: frozenset[TopicPartition] = frozenset()
    former: Mapping[str, UUID] = field(default_factory=dict)
    joined_ms: int = 0
    # volatile
    session_deadline_ms: int = field(default=0, compare=False)
    revocation_deadline_ms: int | None = field(default=None, compare=False)

    @property
    def is_away(self) -> bool:
        """Whether it has left for a while, and holds nothing."""
        return self.epoch == AWAY_EPOCH

    @property
    def revocation_limit_ms(self) -> int:
        """How long it may take to revoke partitions."""
        return min(self.rebalance_timeout_ms, REVOCATION_MAX_MS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroup:
    """A group; its epoch counts its targets.

    `topics` are those that members subscribe to, as they were when the target was computed; `topic_ids` has their ids
    and those of topics with partitions to revoke. `rebalances` are the last ones, the newest at the end. `emptied_ms`
    is when the last member left, 0 while there are members.
    """

    name: str
    epoch: int = 0
    assignor: str = STICKY
    members: Mapping[str, ConsumerMember] = field(default_factory=dict)
    topics: Mapping[str, int] = field(default_factory=dict)
    topic_ids: Mapping[str, UUID] = field(default_factory=dict)
    rebalances: tuple[Rebalance, ...] = ()
    rebalance_count: int = 0
    move_count: int = 0
    emptied_ms: int = 0

    def member_of_instance(self, instance_id: str) -> ConsumerMember | None:
        """Return the static member with an instance id."""
        return next((member for member in self.members.values() if member.instance_id == instance_id), None)

    @property
    def is_rebalancing(self) -> bool:
        """Whether a rebalance has begun and not ended."""
        return bool(self.rebalances) and self.rebalances[-1].ended_ms < 0


class FormerPartition(NamedTuple):
    """A partition of a deleted topic; only its id is known."""

    topic_id: UUID
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeat:
    """A heartbeat with the changes of a member; None means no change.

    Epoch 0 joins, or joins again; -1 leaves; -2 leaves for a while. `topics` and `pattern` are subscribed to together,
    an empty pattern is none. `owned` are the partitions that the member has, `owned_former` those of deleted topics. A
    full request gets a full reply.
    """

    group: str
    member_id: str
    epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topics: frozenset[str] | None = None
    pattern: str | None = None
    assignor: str | None = None
    owned: frozenset[TopicPartition] | None = None
    owned_former: frozenset[FormerPartition] = frozenset()
    is_full: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerReply:
    """The reply to a heartbeat; without an assignment, the known one holds."""

    member_id: str
    epoch: int
    heartbeat_interval_ms: int
    assignment: frozenset[TopicPartition] | None = None
