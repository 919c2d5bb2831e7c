"""Requests and replies about groups."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType
from typing_extensions import override

from goqueue.api.fields import (
    BYTES_PATTERN,
    NAME_PATTERN,
    OFFSET_MAX,
    REQUEST_PARTITIONS_MAX,
    WAIT_PATTERN,
    Generation,
    GroupName,
    MemberId,
    Milliseconds,
    Moment,
    Offset,
    PartitionIndex,
    Timestamp,
    TopicName,
)
from goqueue.api.messages import Message
from goqueue.api.problems import MessageError
from goqueue.model.groups import (
    ASSIGNOR_NAMES,
    SESSION_TIMEOUT_MS,
    Danger,
    GroupKind,
    GroupState,
    MemberProgress,
    ResetTarget,
)
from goqueue.model.request_limits import MESSAGES_MAX
from goqueue.model.start_at import StartAt
from goqueue.model.topic import NAME_MAX
from goqueue.model.units import duration_text


class GroupPartition(msgspec.Struct, frozen=True, forbid_unknown_fields=True, order=True):
    """A partition by the name of its topic."""

    topic: Annotated[
        str, Meta(min_length=1, max_length=NAME_MAX, pattern=NAME_PATTERN, description="The name of a topic.")
    ]
    partition: PartitionIndex

    @override
    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class PartitionError(msgspec.Struct):
    """The error of one partition; others may have succeeded."""

    topic: str
    partition: int
    error: MessageError


class Owner(msgspec.Struct):
    """The member that a partition is assigned to."""

    member_id: str
    client_id: str
    host: str


class GroupOffset(msgspec.Struct, kw_only=True):
    """A group's offset in a partition. `lag` counts unread messages, `lag_seconds` is the age of the oldest one.

    Unknown values are null: nothing was committed, or the age cannot be found. A partition that cannot be used has an
    error instead. `lost` counts offsets that were deleted unread; retention deletes the next ones after
    `retention_left_seconds`. `retention_risk`: `near` if that is soon, `lost` if it has happened, `held` if only the
    group holds retention back.
    """

    topic: str
    partition: int
    offset: int | None
    start_offset: int | None
    end_offset: int | None
    lag: int | None
    lag_seconds: float | None
    lost: int
    retention_risk: Danger
    retention_left_seconds: float | None
    metadata: str
    committed_at: Timestamp | None
    owner: Owner | None
    error: MessageError | UnsetType = UNSET


class GroupSummary(msgspec.Struct, frozen=True):
    """A group in short; `lag` is a lower bound of its unread messages, null if unknown."""

    name: str
    kind: GroupKind
    state: GroupState
    members: int
    lag: int | None


class Groups(msgspec.Struct):
    """All groups, sorted by name; unless `complete`, groups whose log cannot be used are missing."""

    groups: list[GroupSummary]
    complete: bool


class GroupMember(msgspec.Struct, kw_only=True):
    """A member: `assigned` are its partitions, `revoking` those it has to give up, `target` its next assignment.

    `state` is its progress in a rebalance: `none`, `pending_revoke` (it has to give up partitions), `pending_assign`
    (it waits for others), `complete` (others are not ready). `silent_seconds` is the time since its last heartbeat,
    `revoke_within_seconds` its time left to give up partitions. Members of queue groups are Kafka's share consumers and
    all other consumers with leased messages, counted by `in_flight`; it is null in other groups.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    generation: int
    state: MemberProgress
    topics: list[str]
    pattern: str
    assigned: list[GroupPartition]
    revoking: list[GroupPartition]
    target: list[GroupPartition]
    joined_at: Timestamp | None
    silent_seconds: float | None
    revoke_within_seconds: float | None
    in_flight: int | None


class GroupRebalance(msgspec.Struct):
    """A rebalance: its reason, duration, and moved partitions; without an end it is in progress."""

    generation: int
    reason: str
    began_at: Timestamp
    ended_at: Timestamp | None
    duration_seconds: float | None
    moves: int


class Group(msgspec.Struct, kw_only=True):
    """A group; `topics` is null if only its members know them.

    `lag` is a lower bound of its unread messages: it leaves out partitions without a committed offset. It is 0 only if
    everything is read, and null if unknown.
    """

    name: str
    kind: GroupKind
    state: GroupState
    generation: int
    assignor: str
    topics: list[str] | None
    lag: int | None
    lag_seconds: float | None
    members: list[GroupMember]
    offsets: list[GroupOffset]
    rebalance_count: int
    move_count: int
    rebalances: list[GroupRebalance]


