"""What is told of groups, whatever their kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from goqueue.broker.groups.lag import Lag
from goqueue.machines.groups.offsets import CommittedOffset
from goqueue.machines.groups.values import Rebalance
from goqueue.model.groups import GroupKind, GroupState, MemberProgress
from goqueue.model.topic import TopicPartition

Partitions = frozenset[TopicPartition]


class MemberView(NamedTuple):
    """A member; `assigned` is what it may work on, `revoking` what it was asked to give back, `target` its due.

    `silent_ms` is since when nothing was heard of it, `revoke_within_ms` how long it has to give back before it is
    removed, `in_flight` how many messages it holds; None where there is nothing to tell.
    """

    id: str
    instance_id: str | None
    client_id: str
    host: str
    epoch: int
    progress: MemberProgress
    topics: Sequence[str]
    pattern: str
    assigned: Partitions
    revoking: Partitions
    target: Partitions
    joined_ms: int | None
    silent_ms: int | None
    revoke_within_ms: int | None
    in_flight: int | None = None


class OffsetView(NamedTuple):
    """How far a group is in a partition, and which member has it; without an offset, nothing is committed yet."""

    partition: TopicPartition
    committed: CommittedOffset | None
    lag: Lag
    owner: MemberView | None


class Overview(NamedTuple):
    """A group in a line; `lag` is in messages (`total_lag`)."""

    name: str
    kind: GroupKind
    state: GroupState
    members: int
    lag: int | None


class Overviews(NamedTuple):
    """Groups in order of their names; if it `is_complete`, all of them."""

    groups: Sequence[Overview]
    is_complete: bool


class Books(NamedTuple):
    """The rebalances of a group: how many there were, how many partitions they moved, and the last ones."""

    name: str
    total: int
    moves: int
    latest: Sequence[Rebalance]


class GroupView(NamedTuple):
    """A group with all that is known of it; `topics` is None if only its members know."""

    name: str
    kind: GroupKind
    state: GroupState
    epoch: int
    assignor: str
    topics: Sequence[str] | None
    members: Sequence[MemberView]
    offsets: Sequence[OffsetView]
    books: Books
