"""Which groups have not read partitions up to some offset, and when they were last heard of.

Goes through all committed offsets, of which there may be millions: others have a turn in between, and what is not
asked for is not kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from goqueue.machines.group_kinds import is_in_use, topics_of
from goqueue.machines.group_values import TopicPartition
from goqueue.machines.groups import Groups
from goqueue.machines.offsets import partition_key
from goqueue.runtime.waiters import arrival

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker

_GROUPS_AT_A_TIME = 100


class Reader(NamedTuple):
    """A group that goes on at an offset.

    It was heard when it committed anything of the topic last; now, if it has members that read the topic.
    """

    group: str
    partition: TopicPartition
    offset: int
    heard_ms: int


async def readers_before(broker: Broker, ends: Mapping[TopicPartition, int]) -> AsyncIterator[Reader]:
    """Yield the groups that have committed an offset before the given one, for each of the given partitions."""
    now_ms = broker.clock.now_ms()
    ends_by_key = {partition_key(each): end for each, end in ends.items()}
    for machine in broker.groups.machines:
        for number, name in enumerate(machine.offsets.groups()):
            if number % _GROUPS_AT_A_TIME == 0:
                await arrival(asyncio.get_running_loop().call_soon)
            if machine.offsets.is_behind(name, ends_by_key):
                for reader in _readers(machine, name, ends, now_ms):
                    yield reader


def _readers(machine: Groups, name: str, ends: Mapping[TopicPartition, int], now_ms: int) -> list[Reader]:
    offsets = machine.offsets.of_group(name)
    behind = [(each, value.offset) for each, value in offsets.items() if value.offset < ends.get(each, 0)]
    group = machine.find(name)
    # None if only the members know what they read; then it may be anything.
    subscribed = topics_of(group)
    heard_ms: dict[str, int] = {}
    for each, value in offsets.items():
        heard_ms[each.topic] = max(heard_ms.get(each.topic, 0), value.committed_ms)
    if is_in_use(group):
        heard_ms.update((topic, now_ms) for topic in heard_ms if subscribed is None or topic in subscribed)
    return [Reader(name, each, offset, heard_ms[each.topic]) for each, offset in behind]