class RebalanceStats(msgspec.Struct):
    """The number of a group's rebalances, of the partitions they moved, and the last ten."""

    group: str
    rebalance_count: int
    move_count: int
    rebalances: list[GroupRebalance]


class AllRebalanceStats(msgspec.Struct):
    """The rebalances of all groups; each group with its latest one."""

    rebalance_count: int
    move_count: int
    under_way: int
    groups: list[RebalanceStats]


class CooperativeGroup(msgspec.Struct):
    """A group whose broker assigns, with the current and target assignment of each member."""

    name: str
    state: GroupState
    generation: int
    assignor: str
    members: list[GroupMember]


SESSION_TIMEOUT = duration_text(SESSION_TIMEOUT_MS)
_Partitions = Annotated[list[GroupPartition], Meta(max_length=REQUEST_PARTITIONS_MAX)]


class NewMember(msgspec.Struct, forbid_unknown_fields=True):
    """A member that joins, or joins again with its id; without an id it gets a new one."""

    topics: Annotated[
        list[TopicName],
        Meta(min_length=1, max_length=1000, description="Topics to read. They need not exist yet."),
    ]
    client_id: Annotated[str, Meta(max_length=200, description="Display name of the member.")] = "http"
    member_id: MemberId | UnsetType = UNSET
    instance_id: (
        Annotated[
            str,
            Meta(min_length=1, max_length=200, description="Static membership: keeps the assignment across restarts."),
        ]
        | UnsetType
    ) = UNSET
    assignor: (
        Annotated[
            str,
            Meta(
                description="The assignor that the member votes for.", extra_json_schema={"enum": list(ASSIGNOR_NAMES)}
            ),
        ]
        | UnsetType
    ) = UNSET
    session_timeout: Annotated[
        str | int,
        Meta(
            description=f"Time without heartbeats after which a member is removed; always {SESSION_TIMEOUT}.",
            extra_json_schema={"enum": [SESSION_TIMEOUT, SESSION_TIMEOUT_MS]},
        ),
    ] = SESSION_TIMEOUT


class Member(msgspec.Struct, forbid_unknown_fields=True):
    """A heartbeat of an eager member, with the generation that it knows."""

    member_id: MemberId
    generation: Generation


class CooperativeMember(msgspec.Struct, forbid_unknown_fields=True):
    """A heartbeat of a cooperative member. If `owned` is present, all other partitions are given up."""

    member_id: MemberId
    generation: Generation
    owned: _Partitions | UnsetType = UNSET


class GivenBack(msgspec.Struct, forbid_unknown_fields=True):
    """Partitions that a member gives up, because the broker asked for them."""

    member_id: MemberId
    generation: Generation
    partitions: _Partitions


class LeavingMember(msgspec.Struct, forbid_unknown_fields=True):
    """A member that leaves. With an instance id it can leave `for_a_while`, and keeps its partitions."""

    member_id: MemberId
    for_a_while: bool = False


class AssignmentQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which member to describe."""

    member_id: MemberId


class Membership(msgspec.Struct, kw_only=True):
    """The state of an eager member: if `rebalancing`, it has to join again."""

    member_id: str
    generation: int
    state: Literal["stable", "rebalancing"]
    assignment: list[GroupPartition]
    heartbeat_interval_ms: int


class CooperativeMembership(msgspec.Struct, kw_only=True):
    """The state of a cooperative member: the partitions to read, and those to give up.

    `pending_revoke`: it has to give up partitions; `pending_assign`: it waits for partitions of others; `complete`: it
    has its target assignment, others have not; `none`: no rebalance is in progress.
    """

    member_id: str
    generation: int
    state: MemberProgress
    assigned: list[GroupPartition]
    revoke: list[GroupPartition]
    heartbeat_interval_ms: int


_GroupPartitions = Annotated[list[GroupPartition], Meta(min_length=1, max_length=REQUEST_PARTITIONS_MAX)]


class OffsetToCommit(msgspec.Struct, forbid_unknown_fields=True):
    """The offset of the next message to read in a partition, with metadata."""

    topic: TopicName
    partition: PartitionIndex
    offset: Offset
    metadata: Annotated[str, Meta(max_length=1024)] = ""


class OffsetsToCommit(msgspec.Struct, forbid_unknown_fields=True):
    """Offsets to commit: by a member with its generation, or without either while the group has no members."""

    offsets: Annotated[list[OffsetToCommit], Meta(min_length=1, max_length=MESSAGES_MAX)]
    member_id: MemberId | UnsetType = UNSET
    generation: Generation | UnsetType = UNSET


class CommitResult(msgspec.Struct):
    """The result of one offset."""

    topic: str
    partition: int
    error: MessageError | UnsetType = UNSET


class CommitResults(msgspec.Struct):
    """The result of each offset, in the order of the request."""

    results: list[CommitResult]


class GroupOffsets(msgspec.Struct):
    """The offset and lag of a group in each partition, and the total, as far as known."""

    group: str
    lag: int | None
    lag_seconds: float | None
    offsets: list[GroupOffset]


class OffsetsReset(msgspec.Struct, forbid_unknown_fields=True):
    """Where to move the offsets of a group: those of `topics` and `partitions`, or all."""

    to: ResetTarget
    offset: Offset | UnsetType = UNSET
    time: Milliseconds | Moment | UnsetType = UNSET
    group: GroupName | UnsetType = UNSET
    topics: Annotated[list[TopicName], Meta(min_length=1, max_length=1000)] | UnsetType = UNSET
    partitions: _GroupPartitions | UnsetType = UNSET
    dry_run: Annotated[bool, Meta(description="Show the effect, and change nothing.")] = False


class OffsetMove(msgspec.Struct, kw_only=True):
    """The move of one offset: before, after, and how many messages that skips or reads again.

    `unread` is how many messages follow the new offset.
    """

    topic: str
    partition: int
    before: int | None = msgspec.field(name="from")
    after: int | None = msgspec.field(name="to")
    skipped: int
    read_again: int
    unread: int
    error: MessageError | UnsetType = UNSET


class OffsetMoves(msgspec.Struct):
    """The effect of a reset on each partition."""

    group: str
    dry_run: bool
    moves: list[OffsetMove]


_SEEK = "[a-zA-Z0-9._-]{1,249}:[0-9]{1,9}:[0-9]{1,18}"
_SEEK_PATTERN = f"^({_SEEK}(,{_SEEK})*)?$"


class PollQuery(msgspec.Struct, forbid_unknown_fields=True):
    """The member that polls, how much to return, and how long to wait for a message."""

    member_id: MemberId
    generation: Generation
    limit: Annotated[int, Meta(ge=1, le=MESSAGES_MAX, description="Maximum number of messages.")] = 100
    wait: Annotated[str, Meta(pattern=WAIT_PATTERN, description="How long to wait for a message, up to 60s.")] = "0"
    max_bytes: Annotated[
        str,
        Meta(pattern=BYTES_PATTERN, description="Maximum bytes of keys and values; at least one message is returned."),
    ] = "1MiB"
    auto_commit: Annotated[bool, Meta(description="First commit the messages of earlier polls.")] = False
    reset: Annotated[
        StartAt, Meta(description="Where to start in a partition whose committed offset is missing or out of range.")
    ] = StartAt.EARLIEST
    after: (
        Annotated[
            int,
            Meta(
                ge=0,
                le=OFFSET_MAX,
                description="The number of the last poll whose reply arrived; a lost reply is sent again.",
            ),
        ]
        | UnsetType
    ) = UNSET
    seek: Annotated[
        str,
        Meta(
            pattern=_SEEK_PATTERN,
            description="Where to continue in the member's partitions: TOPIC:PARTITION:OFFSET, separated by commas.",
        ),
    ] = ""
    isolation: Annotated[
        Literal["read_committed", "read_uncommitted"],
        Meta(description="read_committed leaves out messages of transactions that have not committed."),
    ] = "read_committed"


class NextOffset(msgspec.Struct):
    """The offset to commit for a partition once its messages are processed."""

    topic: str
    partition: int
    offset: int


class PolledMessages(msgspec.Struct, kw_only=True):
    """Messages of the member's partitions, in order per partition; `offsets` is what to commit after processing them.

    `poll` is the number of this reply, for `after`. If `rebalancing`, the member should send a heartbeat. `offsets`
    has all partitions whose offset is new to the member, also those without messages. If it `has_forgotten`, the
    broker does not know the earlier polls, and started at the committed offsets or at `reset`: a member that was
    elsewhere has to `seek`. Partitions with the error `offset_out_of_range` are read from `reset` on.
    """

    poll: int
    generation: int
    state: Literal["stable", "rebalancing"]
    messages: list[Message]
    offsets: list[NextOffset]
    has_forgotten: bool
    errors: list[PartitionError] | UnsetType = UNSET
