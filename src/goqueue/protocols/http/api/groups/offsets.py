"""Offsets of groups by HTTP: commit them, list them with lag, and move them."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from goqueue.api.groups import (
    CommitResult,
    CommitResults,
    GroupOffsets,
    OffsetMove,
    OffsetMoves,
    OffsetsReset,
    OffsetsToCommit,
)
from goqueue.api.problems import MessageError
from goqueue.broker.groups.lag import total_lag
from goqueue.broker.groups.membership import commit_offsets
from goqueue.broker.groups.reset import Move, Reset, plan_reset, reset_offsets
from goqueue.broker.groups.view import view_group
from goqueue.errors import (
    CoordinatorUnavailable,
    GroupNotEmpty,
    InvalidGroup,
    InvalidRecord,
    MalformedRequest,
    OffsetMetadataTooLarge,
    RebalanceInProgress,
    StaleGeneration,
    StaleMemberEpoch,
    UnknownGroup,
    UnknownMember,
    UnknownPartition,
    UnknownTopic,
)
from goqueue.machines.groups.commands import CommitOffsets
from goqueue.machines.groups.offsets import CommittedOffset, NewOffset
from goqueue.model.groups import ResetTarget
from goqueue.model.topic import TopicPartition
from goqueue.protocols.http.api.groups.replies import greatest_lag_seconds, partitions_of, told_offset
from goqueue.protocols.http.api.messages import timestamp_of
from goqueue.protocols.http.calls import Answer, Context
from goqueue.protocols.http.route import COORDINATOR_ERRORS, item_statuses, route
from goqueue.protocols.http.wire.problems import error_of

_OF_COMMITS = (
    InvalidGroup,
    UnknownMember,
    UnknownTopic,
    StaleMemberEpoch,
    StaleGeneration,
    RebalanceInProgress,
    OffsetMetadataTooLarge,
    *COORDINATOR_ERRORS,
)
_OF_GROUPS = (InvalidGroup, UnknownGroup, CoordinatorUnavailable)
_OF_RESETS = (*_OF_GROUPS, GroupNotEmpty, UnknownTopic, UnknownPartition, *COORDINATOR_ERRORS)


@route(
    "POST", "/groups/{group}/offsets", "groups.commit", other_statuses=item_statuses(_OF_COMMITS), errors=_OF_COMMITS
)
async def commit(context: Context, request: OffsetsToCommit) -> Answer[CommitResults]:
    """Commit offsets of a group; each has its own result."""
    if (request.member_id is UNSET) is not (request.generation is UNSET):
        raise MalformedRequest("member_id and generation belong together", hint="give both, or neither")
    offsets = [
        NewOffset(TopicPartition(each.topic, each.partition), CommittedOffset(each.offset, metadata=each.metadata))
        for each in request.offsets
    ]
    command = CommitOffsets(
        group=context.group,
        offsets=offsets,
        member_id="" if request.member_id is UNSET else request.member_id,
        epoch=-1 if request.generation is UNSET else request.generation,
    )
    refusals = await commit_offsets(context.broker.groups, context.caller, command)
    results = [
        CommitResult(each.topic, each.partition, UNSET if refusal is None else error_of(refusal))
        for each, refusal in zip(request.offsets, refusals, strict=True)
    ]
    return Answer(CommitResults(results), _status([each.error for each in results]))


@route("GET", "/groups/{group}/offsets", "groups.offsets", errors=_OF_GROUPS)
async def show(context: Context) -> GroupOffsets:
    """Return a group's offset and lag in each partition."""
    view = await view_group(context.broker.groups, context.caller, context.group)
    offsets = [told_offset(each) for each in view.offsets]
    return GroupOffsets(view.name, total_lag(each.lag for each in view.offsets), greatest_lag_seconds(offsets), offsets)


@route(
    "POST",
    "/groups/{group}/offsets/reset",
    "groups.reset_offsets",
    other_statuses=item_statuses(_OF_RESETS),
    errors=_OF_RESETS,
)
async def reset(context: Context, request: OffsetsReset) -> Answer[OffsetMoves]:
    """Move the offsets of a group without members; a dry run shows the effect."""
    wanted = _wanted(context.group, request)
    carry_out = plan_reset if request.dry_run else reset_offsets
    moves = await carry_out(context.broker.groups, context.caller, wanted)
    told = [_told(move) for move in moves]
    return Answer(OffsetMoves(wanted.group, request.dry_run, told), _status([each.error for each in told]))


def _wanted(group: str, request: OffsetsReset) -> Reset:
    for target, value in (
        (ResetTarget.OFFSET, request.offset),
        (ResetTarget.TIME, request.time),
        (ResetTarget.GROUP, request.group),
    ):
        if (value is not UNSET) is not (request.to is target):
            raise MalformedRequest(_mismatch(request.to, target))
    return Reset(
        group=group,
        target=request.to,
        offset=0 if request.offset is UNSET else request.offset,
        timestamp_ms=0 if request.time is UNSET else _timestamp(request.time),
        other_group="" if request.group is UNSET else request.group,
        topics=None if request.topics is UNSET else request.topics,
        partitions=None if request.partitions is UNSET else sorted(partitions_of(request.partitions)),
    )


def _mismatch(to: ResetTarget, target: ResetTarget) -> str:
    if to is target:
        return f"to={str(to)!r} needs `{target}`"
    return f"`{target}` needs to={str(target)!r}"


def _timestamp(written: int | str) -> int:
    try:
        return timestamp_of(written)
    except InvalidRecord as error:
        raise MalformedRequest(error.message, hint=error.hint) from None


def _told(move: Move) -> OffsetMove:
    return OffsetMove(
        topic=move.partition.topic,
        partition=move.partition.partition,
        before=move.before,
        after=None if move.error is not None else move.after,
        skipped=move.skipped,
        read_again=move.read_again,
        unread=move.unread,
        error=UNSET if move.error is None else error_of(move.error),
    )


def _status(errors: list[MessageError | UnsetType]) -> int:
    """Return the status of a reply with one result each: if all failed, that of the first error."""
    failures = [each for each in errors if isinstance(each, MessageError)]
    if not failures:
        return 200
    return failures[0].status if len(failures) == len(errors) else 207
