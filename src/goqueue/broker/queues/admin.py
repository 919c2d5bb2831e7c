"""Looking after queue groups: settings, pauses, moves to other messages, what is in them, and their end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from goqueue.broker.admission import Caller, operation
from goqueue.broker.messages.offsets import NO_OFFSET, find_offset
from goqueue.broker.queues.start_positions import ensure_group, ensure_partitions, require_topic
from goqueue.errors import Corrupt, GoQueueError, GroupNotEmpty
from goqueue.machines.groups.share.values import ShareMember
from goqueue.machines.queues.admin import require
from goqueue.machines.queues.commands import Configure, DeleteQueue, PauseQueue, Seek
from goqueue.machines.queues.group import QueueGroup
from goqueue.machines.queues.values import FlightState
from goqueue.machines.queues.window import QueueWindow
from goqueue.model.group_name import check_group_name
from goqueue.model.queue_settings import QueueSettings
from goqueue.model.start_at import StartAt
from goqueue.model.topic import TopicPartition
from goqueue.runtime.partition import Partition
from goqueue.runtime.waiters import turns

if TYPE_CHECKING:
    from goqueue.broker.queues.service import QueueService
    from goqueue.broker.topics.open_topic import OpenTopic


class PartitionView(NamedTuple):
    """How a group stands in a partition.

    `backlog` counts what was never delivered, `in_flight` what is in each state. `oldest_ms` is the time of the oldest
    message that is not done; None if there is none, or nobody knows. `letter_trouble` is why dead messages cannot
    become letters now, or empty.
    """

    partition: TopicPartition
    floor: int
    cursor: int
    end_offset: int
    backlog: int
    in_flight: Counter[FlightState]
    oldest_ms: int | None
    letter_trouble: str = ""
    error: GoQueueError | None = None


class QueueView(NamedTuple):
    """A queue group as it is now; `consumers` says how many messages each of them holds.

    `members` are the share consumers in it: those that hold something are consumers by their ids, too.
    """

    name: str
    settings: QueueSettings
    paused: str
    consumers: dict[str, int]
    members: Sequence[ShareMember]
    partitions: Sequence[PartitionView]


class QueueSeek(NamedTuple):
    """Where a group is to go on with a topic: at its start, its end, an offset of each partition, or a time.

    It is about all partitions unless some are named.
    """

    topic: str
    where: StartAt | int
    is_offset: bool = False
    partitions: Sequence[int] | None = None


class PartitionSeek(NamedTuple):
    """How a group is moved in a partition; it has no `cursor` if it has not begun there.

    What is `in_flight` is forgotten, `skipped` is what is not done and is not delivered then, and `again` counts the
    offsets that were looked at already.
    """

    partition: TopicPartition
    cursor: int | None
    offset: int
    in_flight: int = 0
    skipped: int = 0
    again: int = 0


@operation("queues.list", on="cluster")
async def list_queues(queues: QueueService, caller: Caller) -> Sequence[QueueView]:
    """Return all queue groups, in the order of their names."""
    groups = [group for machine in queues.machines for group in machine.groups.values()]
    views = []
    for group in sorted(groups, key=lambda each: each.name):
        await turns(1)
        views.append(_view(queues, group))
    return views


@operation("queues.describe", on="queue")
async def describe_queue(queues: QueueService, caller: Caller, name: str) -> QueueView:
    """Return a queue group; UnknownQueue if there is none."""
    return _view(queues, require_queue(queues, name))


@operation("queues.configure", on="queue")
async def configure_queue(
    queues: QueueService, caller: Caller, name: str, changed: Callable[[QueueSettings], QueueSettings]
) -> QueueView:
    """Change the settings of a group, which is made if need be; durable at return."""
    check_group_name(name)
    known = queues.find(name)
    settings = changed(QueueSettings() if known is None else known.settings)
    settings.check()
    return _view(queues, await ensure_group(queues, name, Configure(name, settings)))


@operation("queues.pause", on="queue")
async def pause_queue(queues: QueueService, caller: Caller, name: str, reason: str) -> QueueView:
    """Deliver nothing to a group until it is resumed; without a reason, resume it."""
    require_queue(queues, name)
    await queues.submit(name, PauseQueue(name, reason))
    return _view(queues, require_queue(queues, name))


@operation("queues.plan_seek", on="queue")
async def plan_seek(
    queues: QueueService, caller: Caller, name: str, seek: QueueSeek
) -> tuple[QueueView, Sequence[PartitionSeek]]:
    """Return a group as it is, and what a seek would do to it; changes nothing."""
    opened = require_topic(queues, seek.topic)
    group = require_queue(queues, name)
    usable = [each for each in opened.partitions if isinstance(each, Partition)]
    moves = [await _planned(queues, caller, group, partition, seek) for partition in _sought(opened, seek, usable)]
    return _view(queues, group), moves


@operation("queues.seek", on="queue")
async def seek_queue(
    queues: QueueService, caller: Caller, name: str, seek: QueueSeek
) -> tuple[QueueView, Sequence[PartitionSeek]]:
    """Go on with a topic elsewhere, and return what was done; whatever is in flight there is forgotten.

    The topic may be one with which the group has not begun yet.
    """
    opened = require_topic(queues, seek.topic)
    usable = await ensure_partitions(queues, require_queue(queues, name), [opened])
    moves = []
    for partition in _sought(opened, seek, usable):
        await turns(1)
        moves.append(await move_partition(queues, caller, name, partition, seek))
    return _view(queues, require_queue(queues, name)), moves


async def move_partition(
    queues: QueueService,
    caller: Caller,
    name: str,
    partition: Partition,
    seek: QueueSeek,
) -> PartitionSeek:
    """Move a group in one partition, with which it has begun."""
    move = await _planned(queues, caller, require_queue(queues, name), partition, seek)
    await queues.submit(name, Seek(name, move.partition, move.offset, partition.leader_epoch))
    return move


def _sought(opened: OpenTopic, seek: QueueSeek, usable: Sequence[Partition]) -> Sequence[Partition]:
    return usable if seek.partitions is None else [opened.partition(index) for index in sorted({*seek.partitions})]


async def _planned(
    queues: QueueService, caller: Caller, group: QueueGroup, partition: Partition, seek: QueueSeek
) -> PartitionSeek:
    offset = await _offset(queues, caller, partition, seek)
    where = partition.place
    window = group.windows.get(where)
    if window is None or window.topic_id != queues.topics.topic(seek.topic).topic.id:
        return PartitionSeek(where, None, offset)
    skipped = window.in_flight_before(offset) + max(offset - max(window.cursor, partition.log.start_offset), 0)
    return PartitionSeek(where, window.cursor, offset, window.in_flight, skipped, max(window.cursor - offset, 0))


async def _offset(queues: QueueService, caller: Caller, partition: Partition, seek: QueueSeek) -> int:
    start, end = partition.log.start_offset, partition.last_stable_offset
    if seek.where is StartAt.EARLIEST:
        return start
    if seek.where is StartAt.LATEST:
        return end
    if seek.is_offset:
        return min(max(seek.where, start), end)
    found = await find_offset(queues.messages, caller, partition.topic, partition.index, seek.where)
    return end if found.offset == NO_OFFSET else found.offset


@operation("queues.delete", on="queue")
async def delete_queue(queues: QueueService, caller: Caller, name: str) -> None:
    """Forget a group, with all that is in flight; durable at return.

    GroupNotEmpty while share consumers are in it, or receives under way: these would make it anew, with other settings.
    """
    require_queue(queues, name)
    if queues.share_members_of(name):
        raise GroupNotEmpty(f"group {name!r} has share consumers as members", hint="stop them first")
    if queues.waits.is_received(name):
        raise GroupNotEmpty(f"consumers of group {name!r} receive, and would make it anew", hint="stop them first")
    await queues.submit(name, DeleteQueue(name))


def require_queue(queues: QueueService, name: str) -> QueueGroup:
    """Return a queue group; UnknownQueue if there is none."""
    check_group_name(name)
    machine = queues.peek(name)
    return require({} if machine is None else machine.groups, name)


def _view(queues: QueueService, group: QueueGroup) -> QueueView:
    partitions = [partition_view(queues, group.name, each, window) for each, window in sorted(group.windows.items())]
    members = queues.share_members_of(group.name)
    return QueueView(group.name, group.settings, group.paused, dict(group.leases), members, partitions)


def partition_view(queues: QueueService, group: str, where: TopicPartition, window: QueueWindow) -> PartitionView:
    """Return how a group stands in a partition."""
    in_flight = window.states()
    trouble = queues.dead_letter_troubles.get((group, where), "")
    view = PartitionView(where, window.floor, window.cursor, NO_OFFSET, 0, in_flight, None, trouble)
    try:
        partition = queues.topics.topic(where.topic).partition(where.partition)
        # Messages that wait for the end of a transaction are there as well, and get old.
        end = partition.high_watermark
        first = max(window.floor, partition.log.start_offset)
    except GoQueueError as error:
        return view._replace(error=error.without_frames())
    try:
        oldest_ms = queues.timestamps.find(partition, first) if window.floor < end else None
    except Corrupt:
        # That the first message cannot be read says nothing of the others.
        oldest_ms = None
    except GoQueueError as error:
        return view._replace(error=error.without_frames())
    backlog = max(end - max(window.cursor, partition.log.start_offset), 0)
    return view._replace(end_offset=end, backlog=backlog, oldest_ms=oldest_ms)
