"""Rows of the table of routes: groups, their members and their offsets."""

from __future__ import annotations

from collections.abc import Sequence

from goqueue.errors import (
    Conflict,
    CoordinatorUnavailable,
    DiskFull,
    GoQueueError,
    GroupNotEmpty,
    InconsistentProtocol,
    InstanceFenced,
    InstanceInUse,
    InvalidGroup,
    InvalidSessionTimeout,
    InvalidTopicName,
    LogOffline,
    MemberFenced,
    OffsetMetadataTooLarge,
    RebalanceInProgress,
    StaleGeneration,
    StaleMemberEpoch,
    TopicPrivate,
    UnknownGroup,
    UnknownMember,
    UnknownPartition,
    UnknownTopic,
    UnsupportedAssignor,
)
from goqueue.protocols.faults import TABLE
from goqueue.protocols.http.api.groups import admin as groups
from goqueue.protocols.http.api.groups import members as group_members
from goqueue.protocols.http.api.groups import offsets as group_offsets
from goqueue.protocols.http.api.groups import poll as group_poll
from goqueue.protocols.http.calls import Operation

_STORAGE: Sequence[type[GoQueueError]] = (CoordinatorUnavailable, LogOffline, DiskFull)
_OF_GROUPS: Sequence[type[GoQueueError]] = (InvalidGroup, UnknownGroup, CoordinatorUnavailable)
_OF_MEMBERS: Sequence[type[GoQueueError]] = (
    InvalidGroup,
    UnknownMember,
    MemberFenced,
    InstanceFenced,
    InconsistentProtocol,
    *_STORAGE,
)
_OF_JOINING: Sequence[type[GoQueueError]] = (
    InvalidGroup,
    InvalidTopicName,
    TopicPrivate,
    InvalidSessionTimeout,
    UnsupportedAssignor,
    InstanceInUse,
    InconsistentProtocol,
    Conflict,
    *_STORAGE,
)
_OF_COMMITS: Sequence[type[GoQueueError]] = (
    InvalidGroup,
    UnknownMember,
    UnknownTopic,
    StaleMemberEpoch,
    StaleGeneration,
    RebalanceInProgress,
    OffsetMetadataTooLarge,
    *_STORAGE,
)
_OF_RESETS: Sequence[type[GoQueueError]] = (*_OF_GROUPS, GroupNotEmpty, UnknownTopic, UnknownPartition, *_STORAGE)


def _statuses(errors: Sequence[type[GoQueueError]]) -> Sequence[int]:
    """Return the statuses of a reply with a result each, besides 200."""
    return (207, *sorted({TABLE[error.code].http for error in errors}))


