"""How queue groups begin: with their settings, and with each partition where these say.

A group is made by whoever needs it first. What it begins with is durable before anything is delivered of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from goqueue.broker.admission import INSIDE
from goqueue.broker.messages.offsets import NO_OFFSET, find_offset
from goqueue.errors import InconsistentProtocol, TopicProtected, Unavailable, UnknownTopic
from goqueue.log.epochs import NO_EPOCH
from goqueue.log.log import Log
from goqueue.machines.queues.commands import BeginTopic, Configure, Retreat
from goqueue.machines.queues.group import QueueGroup
from goqueue.machines.queues.machine import QueueMachine
from goqueue.machines.queues.window import QueueWindow
from goqueue.model.group_name import check_group_name
from goqueue.model.queue_settings import Ordering, QueueSettings
from goqueue.model.start_at import StartAt
from goqueue.model.topic import TopicPartition
from goqueue.runtime.partition import Partition

if TYPE_CHECKING:
    from goqueue.broker.queues.service import QueueService
    from goqueue.broker.topics.open_topic import OpenTopic


async def prepare(
    queues: QueueService, name: str, topics: Sequence[str], ordering: Ordering
) -> tuple[QueueGroup, Sequence[Partition]]:
    """Return a group, made if need be, and the partitions that it is to get messages of, begun if need be.

    Topics that are not there keep nothing of the others back; UnknownTopic if none is. There is no pause unless
    something has to be made or begun.
    """
    check_group_name(name)
    while True:
        opened = _topics_there(queues, topics)
        group = queues.find(name)
        begun = None if group is None else _begun(group, opened)
        if group is not None and begun is not None:
            return group, begun
        group = await ensure_group(queues, name, Configure(name, QueueSettings(ordering=ordering), is_made_only=True))
        await ensure_partitions(queues, group, opened)
        # If there was a pause, another group may have this name by now, and there may be more topics and partitions.


def require_topic(queues: QueueService, name: str) -> OpenTopic:
    """Return a topic that can be a queue; UnknownTopic if there is none, TopicProtected if it is the broker's own."""
    opened = queues.topics.topic(name)
    if opened.topic.is_internal:
        raise TopicProtected(f"{name!r} holds the broker's own state, and is no queue")
    return opened


def require_topics(queues: QueueService, names: Sequence[str]) -> None:
    """Raise UnknownTopic if some of these topics are not there; it tells which."""
    missing = [name for name in dict.fromkeys(names) if name not in queues.topics.by_name]
    if missing:
        raise UnknownTopic(f"there is no topic {', and none '.join(map(repr, missing))}").about(missing[0])


def _topics_there(queues: QueueService, names: Sequence[str]) -> list[OpenTopic]:
    found = [require_topic(queues, each) for each in dict.fromkeys(names) if each in queues.topics.by_name]
    if not found:
        require_topics(queues, names)
    return found


async def ensure_group(queues: QueueService, name: str, wanted: Configure | None = None) -> QueueGroup:
    """Return a group, made or configured if need be; InconsistentProtocol if its name is that of a stream group."""
    wanted = wanted or Configure(name, QueueSettings(), is_made_only=True)
    while True:
        group = queues.find(name)
        if group is None:
            if queues.is_group(name):
                raise InconsistentProtocol(f"{name!r} is a stream group, and no queue group", hint="use another name")
        elif wanted.is_made_only:
            return group
        # Somebody else may make it meanwhile, with other settings.
        await queues.submit(name, wanted)
        machine = await queues.machine(name)
        group = machine.find(name)
        if group is not None:
            return group
        # It was deleted before it could be used.


def usable_partitions(opened: OpenTopic) -> Sequence[Partition]:
    """Return the partitions of a topic that can be used; raises what is wrong if none can."""
    found = [each for each in opened.partitions if isinstance(each, Partition)]
    if not found:
        # Whatever is wrong with the first is as good a reason as any.
        opened.partition(0)
    return found


async def ensure_partitions(queues: QueueService, group: QueueGroup, topics: Sequence[OpenTopic]) -> list[Partition]:
    """Return the partitions of topics that can be used; the group has begun with each of them at return.

    Unless the group or a topic was deleted meanwhile: another group of that name begins where its own settings say.
    """
    found: list[Partition] = []
    for opened in topics:
        partitions = usable_partitions(opened)
        await _begin(queues, group, opened, partitions)
        found += partitions
    return found


