"""Decisions that are told at once: when they are written, and durable later."""

from __future__ import annotations

import errno

import pytest

from goqueue.errors import DiskFull, LogOffline
from goqueue.testing import Fate, SimDisk, Simulation, simulate
from tests.unit.runtime.shard_kit import open_shard


def test_what_is_told_at_once_outlives_a_kill() -> None:
    async def main(simulation: Simulation) -> None:
        disk = SimDisk(7)
        shard, _ = open_shard(disk, simulation)
        assert await shard.submit("quick a") == {"a": 1}
        assert not shard.is_settled
        disk.crash(Fate.ALL)
        _, again = open_shard(disk, simulation)
        assert again.counts == {"a": 1}

    simulate(main, 7)


def test_who_waits_until_all_is_settled_waits_for_what_was_told_at_once_too() -> None:
    async def main(simulation: Simulation) -> None:
        disk = SimDisk(7)
        shard, _ = open_shard(disk, simulation)
        await shard.submit("quick a")
        await shard.settled()
        disk.crash(Fate.NONE)
        _, again = open_shard(disk, simulation)
        assert again.counts == {"a": 1}

    simulate(main, 7)


def test_what_cannot_be_written_is_not_told_and_leaves_no_trace() -> None:
    async def main(simulation: Simulation) -> None:
        disk = SimDisk(7)
        shard, machine = open_shard(disk, simulation)
        disk.fail(errno.ENOSPC, operation="write")
        with pytest.raises(DiskFull):
            await shard.submit("quick a")
        assert machine.counts == {}
        assert await shard.submit("quick a") == {"a": 1}

    simulate(main, 7)


def test_a_log_that_is_offline_takes_nothing_that_is_told_at_once() -> None:
    async def main(simulation: Simulation) -> None:
        shard, machine = open_shard(SimDisk(7), simulation)
        shard.partition.log.go_offline("it is broken")
        with pytest.raises(LogOffline):
            await shard.submit("quick a")
        assert machine.counts == {}

    simulate(main, 7)