OPERATIONS: Sequence[Operation] = (
    Operation(
        name="groups.list",
        method="GET",
        path="/groups",
        summary="List all groups",
        handle=groups.list_all,
        reply=groups.Groups,
    ),
    Operation(
        name="groups.describe",
        method="GET",
        path="/groups/{group}",
        summary="Describe a group: its members, offsets with lag, and last rebalances",
        handle=groups.describe,
        reply=groups.Group,
        errors=_OF_GROUPS,
    ),
    Operation(
        name="groups.delete",
        method="DELETE",
        path="/groups/{group}",
        summary="Forget a group without members, and its offsets",
        handle=groups.delete,
        status=204,
        errors=(*_OF_GROUPS, GroupNotEmpty, *_STORAGE),
    ),
    Operation(
        name="groups.join",
        method="POST",
        path="/groups/{group}/join",
        summary="Join a group, or join again and give back all that one had",
        handle=group_members.join_eagerly,
        request=group_members.NewMember,
        reply=group_members.Membership,
        errors=_OF_JOINING,
    ),
    Operation(
        name="groups.heartbeat",
        method="POST",
        path="/groups/{group}/heartbeat",
        summary="Stay a member, and learn whether to join again",
        handle=group_members.heartbeat_eagerly,
        request=group_members.Member,
        reply=group_members.Membership,
        errors=_OF_MEMBERS,
    ),
    Operation(
        name="groups.leave",
        method="POST",
        path="/groups/{group}/leave",
        summary="Leave a group",
        handle=group_members.leave_group,
        request=group_members.LeavingMember,
        status=204,
        errors=_OF_MEMBERS,
    ),
    Operation(
        name="groups.poll",
        method="GET",
        path="/groups/{group}/poll",
        summary="Read messages of the partitions that a member has, and wait for them if there are none yet",
        handle=group_poll.poll,
        request=group_poll.PollQuery,
        reply=group_poll.PolledMessages,
        errors=(*_OF_MEMBERS, StaleMemberEpoch, Conflict),
    ),
    Operation(
        name="groups.commit",
        method="POST",
        path="/groups/{group}/offsets",
        summary="Set offsets of a group, each with a result of its own",
        handle=group_offsets.commit,
        request=group_offsets.OffsetsToCommit,
        reply=group_offsets.CommitResults,
        other_statuses=_statuses(_OF_COMMITS),
        errors=_OF_COMMITS,
    ),
    Operation(
        name="groups.offsets",
        method="GET",
        path="/groups/{group}/offsets",
        summary="Tell how far a group is in each partition, and what it has not read",
        handle=group_offsets.show,
        reply=group_offsets.GroupOffsets,
        errors=_OF_GROUPS,
    ),
    Operation(
        name="groups.reset_offsets",
        method="POST",
        path="/groups/{group}/offsets/reset",
        summary="Move the offsets of a group without members, or tell what that would do",
        handle=group_offsets.reset,
        request=group_offsets.OffsetsReset,
        reply=group_offsets.OffsetMoves,
        other_statuses=_statuses(_OF_RESETS),
        errors=_OF_RESETS,
    ),
    Operation(
        name="groups.join_cooperatively",
        method="POST",
        path="/groups/{group}/join/cooperative",
        summary="Join a group as a member that gives back single partitions",
        handle=group_members.join_cooperatively,
        request=group_members.NewMember,
        reply=group_members.CooperativeMembership,
        errors=_OF_JOINING,
    ),
    Operation(
        name="groups.heartbeat_cooperatively",
        method="POST",
        path="/groups/{group}/heartbeat/cooperative",
        summary="Stay a member, and learn what to give back and what is new",
        handle=group_members.heartbeat_cooperatively,
        request=group_members.CooperativeMember,
        reply=group_members.CooperativeMembership,
        errors=_OF_MEMBERS,
    ),
    Operation(
        name="groups.leave_cooperatively",
        method="POST",
        path="/groups/{group}/leave/cooperative",
        summary="Leave a group",
        handle=group_members.leave_group,
        request=group_members.LeavingMember,
        status=204,
        errors=_OF_MEMBERS,
    ),
    Operation(
        name="groups.revoke",
        method="POST",
        path="/groups/{group}/revoke",
        summary="Give back partitions that one was asked for",
        handle=group_members.revoke,
        request=group_members.GivenBack,
        reply=group_members.CooperativeMembership,
        errors=(*_OF_MEMBERS, Conflict),
    ),
    Operation(
        name="groups.assignment",
        method="GET",
        path="/groups/{group}/assignment",
        summary="Tell what a member has, and how far it is in a rebalance",
        handle=group_members.assignment,
        request=group_members.AssignmentQuery,
        reply=group_members.CooperativeMembership,
        errors=_OF_MEMBERS,
    ),
    Operation(
        name="groups.cooperative",
        method="GET",
        path="/groups/{group}/cooperative",
        summary="Tell who has what, and is to have what, in a group whose broker assigns",
        handle=groups.cooperative,
        reply=groups.CooperativeGroup,
        errors=(*_OF_GROUPS, InconsistentProtocol),
    ),
    Operation(
        name="groups.rebalance_stats",
        method="GET",
        path="/groups/{group}/rebalance/stats",
        summary="Tell how often a group was rebalanced, why, and for how long",
        handle=groups.rebalance_stats,
        reply=groups.RebalanceStats,
        errors=_OF_GROUPS,
    ),
    Operation(
        name="groups.all_rebalance_stats",
        method="GET",
        path="/rebalance/stats",
        summary="Tell how often groups were rebalanced, with the latest reason of each",
        handle=groups.all_rebalance_stats,
        reply=groups.AllRebalanceStats,
    ),
)
