"""Soft decisions: told once they are written, together with those of the same turn, and durable later."""

from __future__ import annotations

import asyncio
import errno

import pytest
from tests.unit.shard_kit import open_shard

from goqueue.errors import DiskFull, LogOffline
from goqueue.records.layout import headers
from goqueue.records.reader import read_pairs
from goqueue.runtime.shard import Shard
from goqueue.testing import SimDisk, Simulation, simulate


def stored(shard: Shard[str]) -> list[list[tuple[bytes | None, bytes | None]]]:
    """Return the keys and values in the log, batch by batch."""
    data = shard.partition.log.read(0, bytes_max=1024 * 1024)
    return [list(read_pairs(data[position:])) for position, _ in headers(data)]


def test_a_soft_decision_is_the_state_at_once_and_told_when_it_is_written() -> None:
    async def main(simulation: Simulation) -> None:
        disk = SimDisk(7)
        shard, machine = open_shard(disk, simulation)
        told = asyncio.ensure_future(shard.submit("soft a"))
        await asyncio.sleep(0)
        assert (machine.counts, stored(shard), told.done()) == ({"a": 1}, [], False)
        assert await told == {"a": 1}
        assert (stored(shard), shard.is_settled) == ([[(b"a", b"1")]], False)
        await shard.settled()
        disk.crash()
        _, again = open_shard(disk, simulation)
        assert again.counts == {"a": 1}

    simulate(main, 7)


def test_those_of_one_turn_are_written_together_and_only_the_latest_of_each_key() -> None:
    async def main(simulation: Simulation) -> None:
        shard, _ = open_shard(SimDisk(7), simulation)
        await asyncio.gather(*map(shard.submit, ("soft a b", "soft a", "soft c")))
        assert [dict(each) for each in stored(shard)] == [{b"a": b"2", b"b": b"1", b"c": b"1"}]

    simulate(main, 7)


def test_what_is_written_next_takes_soft_decisions_along() -> None:
    async def main(simulation: Simulation) -> None:
        shard, _ = open_shard(SimDisk(7), simulation)
        told = asyncio.ensure_future(shard.submit("soft a"))
        await asyncio.sleep(0)
        await shard.submit("b")
        assert await told == {"a": 1}
        await asyncio.sleep(1)
        assert stored(shard) == [[(b"a", b"1"), (b"b", b"1")]]

    simulate(main, 7)


def test_who_waits_until_all_is_settled_waits_for_soft_decisions_too() -> None:
    async def main(simulation: Simulation) -> None:
        disk = SimDisk(7)
        shard, _ = open_shard(disk, simulation)
        await shard.submit("soft a")
        await shard.settled()
        disk.crash()
        _, again = open_shard(disk, simulation)
        assert again.counts == {"a": 1}

    simulate(main, 7)


def test_a_shard_that_closes_has_written_its_soft_decisions() -> None:
    async def main(simulation: Simulation) -> None:
        shard, _ = open_shard(SimDisk(7), simulation)
        await shard.submit("soft a")
        shard.close()
        assert stored(shard) == [[(b"a", b"1")]]

    simulate(main, 7)


def test_while_the_disk_is_full_soft_decisions_are_refused_too_and_a_refused_command_is_not_taken_along() -> None:
    async def main(simulation: Simulation) -> None:
        disk = SimDisk(7)
        shard, machine = open_shard(disk, simulation)
        # The first one is the state already, and owed; those that come then are not.
        for command in ("soft a", "b", "soft a"):
            disk.fail(errno.ENOSPC, operation="write")
            with pytest.raises(DiskFull):
                await shard.submit(command)
        assert machine.counts == {"a": 1}
        assert await shard.submit("soft a") == {"a": 2}
        assert stored(shard) == [[(b"a", b"2")]]

    simulate(main, 7)


def test_what_is_owed_is_tried_again_by_itself() -> None:
    async def main(simulation: Simulation) -> None:
        disk = SimDisk(7)
        shard, _ = open_shard(disk, simulation)
        disk.fail(errno.ENOSPC, operation="write")
        with pytest.raises(DiskFull):
            await shard.submit("soft a")
        assert stored(shard) == []
        await asyncio.sleep(2)
        assert stored(shard) == [[(b"a", b"1")]]

    simulate(main, 7)


def test_much_is_not_owed_but_written() -> None:
    async def main(simulation: Simulation) -> None:
        shard, _ = open_shard(SimDisk(7), simulation)
        words = " ".join(f"{number:0>1000}" for number in range(300))
        await shard.submit(f"soft {words}")
        assert [len(each) for each in stored(shard)] == [300]

    simulate(main, 7)


def test_a_log_that_is_offline_takes_no_soft_decisions() -> None:
    async def main(simulation: Simulation) -> None:
        shard, machine = open_shard(SimDisk(7), simulation)
        shard.partition.log.go_offline("it is broken")
        with pytest.raises(LogOffline):
            await shard.submit("soft a")
        assert machine.counts == {}

    simulate(main, 7)
