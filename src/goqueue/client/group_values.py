"""What calls about groups take and return."""

from __future__ import annotations

import msgspec

from goqueue.api.groups import GroupPartition
from goqueue.client.problems import Problem


class PartitionOffset(msgspec.Struct, frozen=True, omit_defaults=True):
    """The offset of the next message to read of a partition, with a note that is kept beside it."""

    topic: str
    partition: int
    offset: int
    metadata: str = ""


class GroupMember(msgspec.Struct, frozen=True, kw_only=True):
    """A member: what it may read, what it was asked to give back, and what it is to have.

    `in_flight` is how many messages it holds in a queue group, and None in others.
    """

    member_id: str
    instance_id: str | None = None
    client_id: str = ""
    host: str = ""
    generation: int = 0
    state: str = "none"
    topics: tuple[str, ...] = ()
    pattern: str = ""
    assigned: tuple[GroupPartition, ...] = ()
    revoking: tuple[GroupPartition, ...] = ()
    target: tuple[GroupPartition, ...] = ()
    joined_at: str | None = None
    silent_seconds: float | None = None
    revoke_within_seconds: float | None = None
    in_flight: int | None = None


class GroupRebalance(msgspec.Struct, frozen=True, kw_only=True):
    """Why partitions changed hands, how long it took, and how many did; without an end it is under way."""

    generation: int
    reason: str
    began_at: str
    ended_at: str | None = None
    duration_seconds: float | None = None
    moves: int = 0


class Owner(msgspec.Struct, frozen=True):
    """The member that has a partition."""

    member_id: str
    client_id: str = ""
    host: str = ""


class GroupOffset(msgspec.Struct, frozen=True, kw_only=True):
    """How far a group is in a partition; what is not known is None.

    `lost` messages were deleted before they were read; `retention_risk` is `none`, `near`, `held` or `lost`.
    """

    topic: str
    partition: int
    offset: int | None = None
    start_offset: int | None = None
    end_offset: int | None = None
    lag: int | None = None
    lag_seconds: float | None = None
    lost: int = 0
    retention_risk: str = "none"
    retention_left_seconds: float | None = None
    metadata: str = ""
    committed_at: str | None = None
    owner: Owner | None = None
    error: Problem | None = None


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """A group with all that is known of it; `topics` is None if only its members know.

    `lag` is how many messages it has not read, at least: partitions are left out in which nothing is committed. It is 0
    only if everything is read, and None if nothing is known.
    """

    name: str
    kind: str
    state: str
    generation: int
    assignor: str = ""
    topics: tuple[str, ...] | None = None
    lag: int | None = None
    lag_seconds: float | None = None
    members: tuple[GroupMember, ...] = ()
    offsets: tuple[GroupOffset, ...] = ()
    rebalance_count: int = 0
    move_count: int = 0
    rebalances: tuple[GroupRebalance, ...] = ()


class GroupOffsets(msgspec.Struct, frozen=True):
    """How far a group is in each partition, and altogether."""

    group: str
    lag: int | None
    lag_seconds: float | None
    offsets: tuple[GroupOffset, ...]


class Membership(msgspec.Struct, frozen=True, kw_only=True):
    """What an eager member is told."""

    member_id: str
    generation: int
    state: str
    assignment: tuple[GroupPartition, ...]
    heartbeat_interval_ms: int

    @property
    def is_rebalancing(self) -> bool:
        """Whether it has to join again."""
        return self.state != "stable"


class CooperativeMembership(msgspec.Struct, frozen=True, kw_only=True):
    """What a cooperative member is told: what it may read, and what it has to give back."""

    member_id: str
    generation: int
    state: str
    assigned: tuple[GroupPartition, ...]
    revoke: tuple[GroupPartition, ...]
    heartbeat_interval_ms: int


class OffsetMove(msgspec.Struct, frozen=True, kw_only=True):
    """Where an offset was, and where it is now or would be; how many messages that skips, or reads again."""

    topic: str
    partition: int
    before: int | None = msgspec.field(name="from")
    after: int | None = msgspec.field(name="to")
    skipped: int = 0
    read_again: int = 0
    unread: int = 0
    error: Problem | None = None


class OffsetMoves(msgspec.Struct, frozen=True):
    """What a reset has done, or would do."""

    group: str
    dry_run: bool
    moves: tuple[OffsetMove, ...]


class RebalanceStats(msgspec.Struct, frozen=True):
    """The rebalances of a group: how many there were, how many partitions they moved, and the last ones."""

    group: str
    rebalance_count: int
    move_count: int
    rebalances: tuple[GroupRebalance, ...]


class AllRebalanceStats(msgspec.Struct, frozen=True):
    """The rebalances of all groups, and of each with the latest one."""

    rebalance_count: int
    move_count: int
    under_way: int
    groups: tuple[RebalanceStats, ...]


class CooperativeGroup(msgspec.Struct, frozen=True):
    """A group whose broker assigns: each member with what it has and what it is to have."""

    name: str
    state: str
    generation: int
    assignor: str
    members: tuple[GroupMember, ...]
