"""What is known of a group, put together for people and their tools: members, who reads what, how far, and why.

Groups of all kinds are told in the same words. Nothing here changes anything, or makes what is not there yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from goqueue.broker.admission import Caller, operation
from goqueue.broker.groups.lag import Lag, lag_of, messages_behind, total_lag
from goqueue.broker.groups.members import progress_of
from goqueue.broker.groups.membership import knows_all_groups
from goqueue.broker.groups.view_queues import queue_overview, queue_view
from goqueue.broker.groups.view_values import Books, GroupView, MemberView, OffsetView, Overview, Overviews
from goqueue.errors import GoQueueError, UnknownGroup
from goqueue.machines.groups.classic.consumer_protocol import CONSUMER, assigned_partitions, subscribed_topics
from goqueue.machines.groups.classic.values import ClassicGroup, ClassicMember, ClassicState
from goqueue.machines.groups.consumer.group import state_of
from goqueue.machines.groups.consumer.values import ConsumerGroup, ConsumerMember
from goqueue.machines.groups.kinds import Group, everybody, is_in_use, topics_of
from goqueue.machines.groups.offsets import CommittedOffset, OffsetTable
from goqueue.model.group_name import check_group_name
from goqueue.model.groups import SESSION_TIMEOUT_MS, GroupKind, GroupState, MemberProgress
from goqueue.model.topic import TopicPartition
from goqueue.runtime.waiters import turns

if TYPE_CHECKING:
    from goqueue.broker.groups.service import GroupService


@operation("groups.overview", on="cluster")
async def overview(groups: GroupService, caller: Caller) -> Overviews:
    """Return all groups, each in a line, as far as they can be told."""
    found = []
    for machine in groups.machines:
        # There may be many groups: let others have a turn in between.
        await turns(1)
        for name in machine.names():
            group = machine.find(name)
            lag = total_lag(_lags(groups, group, machine.offsets.of_group(name)))
            found.append(Overview(name, kind_of(group), _state_of(group), member_count(group), lag))
    for queues in groups.queues.machines:
        await turns(1)
        found += [queue_overview(groups, group) for group in queues.groups.values()]
    return Overviews(sorted(found), knows_all_groups(groups) and groups.queues.is_whole)


def _lags(
    groups: GroupService,
    group: Group | None,
    offsets: Mapping[TopicPartition, CommittedOffset],
) -> Iterator[Lag]:
    """Yield how far a group is behind, in messages, in partitions with an offset and in those that members have."""
    held = {each for member in _members(group, 0) for each in (*member.assigned, *member.revoking)}
    for each in held.union(offsets):
        try:
            partition = groups.topics.topic(each.topic).partition(each.partition)
        except GoQueueError as error:
            yield Lag(error=error)
            continue
        committed = offsets.get(each)
        yield messages_behind(partition, None if committed is None else committed.offset)


@operation("groups.view", on="group")
async def view_group(groups: GroupService, caller: Caller, name: str) -> GroupView:
    """Return all that is known of a group; UnknownGroup if that is nothing."""
    queue = groups.queues.find(name)
    if queue is not None:
        return await queue_view(groups, queue)
    group, table = _find(groups, name)
    now_ms = int(groups.core.clock.monotonic() * 1000)
    members = sorted(_members(group, now_ms), key=lambda member: member.id)
    owners = {each: member for member in members for each in (*member.assigned, *member.revoking)}
    committed = table.of_group(name)
    offsets = []
    for each in sorted({*committed, *owners}):
        value = committed.get(each)
        lag = await lag_of(groups, each, None if value is None else value.offset)
        offsets.append(OffsetView(each, value, lag, owners.get(each)))
    topics = topics_of(group)
    return GroupView(
        name=name,
        kind=kind_of(group),
        state=_state_of(group),
        epoch=_epoch(group),
        assignor=_assignor(group),
        topics=None if topics is None else sorted(topics),
        members=members,
        offsets=offsets,
        books=_books(name, group),
    )


@operation("groups.books", on="group")
async def books_of(groups: GroupService, caller: Caller, name: str) -> Books:
    """Return the rebalances of a group; UnknownGroup if there is none."""
    group, _ = _find(groups, name)
    return _books(name, group)


@operation("groups.all_books", on="cluster")
async def all_books(groups: GroupService, caller: Caller) -> Sequence[Books]:
    """Return the rebalances of all groups that had any, in order of their names."""
    found = [_books(name, group) for machine in groups.machines for name, group in machine.groups.items()]
    return sorted((books for books in found if books.total), key=lambda books: books.name)


def _find(groups: GroupService, name: str) -> tuple[Group | None, OffsetTable]:
    check_group_name(name)
    machine = groups.peek(name)
    if machine is None or (machine.find(name) is None and not machine.offsets.has(name)):
        raise UnknownGroup(f"there is no group {name!r}").about(name)
    return machine.find(name), machine.offsets


def kind_of(group: Group | None) -> GroupKind:
    """Return who assigns the partitions of a group."""
    if group is None:
        return GroupKind.OFFSETS
    return GroupKind.CONSUMER if isinstance(group, ConsumerGroup) else GroupKind.CLASSIC


def _state_of(group: Group | None) -> GroupState:
    if group is None or not is_in_use(group):
        return GroupState.EMPTY
    if isinstance(group, ConsumerGroup):
        return GroupState.STABLE if state_of(group) == "stable" else GroupState.REBALANCING
    return GroupState.STABLE if group.state is ClassicState.STABLE else GroupState.REBALANCING


def _epoch(group: Group | None) -> int:
    if group is None:
        return 0
    return group.epoch if isinstance(group, ConsumerGroup) else group.generation


def _assignor(group: Group | None) -> str:
    if group is None:
        return ""
    return group.assignor if isinstance(group, ConsumerGroup) else group.protocol or ""


def member_count(group: Group | None) -> int:
    """Return how many members a group has, with those who are about to become one."""
    if isinstance(group, ClassicGroup):
        return len(everybody(group))
    return 0 if group is None else len(group.members)


def _members(group: Group | None, now_ms: int) -> Iterable[MemberView]:
    if isinstance(group, ConsumerGroup):
        return [_consumer_member(group, member, now_ms) for member in group.members.values()]
    if group is None:
        return ()
    return [_classic_member(group, member, now_ms) for member in everybody(group).values()]


def _consumer_member(group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> MemberView:
    deadline_ms = member.revocation_deadline_ms
    return MemberView(
        id=member.id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.client_host,
        epoch=member.epoch,
        progress=progress_of(group, member),
        topics=sorted(member.topics),
        pattern=member.pattern,
        assigned=member.assigned,
        revoking=member.revoking,
        target=member.target,
        joined_ms=member.joined_ms,
        silent_ms=_silent_ms(member.session_deadline_ms, SESSION_TIMEOUT_MS, now_ms),
        revoke_within_ms=None if deadline_ms is None else max(deadline_ms - now_ms, 0),
    )


def _classic_member(group: ClassicGroup, member: ClassicMember, now_ms: int) -> MemberView:
    is_readable = group.protocol_type == CONSUMER and member.id in group.members
    assigned = (assigned_partitions(member.assignment) if is_readable else None) or frozenset()
    is_waiting = group.round is not None and member.id in group.round.joiners
    progress = MemberProgress.NONE
    if group.round is not None:
        progress = MemberProgress.PENDING_ASSIGN if is_waiting else MemberProgress.PENDING_REVOKE
    elif not group.is_assigned:
        progress = MemberProgress.PENDING_ASSIGN
    deadline_ms = None if is_waiting else group.sessions.get(member.id)
    return MemberView(
        id=member.id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.client_host,
        epoch=group.generation,
        progress=progress,
        topics=sorted(subscribed_topics(member.metadata(group.protocol)) or ()),
        pattern="",
        assigned=assigned if progress is not MemberProgress.PENDING_ASSIGN else frozenset(),
        revoking=frozenset(),
        target=assigned,
        joined_ms=None,
        silent_ms=None if deadline_ms is None else _silent_ms(deadline_ms, member.session_timeout_ms, now_ms),
        revoke_within_ms=(
            max(group.round.deadline_ms - now_ms, 0) if group.round is not None and not is_waiting else None
        ),
    )


def _silent_ms(deadline_ms: int, timeout_ms: int, now_ms: int) -> int:
    return max(now_ms - (deadline_ms - timeout_ms), 0)


def _books(name: str, group: Group | None) -> Books:
    if group is None:
        return Books(name, 0, 0, ())
    return Books(name, group.rebalance_count, group.move_count, group.rebalances)
