"""Groups by HTTP: list, describe and delete them, and show their rebalances."""

from __future__ import annotations

from goqueue.api.groups import (
    AllRebalanceStats,
    CooperativeGroup,
    Group,
    GroupMember,
    GroupRebalance,
    Groups,
    GroupSummary,
    RebalanceStats,
)
from goqueue.broker.groups.lag import total_lag
from goqueue.broker.groups.membership import delete_group
from goqueue.broker.groups.view import all_books, books_of, overview, view_group
from goqueue.broker.groups.view_values import Books, GroupView, MemberView
from goqueue.errors import (
    CoordinatorUnavailable,
    GroupNotEmpty,
    InconsistentProtocol,
    InvalidGroup,
    UnknownGroup,
)
from goqueue.machines.groups.values import Rebalance
from goqueue.model.groups import GroupKind
from goqueue.protocols.http.api.groups.replies import greatest_lag_seconds, told, told_offset
from goqueue.protocols.http.calls import Context
from goqueue.protocols.http.route import COORDINATOR_ERRORS, route
from goqueue.protocols.http.wire.times import moment, seconds

_OF_GROUPS = (InvalidGroup, UnknownGroup, CoordinatorUnavailable)


@route("GET", "/groups", "groups.list")
async def list_all(context: Context) -> Groups:
    """List all groups."""
    found = await overview(context.broker.groups, context.caller)
    return Groups([GroupSummary(*each) for each in found.groups], found.is_complete)


@route("GET", "/groups/{group}", "groups.describe", errors=_OF_GROUPS)
async def describe(context: Context) -> Group:
    """Describe a group: members, offsets with lag, last rebalances."""
    view = await view_group(context.broker.groups, context.caller, context.group)
    offsets = [told_offset(each) for each in view.offsets]
    return Group(
        name=view.name,
        kind=view.kind,
        state=view.state,
        generation=view.epoch,
        assignor=view.assignor,
        topics=None if view.topics is None else list(view.topics),
        lag=total_lag(each.lag for each in view.offsets),
        lag_seconds=greatest_lag_seconds(offsets),
        members=_members(view),
        offsets=offsets,
        rebalance_count=view.books.total,
        move_count=view.books.moves,
        rebalances=[_rebalance(each) for each in view.books.latest],
    )


@route(
    "DELETE", "/groups/{group}", "groups.delete", status=204, errors=(*_OF_GROUPS, GroupNotEmpty, *COORDINATOR_ERRORS)
)
async def delete(context: Context) -> None:
    """Delete a group without members, and its offsets."""
    await delete_group(context.broker.groups, context.caller, context.group)


@route("GET", "/groups/{group}/cooperative", "groups.cooperative", errors=(*_OF_GROUPS, InconsistentProtocol))
async def cooperative(context: Context) -> CooperativeGroup:
    """Show current and target assignments of a group whose broker assigns."""
    view = await view_group(context.broker.groups, context.caller, context.group)
    if view.kind is not GroupKind.CONSUMER:
        raise InconsistentProtocol(f"the broker does not assign the partitions of group {view.name!r}")
    return CooperativeGroup(view.name, view.state, view.epoch, view.assignor, _members(view))


@route("GET", "/groups/{group}/rebalance/stats", "groups.rebalance_stats", errors=_OF_GROUPS)
async def rebalance_stats(context: Context) -> RebalanceStats:
    """Count a group's rebalances, with reasons and durations."""
    return _stats(await books_of(context.broker.groups, context.caller, context.group))


@route("GET", "/rebalance/stats", "groups.all_rebalance_stats")
async def all_rebalance_stats(context: Context) -> AllRebalanceStats:
    """Count the rebalances of all groups, with the latest reason of each."""
    books = await all_books(context.broker.groups, context.caller)
    under_way = sum(1 for each in books if each.latest and each.latest[-1].ended_ms < 0)
    stats = [_stats(each._replace(latest=each.latest[-1:])) for each in books]
    total, moves = sum(each.total for each in books), sum(each.moves for each in books)
    return AllRebalanceStats(total, moves, under_way, stats)


def _members(view: GroupView) -> list[GroupMember]:
    return [_member(each) for each in view.members]


def _member(member: MemberView) -> GroupMember:
    return GroupMember(
        member_id=member.id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.host,
        generation=member.epoch,
        state=member.progress,
        topics=list(member.topics),
        pattern=member.pattern,
        assigned=told(member.assigned),
        revoking=told(member.revoking),
        target=told(member.target),
        joined_at=None if member.joined_ms is None else moment(member.joined_ms),
        silent_seconds=seconds(member.silent_ms),
        revoke_within_seconds=seconds(member.revoke_within_ms),
        in_flight=member.in_flight,
    )


def _stats(books: Books) -> RebalanceStats:
    return RebalanceStats(books.name, books.total, books.moves, [_rebalance(each) for each in books.latest])


def _rebalance(each: Rebalance) -> GroupRebalance:
    is_over = each.ended_ms >= 0
    return GroupRebalance(
        generation=each.epoch,
        reason=each.reason,
        began_at=moment(each.began_ms),
        ended_at=moment(each.ended_ms) if is_over else None,
        # The wall clock may have been set in between.
        duration_seconds=seconds(max(each.ended_ms - each.began_ms, 0)) if is_over else None,
        moves=each.moves,
    )
