"""Queue groups, told in the words of groups: the floor is what is committed, and what is not done is the lag."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.broker.groups.lag import lag_of
from goqueue.broker.groups.view_values import Books, GroupView, MemberView, OffsetView, Overview
from goqueue.errors import GoQueueError
from goqueue.machines.groups.offsets import CommittedOffset
from goqueue.machines.groups.share.values import ShareMember
from goqueue.machines.queues.group import QueueGroup
from goqueue.machines.queues.window import QueueWindow
from goqueue.model.groups import GroupKind, GroupState, MemberProgress
from goqueue.model.topic import TopicPartition

if TYPE_CHECKING:
    from goqueue.broker.groups.service import GroupService


def queue_overview(groups: GroupService, group: QueueGroup) -> Overview:
    """Return a queue group in a line; its members are its share consumers, and all others that hold messages."""
    lag = sum(_depth(groups, each, window) or 0 for each, window in group.windows.items())
    members = len({*group.leases, *(member.id for member in groups.queues.share_members_of(group.name))})
    return Overview(group.name, GroupKind.QUEUE, _state_of(group, members), members, lag)


async def queue_view(groups: GroupService, group: QueueGroup) -> GroupView:
    """Return all that is known of a queue group."""
    offsets = []
    for each, window in sorted(group.windows.items()):
        lag = await lag_of(groups, each, window.floor)
        if lag.error is None:
            # Above the floor there are messages that are done.
            lag = lag._replace(messages=_depth(groups, each, window))
        offsets.append(OffsetView(each, CommittedOffset(window.floor), lag, None))
    now_ms = groups.share_groups.now_ms()
    shares = {each.id: each for each in groups.queues.share_members_of(group.name)}
    members = [_share_member(group, each, now_ms) for each in shares.values()]
    members += [_consumer(name, held) for name, held in group.leases.items() if name not in shares]
    return GroupView(
        name=group.name,
        kind=GroupKind.QUEUE,
        state=_state_of(group, len(members)),
        epoch=0,
        assignor="",
        topics=sorted({each.topic for each in group.windows}.union(*(each.topics for each in shares.values()))),
        members=sorted(members, key=lambda member: member.id),
        offsets=offsets,
        books=Books(group.name, 0, 0, ()),
    )


def _depth(groups: GroupService, where: TopicPartition, window: QueueWindow) -> int | None:
    """Return how many messages of a partition are not done; None if nobody can tell."""
    try:
        partition = groups.topics.topic(where.topic).partition(where.partition)
    except GoQueueError:
        return None
    return window.in_flight + max(partition.high_watermark - max(window.cursor, partition.log.start_offset), 0)


def _state_of(group: QueueGroup, members: int) -> GroupState:
    if group.paused:
        return GroupState.PAUSED
    return GroupState.STABLE if members else GroupState.EMPTY


def _share_member(group: QueueGroup, member: ShareMember, now_ms: int) -> MemberView:
    return _consumer(member.id, group.leases.get(member.id, 0))._replace(
        client_id=member.client_id,
        host=member.client_host,
        epoch=member.epoch,
        topics=sorted(member.topics),
        assigned=frozenset(TopicPartition(each.topic, each.partition) for each in member.told),
        silent_ms=max(now_ms - member.heard_ms, 0),
    )


def _consumer(name: str, held: int) -> MemberView:
    return MemberView(
        id=name,
        instance_id=None,
        client_id=name,
        host="",
        epoch=0,
        progress=MemberProgress.NONE,
        topics=(),
        pattern="",
        assigned=frozenset(),
        revoking=frozenset(),
        target=frozenset(),
        joined_ms=None,
        silent_ms=None,
        revoke_within_ms=None,
        in_flight=held,
    )
