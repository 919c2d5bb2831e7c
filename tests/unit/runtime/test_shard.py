"""A shard: a machine whose every change is in its log first, and whose state is the fold of that log."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from pathlib import PurePath
from typing import Literal

import pytest

from goqueue.errors import Corrupt, DiskFull, Invalid, LogOffline
from goqueue.records.layout import HEADER_BYTES, headers
from goqueue.runtime.maintenance import maintain
from goqueue.testing import SimDisk, Simulation, simulate
from tests.unit.log.log_kit import batch
from tests.unit.runtime.shard_kit import open_shard


async def until(is_so: Callable[[], bool]) -> None:
    """Wait for a fact; time costs nothing here."""
    while not is_so():  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0)


def test_what_was_submitted_is_there_after_a_power_loss() -> None:
    async def main(simulation: Simulation) -> None:
        disk = SimDisk(7)
        shard, machine = open_shard(disk, simulation)
        for command in ("a b", "a", "c", "-b"):
            await shard.submit(command)
        assert machine.counts == {"a": 2, "c": 1}
        disk.crash()
        _, again = open_shard(disk, simulation)
        assert again.counts == machine.counts

    simulate(main, 7)


def test_a_machine_begins_to_live_once_it_knows_all_that_is_stored() -> None:
    async def main(simulation: Simulation) -> None:
        disk = SimDisk(7)
        shard, machine = open_shard(disk, simulation)
        assert machine.revived_with == {}
        await shard.submit("a b")
        disk.crash()
        _, again = open_shard(disk, simulation)
        assert again.revived_with == {"a": 1, "b": 1}

    simulate(main, 7)


def test_a_refused_command_leaves_no_trace() -> None:
    async def main(simulation: Simulation) -> None:
        shard, machine = open_shard(SimDisk(7), simulation)
        with pytest.raises(Invalid):
            await shard.submit("bad")
        assert (machine.counts, shard.partition.log.end_offset, len(shard._waiting)) == ({}, 0, 0)

    simulate(main, 7)


def test_the_answer_of_the_machine_is_returned_or_raised() -> None:
    async def main(simulation: Simulation) -> None:
        shard, _ = open_shard(SimDisk(7), simulation)
        assert await shard.submit("a") == {"a": 1}
        assert await shard.submit("a b") == {"a": 2, "b": 1}
        assert await shard.submit("same") is None
        with pytest.raises(Invalid, match="told no"):
            await shard.submit("tell no")

    simulate(main, 7)


def test_state_changes_before_the_answer_and_the_answer_waits_for_the_disk() -> None:
    async def main(simulation: Simulation) -> None:
        shard, machine = open_shard(SimDisk(7), simulation)
        submitted = asyncio.create_task(shard.submit("a"))
        await until(lambda: bool(machine.counts))
        assert not submitted.done()
        assert shard.partition.log.durable_end == 0
        await submitted
        assert shard.partition.log.durable_end == 1

    simulate(main, 7)


def test_a_command_that_changes_nothing_waits_for_what_made_it_needless() -> None:
    async def main(simulation: Simulation) -> None:
        shard, machine = open_shard(SimDisk(7), simulation)
        first = asyncio.create_task(shard.submit("a"))
        await until(lambda: bool(machine.counts))
        await shard.submit("same")
        assert shard.partition.log.durable_end == 1
        await first

    for seed in range(20):
        simulate(main, seed)


def test_whoever_wants_to_know_hears_of_decisions_that_are_durable() -> None:
    async def main(simulation: Simulation) -> None:
        disk = SimDisk(7)
        durable_ends: list[int] = []
        shard, machine = open_shard(disk, simulation, lambda: durable_ends.append(shard.partition.log.durable_end))
        submitted = asyncio.create_task(shard.submit("a"))
        await until(lambda: bool(machine.counts))
        assert durable_ends == []
        await submitted
        assert durable_ends == [1]
        disk.fail(errno.EIO, operation="sync", path="*.log")
        with pytest.raises(LogOffline):
            await shard.submit("b")
        assert durable_ends == [1]

    simulate(main, 7)


# -- answers that come later


def test_a_command_is_answered_by_a_later_one_and_not_before_that_is_durable() -> None:
    async def main(simulation: Simulation) -> None:
        shard, machine = open_shard(SimDisk(7), simulation)
        waiting = [asyncio.create_task(shard.submit("wait a")) for _ in range(3)]
        await until(lambda: len(machine.waiting["a"]) == 3)
        await shard.submit("b")
        assert not any(each.done() for each in waiting)
        counting = asyncio.create_task(shard.submit("a"))
        await until(lambda: "a" in machine.counts)
        assert not any(each.done() for each in waiting)
        for each in waiting:
            assert await each == 1
            assert shard.partition.log.durable_end == 2
        await counting
        assert len(shard._waiting) == 0

    for seed in range(10):
        simulate(main, seed)


def test_commands_that_come_together_share_a_flush() -> None:
    async def main(simulation: Simulation) -> None:
        shard, machine = open_shard(SimDisk(7), simulation)
        ends: list[int] = []

        async def submit(word: str) -> None:
            await shard.submit(word)
            ends.append(shard.partition.log.durable_end)

        await asyncio.gather(*(submit("a") for _ in range(50)))
        assert machine.counts == {"a": 50}
        assert len(set(ends)) <= 3

    simulate(main, 7)


def test_a_caller_that_gives_up_leaves_nothing_behind() -> None:
    async def main(simulation: Simulation) -> None:
        shard, machine = open_shard(SimDisk(7), simulation)
        stays, leaves = (asyncio.create_task(shard.submit("wait a")) for _ in range(2))
        counting = asyncio.create_task(shard.submit("b"))
        await until(lambda: "b" in machine.counts and len(machine.waiting["a"]) == 2)
        for each in (leaves, counting):
            each.cancel()
            with pytest.raises(asyncio.CancelledError):
                await each
        assert len(shard._waiting) == 1
        await shard.submit("a")
        assert await stays == 1
        assert machine.counts == {"a": 1, "b": 1}
        assert len(shard._waiting) == 0

    for seed in range(10):
        simulate(main, seed)


# -- commands that are independent of each other


def test_independent_commands_that_come_together_share_batches() -> None:
    async def main(simulation: Simulation) -> None:
        disk = SimDisk(7)
        shard, machine = open_shard(disk, simulation)
        await asyncio.gather(*(shard.submit(f"set w{number} {number}") for number in range(50)))
        assert machine.counts == {f"w{number}": number for number in range(50)}
        data = shard.partition.log.read(0, bytes_max=100_000)
        counts = [header.record_count for _, header in headers(data)]
        assert sum(counts) == 50
        assert len(counts) < 10
        disk.crash()
        _, again = open_shard(disk, simulation)
        assert again.counts == machine.counts

    simulate(main, 7)


def test_whatever_comes_behind_independent_commands_sees_what_they_did() -> None:
    async def main(simulation: Simulation) -> None:
        shard, machine = open_shard(SimDisk(7), simulation)
        setting = asyncio.create_task(shard.submit("set a 5"))
        await until(lambda: not shard.is_settled)
        assert await shard.submit("a") == {"a": 6}
        assert await setting is None
        assert machine.counts == {"a": 6}

    for seed in range(10):
        simulate(main, seed)


def test_all_that_was_decided_is_settled_also_what_is_not_written_yet() -> None:
    async def main(simulation: Simulation) -> None:
        shard, machine = open_shard(SimDisk(7), simulation)
        setting = asyncio.create_task(shard.submit("set a 5"))
        await until(lambda: not shard.is_settled)
        await shard.settled()
        assert (machine.counts, shard.partition.log.durable_end) == ({"a": 5}, 1)
        await setting

    for seed in range(10):
        simulate(main, seed)


def test_independent_commands_that_cannot_be_written_are_refused_together() -> None:
    async def main(simulation: Simulation) -> None:
        disk = SimDisk(7)
        shard, machine = open_shard(disk, simulation)
        await shard.submit("a")
        disk.fail(errno.ENOSPC, operation="write")
        setting = [shard.submit(f"set w{number} 7") for number in range(20)]
        results = await asyncio.gather(*setting, return_exceptions=True)
        refused = {f"w{number}" for number, result in enumerate(results) if isinstance(result, DiskFull)}
        taken = {f"w{number}": 7 for number, result in enumerate(results) if result is None}
        assert len(refused) > 1
        assert len(refused) + len(taken) == 20
        assert (machine.counts, len(shard._waiting)) == ({"a": 1, **taken}, 0)

    for seed in range(10):
        simulate(main, seed)


# -- disks that fail


def test_a_full_disk_leaves_state_as_it_was_and_goes_on_when_there_is_room() -> None:
    async def main(simulation: Simulation) -> None:
        disk = SimDisk(7)
        shard, machine = open_shard(disk, simulation)
        waiting = asyncio.create_task(shard.submit("wait b"))
        await shard.submit("a")
        disk.fail(errno.ENOSPC, operation="write")
        with pytest.raises(DiskFull):
            await shard.submit("a b")
        assert (machine.counts, len(machine.waiting["b"]), waiting.done()) == ({"a": 1}, 1, False)
        await shard.submit("a b")
        assert machine.counts == {"a": 2, "b": 1}
        assert await waiting == 1

    simulate(main, 7)


def test_a_command_that_cannot_become_durable_stops_the_shard() -> None:
    async def main(simulation: Simulation) -> None:
        disk = SimDisk(7)
        shard, _ = open_shard(disk, simulation)
        await shard.submit("a")
        disk.fail(errno.EIO, operation="sync", path="*.log")
        for command in ("b", "c", "same"):
            with pytest.raises(LogOffline):
                await shard.submit(command)
        disk.crash()
        _, again = open_shard(disk, simulation)
        assert again.counts.get("a") == 1

    simulate(main, 7)


@pytest.mark.parametrize("operation", ["sync", "write"])
def test_a_log_that_goes_offline_answers_everybody(operation: Literal["sync", "write"]) -> None:
    async def main(simulation: Simulation) -> None:
        disk = SimDisk(7)
        shard, machine = open_shard(disk, simulation)
        await shard.submit("a")
        waiting = [asyncio.create_task(shard.submit("wait b")) for _ in range(3)]
        await until(lambda: len(machine.waiting["b"]) == 3)
        disk.fail(errno.EIO, operation=operation, path="*.log")
        with pytest.raises(LogOffline):
            await shard.submit("c")
        for each in waiting:
            with pytest.raises(LogOffline):
                await asyncio.wait_for(each, 1)
        with pytest.raises(LogOffline):
            await shard.submit("b")
        assert "b" not in machine.counts
        assert len(shard._waiting) == 0

    simulate(main, 7)


def test_a_log_that_is_offline_when_something_is_due_answers_whoever_waits_for_it() -> None:
    async def main(simulation: Simulation) -> None:
        disk = SimDisk(7)
        shard, _ = open_shard(disk, simulation)
        await shard.submit("at 500 a")
        waiting = asyncio.create_task(shard.submit("wait a"))
        disk.fail(errno.EIO, operation="write", path="*.log")
        with pytest.raises(LogOffline):
            await asyncio.wait_for(waiting, 2)

    simulate(main, 7)


def test_a_machine_that_cannot_adopt_what_is_stored_is_not_asked_again() -> None:
    async def main(simulation: Simulation) -> None:
        shard, machine = open_shard(SimDisk(7), simulation)
        waiting = asyncio.create_task(shard.submit("wait a"))
        await until(lambda: bool(machine.waiting["a"]))
        with pytest.raises(RuntimeError):
            await shard.submit("broken")
        with pytest.raises(LogOffline):
            await asyncio.wait_for(waiting, 1)
        with pytest.raises(LogOffline):
            await shard.submit("a")
        assert machine.counts == {}

    simulate(main, 7)


def test_what_fails_when_it_is_due_is_reported_and_keeps_nothing_else_back() -> None:
    async def main(simulation: Simulation) -> None:
        reported: list[str] = []
        simulation.loop.set_exception_handler(lambda _, context: reported.append(str(context["exception"])))
        shard, machine = open_shard(SimDisk(7), simulation)
        for command in ("at 500 bad", "at 500 mistake", "at 501 a"):
            await shard.submit(command)
        await asyncio.sleep(3)
        assert machine.counts == {"a": 1}
        # Both stay due, but not all the time.
        assert 2 <= len(reported) <= 5
        assert set(reported) == {"a mistake in the machine"}

    simulate(main, 7)


# -- what is stored


def test_a_compacted_log_makes_the_same_state() -> None:
    async def main(simulation: Simulation) -> None:
        disk = SimDisk(7)
        shard, machine = open_shard(disk, simulation)
        for number in range(200):
            await shard.submit(f"w{number % 7} x{number % 5}")
            if number % 20 == 0:
                await shard.submit(f"-w{number % 7}")
                await maintain(shard.partition.flusher, simulation.clock.now_ms() + number * 10_000)
        assert len(shard.partition.log.segments) < 10
        disk.crash()
        _, again = open_shard(disk, simulation)
        assert again.counts == machine.counts

    simulate(main, 7)


def test_a_log_larger_than_one_read_is_read_to_its_end() -> None:
    async def main(simulation: Simulation) -> None:
        disk = SimDisk(7)
        shard, machine = open_shard(disk, simulation)
        await asyncio.gather(*(shard.submit(" ".join(f"{word:0>400}" for word in range(200))) for _ in range(20)))
        disk.kill()
        _, again = open_shard(disk, simulation)
        assert again.counts == machine.counts
        assert set(again.counts.values()) == {20}

    simulate(main, 7)


def test_a_record_without_a_key_is_damage() -> None:
    async def main(simulation: Simulation) -> None:
        disk = SimDisk(7)
        shard, _ = open_shard(disk, simulation)
        shard.partition.append([batch(b"no key")])
        await shard.partition.committed(1)
        disk.kill()
        with pytest.raises(Corrupt):
            open_shard(disk, simulation)

    simulate(main, 7)


def test_a_flipped_bit_is_damage() -> None:
    async def main(simulation: Simulation) -> None:
        disk = SimDisk(7)
        shard, _ = open_shard(disk, simulation)
        await shard.submit("set a 5")
        await shard.partition.close()
        (path,) = (PurePath(each) for each in disk.tree() if each.endswith(".log"))
        disk.flip(path, disk.read_file(path).index(b"5", HEADER_BYTES), 0x01)
        with pytest.raises(Corrupt):
            open_shard(disk, simulation)

    simulate(main, 7)
