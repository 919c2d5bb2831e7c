"""Holding back on a simulated disk: when nobody can say how far groups are, and when a crash comes in between."""

from __future__ import annotations

import asyncio
import errno

import pytest

from goqueue.broker.events import ExpiryHeld
from goqueue.broker.topics.retention_watch import UNKNOWN_GROUPS
from goqueue.testing import SimDisk, Simulation, simulate
from tests.protocols.kafka.group_kit import commit, offsets
from tests.protocols.kafka.requests import create_topic, publish
from tests.protocols.kafka.server import SimServer, serving
from tests.unit.log.log_kit import batch

MINUTE_MS = 60_000
CONFIG = {
    "retention.ms": str(MINUTE_MS),
    "segment.bytes": "1024",
    "message.timestamp.type": "LogAppendTime",
    "goqueue.retention.hold.bytes": "-1",
}


async def filled(simulation: Simulation, committed: dict[str, int], disk: SimDisk) -> None:
    """Store a topic of five segments, and groups that have read some."""
    async with serving(simulation, disk) as server:
        client = await server.client()
        await create_topic(client, "t", config=CONFIG)
        for _ in range(5):
            assert (await publish(client, "t", batch(b"v" * 900)))["error_code"] == 0
        for name, offset in committed.items():
            assert await commit(client, offsets({0: offset}), group=name) == [0]


def start_of(server: SimServer) -> int:
    """Return where the topic starts."""
    return server.server.broker.topics.topic("t").partition(0).log.start_offset


@pytest.mark.seeds(2, long_count=20)
def test_while_groups_cannot_be_loaded_nothing_is_deleted_that_they_may_not_have_read(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        disk = SimDisk(7)
        await filled(simulation, {"g": 2}, disk)
        disk.fail(errno.EIO, operation="open", path="__consumer_offsets-*/*", times=None)
        async with serving(simulation, disk) as server:
            await asyncio.sleep(3 * 60)
            assert start_of(server) == 0
            assert {event.groups for event in server.sink.of(ExpiryHeld)} == {UNKNOWN_GROUPS}
        disk.heal()
        async with serving(simulation, disk) as server:
            await asyncio.sleep(2 * 60)
            assert start_of(server) == 2

    simulate(main, seed)


@pytest.mark.seeds(2, long_count=20)
def test_a_log_of_groups_that_takes_no_more_commits_keeps_everything(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        disk = SimDisk(7)
        await filled(simulation, {"g": 2}, disk)
        async with serving(simulation, disk) as server:
            disk.fail(errno.EIO, operation="sync", path="__consumer_offsets-*/*", times=None)
            assert await commit(await server.client(), offsets({0: 5}), group="g") != [0]
            await asyncio.sleep(3 * 60)
            assert start_of(server) == 0
            assert {event.groups for event in server.sink.of(ExpiryHeld)} == {UNKNOWN_GROUPS}
            disk.heal()

    simulate(main, seed)


@pytest.mark.seeds(5, long_count=50)
def test_after_a_power_loss_what_groups_have_not_read_is_still_there(seed: int) -> None:
    disk = SimDisk(seed)

    async def before(simulation: Simulation) -> None:
        await filled(simulation, {"slow": 1, "fast": 5}, disk)
        server = SimServer(simulation, disk)
        await server.start()
        await asyncio.sleep(3 * 60)
        assert start_of(server) == 1
        assert await commit(await server.client(), offsets({0: 3}), group="slow") == [0]
        # It ends somewhere between the commit and the removal of the files that may go now.
        await asyncio.sleep(simulation.entropy.fraction() * 10)

    async def after(simulation: Simulation) -> None:
        async with serving(simulation, disk) as server:
            assert start_of(server) in {1, 3}
            # The clock of the next life begins where that of the first one did.
            await asyncio.sleep(10 * 60)
            assert start_of(server) == 3

    simulate(before, seed, may_leak=True)
    disk.crash()
    simulate(after, seed)
