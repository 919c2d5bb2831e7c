"""Queue groups, told in the words of groups: the floor is what is committed, and what is not done is the lag."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.broker.group_members import MemberProgress
from goqueue.broker.group_view_values import Books, GroupKind, GroupState, GroupView, MemberView, OffsetView, Overview
from goqueue.broker.lag import lag_of
from goqueue.errors import GoQueueError
from goqueue.machines.delivery_group import QueueGroup
from goqueue.machines.delivery_window import Window
from goqueue.machines.group_values import TopicPartition
from goqueue.machines.offsets import CommittedOffset

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker


def find_queue(broker: Broker, name: str) -> QueueGroup | None:
    """Return a queue group, if there is one of that name."""
    machine = broker.queues.peek(name)
    return None if machine is None else machine.find(name)


def queue_overview(broker: Broker, group: QueueGroup) -> Overview:
    """Return a queue group in a line; its members are the consumers that hold messages."""
    lag = sum(_depth(broker, each, window) or 0 for each, window in group.windows.items())
    return Overview(group.name, GroupKind.QUEUE, _state_of(group), len(group.leases), lag)


async def queue_view(broker: Broker, group: QueueGroup) -> GroupView:
    """Return all that is known of a queue group."""
    offsets = []
    for each, window in sorted(group.windows.items()):
        lag = await lag_of(broker, each, window.floor)
        if lag.error is None:
            # Above the floor there are messages that are done.
            lag = lag._replace(messages=_depth(broker, each, window))
        offsets.append(OffsetView(each, CommittedOffset(window.floor), lag, None))
    return GroupView(
        name=group.name,
        kind=GroupKind.QUEUE,
        state=_state_of(group),
        epoch=0,
        assignor="",
        topics=sorted({each.topic for each in group.windows}),
        members=[_consumer(name) for name in sorted(group.leases)],
        offsets=offsets,
        books=Books(group.name, 0, 0, ()),
    )


def _depth(broker: Broker, where: TopicPartition, window: Window) -> int | None:
    """Return how many messages of a partition are not done; None if nobody can tell."""
    try:
        partition = broker.topic(where.topic).partition(where.partition)
    except GoQueueError:
        return None
    return window.in_flight + max(partition.high_watermark - max(window.cursor, partition.log.start_offset), 0)


def _state_of(group: QueueGroup) -> GroupState:
    if group.paused:
        return GroupState.PAUSED
    return GroupState.STABLE if group.leases else GroupState.EMPTY


def _consumer(name: str) -> MemberView:
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
    )
