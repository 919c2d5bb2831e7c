"""A shard and time: what is due is carried out at its moment, comes again if it fails, and ends with the shard."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable

import pytest

from goqueue.errors import LogOffline
from goqueue.testing import SimDisk, Simulation, simulate
from tests.unit.runtime.shard_kit import AGAIN_MS, open_shard


async def until(is_so: Callable[[], bool]) -> None:
    """Wait for a fact; time costs nothing here."""
    while not is_so():  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0)


def test_what_is_due_is_carried_out_at_its_moment() -> None:
    async def main(simulation: Simulation) -> None:
        shard, machine = open_shard(SimDisk(7), simulation)
        begin = simulation.clock.monotonic()
        await shard.submit("at 5000 a")
        await shard.submit("at 700 b")
        await asyncio.wait_for(shard.submit("wait b"), 10)
        assert 0.7 <= simulation.clock.monotonic() - begin < 0.75
        await asyncio.wait_for(shard.submit("wait a"), 10)
        assert 5.0 <= simulation.clock.monotonic() - begin < 5.05
        assert machine.counts == {"a": 1, "b": 1}
        assert machine.due_calls == 2

    for seed in range(5):
        simulate(main, seed)


def test_what_is_due_is_durable_when_those_who_wait_hear_of_it() -> None:
    async def main(simulation: Simulation) -> None:
        disk = SimDisk(7)
        shard, machine = open_shard(disk, simulation)
        await shard.submit("at 100 a")
        assert await shard.submit("wait a") == 1
        disk.crash()
        _, again = open_shard(disk, simulation)
        assert again.counts == machine.counts == {"a": 1}

    simulate(main, 7)


def test_what_is_due_far_ahead_is_not_forgotten() -> None:
    async def main(simulation: Simulation) -> None:
        shard, machine = open_shard(SimDisk(7), simulation)
        await shard.submit(f"at {5 * 3_600_000} a")
        await asyncio.wait_for(shard.submit("wait a"), 5 * 3600 + 1)
        assert machine.counts == {"a": 1}

    simulate(main, 7, seconds_max=30_000)


def test_something_due_that_fails_comes_again() -> None:
    async def main(simulation: Simulation) -> None:
        disk = SimDisk(7)
        shard, machine = open_shard(disk, simulation)
        begin = simulation.clock.monotonic()
        for command in ("at 500 a", "at 500 b"):
            await shard.submit(command)
        waiting = [asyncio.create_task(shard.submit(f"wait {word}")) for word in "ab"]
        disk.fail(errno.ENOSPC, operation="write", path="*.log")
        assert await asyncio.gather(*waiting) == [1, 1]
        assert simulation.clock.monotonic() - begin >= (500 + AGAIN_MS) / 1000
        assert machine.counts == {"a": 1, "b": 1}

    simulate(main, 7)


def test_time_that_is_passed_by_hand_makes_no_second_timer() -> None:
    async def main(simulation: Simulation) -> None:
        shard, machine = open_shard(SimDisk(7), simulation)
        await shard.submit("at 1000 a")
        for _ in range(10):
            shard.pass_time()
        assert machine.due_calls == 10
        await shard.submit("wait a")
        await asyncio.sleep(10)
        assert machine.due_calls == 11

    simulate(main, 7)


def test_something_due_earlier_than_expected_is_not_late() -> None:
    async def main(simulation: Simulation) -> None:
        shard, machine = open_shard(SimDisk(7), simulation)
        await shard.submit("at 10000 a")
        await asyncio.sleep(2)
        await shard.submit("at 10 b")
        await asyncio.wait_for(shard.submit("wait b"), 0.1)
        assert machine.counts == {"b": 1}
        await asyncio.sleep(9)
        assert machine.counts == {"a": 1, "b": 1}

    simulate(main, 7)


# -- the end


def test_closing_answers_whoever_waits() -> None:
    async def main(simulation: Simulation) -> None:
        shard, machine = open_shard(SimDisk(7), simulation)
        waiting = [asyncio.create_task(shard.submit("wait a")) for _ in range(3)]
        await until(lambda: len(machine.waiting["a"]) == 3)
        shard.close()
        for each in waiting:
            with pytest.raises(LogOffline, match="stop"):
                await asyncio.wait_for(each, 1)
        shard.close()

    simulate(main, 7)


def test_no_time_passes_in_a_shard_that_is_closed() -> None:
    async def main(simulation: Simulation) -> None:
        shard, machine = open_shard(SimDisk(7), simulation)
        await shard.submit("at 100 a")
        shard.pass_time()
        shard.close()
        await shard.submit("at 50 b")
        calls = machine.due_calls
        shard.pass_time()
        await asyncio.sleep(10)
        assert (machine.counts, machine.due_calls) == ({}, calls)

    simulate(main, 7)


def test_a_shard_that_is_closed_carries_out_what_it_can_answer_at_once() -> None:
    async def main(simulation: Simulation) -> None:
        shard, machine = open_shard(SimDisk(7), simulation)
        shard.close()
        assert await shard.submit("a") == {"a": 1}
        with pytest.raises(LogOffline, match="stop"):
            await asyncio.wait_for(shard.submit("wait b"), 1)
        assert len(shard._waiting) == 0
        assert machine.counts == {"a": 1}

    simulate(main, 7)


def test_a_partition_that_is_closed_leaves_nobody_waiting() -> None:
    async def main(simulation: Simulation) -> None:
        shard, machine = open_shard(SimDisk(7), simulation)
        waiting = asyncio.create_task(shard.submit("wait a"))
        counting = asyncio.create_task(shard.submit("b"))
        await until(lambda: bool(machine.waiting) and "b" in machine.counts)
        shard.close()
        await shard.partition.close()
        with pytest.raises(LogOffline):
            await asyncio.wait_for(waiting, 1)
        await asyncio.wait({counting}, timeout=1)
        assert counting.done()
        counting.exception()

    simulate(main, 7)
