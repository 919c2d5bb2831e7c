"""A look at very many readers: others have their turns meanwhile, and nobody waits for it at the end."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable

from typing_extensions import override

from goqueue.broker.broker import Broker
from goqueue.broker.events import RetentionNear
from goqueue.broker.groups.readers import readers_before
from goqueue.broker.slices import PIECES_MAX, Slices
from goqueue.broker.topics.retention_watch import RetentionWatch
from goqueue.machines.groups.offsets import CommittedOffset, NewOffset
from goqueue.model.topic import TopicPartition
from goqueue.testing import SimDisk, Simulation, simulate
from tests.protocols.kafka.server import serving
from tests.protocols.kafka.test_retention_hold import filled

OFFSETS = 4 * PIECES_MAX


class CountedSlices(Slices):
    """Slices that tell how many pauses there were."""

    pauses = 0

    @override
    async def give_way(self) -> None:
        self.pauses += 1
        await super().give_way()


def read(broker: Broker, group: str, partitions: Iterable[TopicPartition]) -> None:
    """Have a group be at the start of partitions, as if it had committed that."""
    table = next(iter(broker.groups.machines)).offsets
    value = CommittedOffset(0, committed_ms=broker.core.clock.now_ms())
    for record in table.commit(group, [NewOffset(each, value) for each in partitions]):
        table.apply(record)


def test_others_have_a_turn_between_the_offsets_of_a_single_group() -> None:
    async def main(simulation: Simulation) -> None:
        disk = SimDisk(7)
        await filled(simulation, {"g": 2}, disk)
        async with serving(simulation, disk) as server:
            broker = server.server.broker
            partitions = [TopicPartition("t", index) for index in range(OFFSETS)]
            read(broker, "wide", partitions)
            slices = CountedSlices(simulation.loop.time, lambda: False)
            found: list[int] = []
            async for reader in readers_before(broker.groups, dict.fromkeys(partitions, 1), slices):
                assert reader.group == "wide"
                found.append(slices.pauses)
            assert len(found) == OFFSETS
            assert max(Counter(found).values()) <= PIECES_MAX

    simulate(main, 0)


def test_a_stop_cuts_a_look_short_and_nothing_comes_of_it() -> None:
    async def main(simulation: Simulation) -> None:
        disk = SimDisk(7)
        await filled(simulation, {"g": 2}, disk)
        async with serving(simulation, disk) as server:
            # What they read next is going to be deleted soon.
            await asyncio.sleep(56)
            broker = server.server.broker
            for number in range(OFFSETS):
                read(broker, f"new-{number}", [TopicPartition("t", 0)])
            told = len(server.sink.of(RetentionNear))
            watch = RetentionWatch(broker.topics)
            looking = asyncio.create_task(watch.look())
            for _ in range(10):
                await asyncio.sleep(0)
            assert not looking.done()
            watch.stop()
            await looking
            assert (len(server.sink.of(RetentionNear)), watch.held_bytes) == (told, {})
            await RetentionWatch(broker.topics).look()
            assert len(server.sink.of(RetentionNear)) > told, "there was something to tell"

    simulate(main, 0)