def _begun(group: QueueGroup, topics: Sequence[OpenTopic]) -> list[Partition] | None:
    """Return what `ensure_partitions` would, if there is nothing to be done for it, as most often."""
    found: list[Partition] = []
    for opened in topics:
        # Numbers, since two ids are compared by a Python function, and this is asked before every message.
        topic_id = opened.topic.id.int
        before = len(found)
        for partition in opened.partitions:
            if isinstance(partition, Partition):
                window = group.windows.get(partition.place)
                if window is None or window.topic_id.int != topic_id or window.is_new or window.lost_end is not None:
                    return None
                found.append(partition)
        if len(found) == before:
            return None
    return found


async def _begin(queues: QueueService, group: QueueGroup, opened: OpenTopic, partitions: Sequence[Partition]) -> None:
    new = []
    for partition in partitions:
        where = partition.place
        window = group.windows.get(where)
        if window is None or window.topic_id != opened.topic.id:
            new.append(partition)
        elif window.lost_end is not None and queues.find(group.name) is group:
            await queues.submit(group.name, Retreat(group.name, where, window.lost_end))
    if new:
        start = start_of(group, opened)
        starts = {each.place: await start_offset(queues, each, start) for each in new}
        epochs = {each.place: each.leader_epoch for each in new}
        # With a topic that was deleted meanwhile nothing begins: nobody would end it.
        if queues.find(group.name) is group and opened.topic.id in queues.topics.by_id:
            await queues.submit(group.name, BeginTopic(group.name, opened.topic.id, starts, epochs))
    # Somebody else may have begun with them, and may have left since.
    begun = [window for each in partitions if (window := group.windows.get(each.place)) is not None and window.is_new]
    if begun:
        await queues.machine(group.name)
        for window in begun:
            window.is_new = False


def start_of(group: QueueGroup, opened: OpenTopic) -> StartAt | int:
    """Return where a group starts with partitions of a topic that it has not begun with."""
    has_begun = any(window.topic_id == opened.topic.id for window in group.windows.values())
    # Those that were added later start with their first message, wherever the group has started with the others.
    return StartAt.EARLIEST if has_begun else group.settings.start


async def start_offset(queues: QueueService, partition: Partition, start: StartAt | int) -> int:
    """Return the offset at which a group starts with a partition."""
    if start is StartAt.EARLIEST:
        return partition.log.start_offset
    if start is StartAt.LATEST:
        return partition.last_stable_offset
    found = await find_offset(queues.messages, INSIDE, partition.topic, partition.index, start)
    return partition.last_stable_offset if found.offset == NO_OFFSET else found.offset


async def retreat_all(queues: QueueService) -> None:
    """Have groups forget what they were given and their logs have lost; at the start, before anything is published.

    Without a sync for each publish, a power loss takes messages that were delivered already. How far a log is as it was
    delivered is taken down first, for all groups: what comes in the place of what was lost is to be delivered, also if
    it has come already, since a start at which the log of the group could not be read. For whom there is no room now,
    that is done by the next receive, or before dead messages become letters.
    """
    lost = [each for machine in queues.machines for each in _note_lost(queues, machine)]
    for group, where, end in lost:
        with suppress(Unavailable):
            await queues.submit(group, Retreat(group, where, end))


def _note_lost(queues: QueueService, machine: QueueMachine) -> Iterator[tuple[str, TopicPartition, int]]:
    for group in machine.groups.values():
        for where, window in group.windows.items():
            opened = queues.topics.by_id.get(window.topic_id)
            partition = None if opened is None else opened.partitions[where.partition]
            if isinstance(partition, Partition) and window.cursor > (end := _kept_end(partition.log, window)):
                window.lost_end = end
                yield group.name, where, end


def _kept_end(log: Log, window: QueueWindow) -> int:
    """Return how far a log is as it was when the group went through it, as far as that can be told."""
    return log.end_offset if window.epoch == NO_EPOCH else log.end_up_to(window.epoch)
