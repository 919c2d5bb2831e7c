"""Which groups have not read partitions up to some offset, and when they were last heard of.

Goes through all committed offsets, of which there may be millions, and the floors of queue groups: others have a turn
in between, and what is not asked for is not kept.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING

from goqueue.broker.slices import Slices
from goqueue.broker.topics.retention_watch import Reader
from goqueue.machines.groups.kinds import is_in_use, topics_of
from goqueue.machines.groups.machine import GroupMachine
from goqueue.machines.groups.offsets import partition_key
from goqueue.model.topic import TopicPartition

if TYPE_CHECKING:
    from goqueue.broker.groups.service import GroupService

# The work for a group, however few offsets it has, counted in pieces of one offset each.
_PIECES_OF_A_GROUP = 5


async def readers_before(
    groups: GroupService, ends: Mapping[TopicPartition, int], slices: Slices
) -> AsyncGenerator[Reader, None]:
    """Yield the groups that have committed an offset before the given one, for each of the given partitions."""
    now_ms = groups.core.clock.now_ms()
    ends_by_key: dict[bytes, int] = {}
    for partition, end in ends.items():
        ends_by_key[partition_key(partition)] = end
        if slices.note():
            await slices.give_way()
    for machine in groups.machines:
        for name in machine.offsets.groups():
            # How many offsets it went through is not told, so the time that it took decides.
            is_behind = machine.offsets.is_behind(name, ends_by_key)
            if slices.note(_PIECES_OF_A_GROUP):
                await slices.give_way()
            if is_behind:
                async for reader in _readers(machine, name, ends, now_ms, slices):
                    yield reader
    async for reader in _queues(groups, ends, slices):
        yield reader


async def _readers(
    machine: GroupMachine, name: str, ends: Mapping[TopicPartition, int], now_ms: int, slices: Slices
) -> AsyncGenerator[Reader, None]:
    group = machine.find(name)
    # None if only the members know what they read; then it may be anything.
    subscribed = topics_of(group)
    is_used = is_in_use(group)
    behind: list[tuple[TopicPartition, int]] = []
    heard_ms: dict[str, int] = {}
    for each, value in machine.offsets.of_group(name).items():
        heard_ms[each.topic] = max(heard_ms.get(each.topic, 0), value.committed_ms)
        if value.offset < ends.get(each, 0):
            behind.append((each, value.offset))
        if slices.note():
            await slices.give_way()
    for each, offset in behind:
        is_reading = is_used and (subscribed is None or each.topic in subscribed)
        yield Reader(name, each, offset, now_ms if is_reading else heard_ms[each.topic])
        if slices.note():
            await slices.give_way()


async def _queues(
    groups: GroupService,
    ends: Mapping[TopicPartition, int],
    slices: Slices,
) -> AsyncGenerator[Reader, None]:
    now_ms = groups.core.clock.now_ms()
    for machine in groups.queues.machines:
        for group in list(machine.groups.values()):
            for each, window in list(group.windows.items()):
                if window.floor < ends.get(each, 0):
                    # When its consumers were there last is not known; but there is work for them.
                    yield Reader(group.name, each, window.floor, now_ms)
                if slices.note():
                    await slices.give_way()
