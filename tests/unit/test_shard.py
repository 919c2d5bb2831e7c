"""A shard: a machine whose every change is in its log first, and whose state is the fold of that log."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Sequence
from pathlib import PurePath

import pytest
from tests.unit.log_kit import batch

from goqueue.errors import Corrupt, DiskFull, Invalid, LogOffline
from goqueue.log.log import Log
from goqueue.machines.catalog import KeyedRecord
from goqueue.model.log_settings import Cleanup, LogSettings
from goqueue.model.topic_settings import TopicSettings
from goqueue.runtime.partition import Partition
from goqueue.runtime.shard import Shard
from goqueue.runtime.upkeep import tend
from goqueue.testing import SimDisk, Simulation, simulate

SETTINGS = TopicSettings(
    log=LogSettings(cleanup=Cleanup.COMPACT, segment_bytes=1024, min_cleanable_dirty_ratio=0.0, delete_retention_ms=0)
)


class Counters:
    """A machine that counts words; a word without a count is forgotten, `bad` is refused, `same` changes nothing."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def decide(self, command: str) -> Sequence[KeyedRecord]:
        """Count a word; with a minus in front, forget it."""
        if command == "bad":
            raise Invalid("no")
        if command == "same":
            return []
        if command.startswith("-"):
            return [KeyedRecord(command[1:].encode(), None)]
        return [KeyedRecord(word.encode(), b"%d" % (self.counts.get(word, 0) + 1)) for word in command.split()]

    def apply(self, record: KeyedRecord) -> None:
        """Take note of a count."""
        word = record.key.decode()
        if record.value is None:
            self.counts.pop(word, None)
        else:
            self.counts[word] = int(record.value)


def open_shard(disk: SimDisk, simulation: Simulation) -> tuple[Shard[str], Counters]:
    """Open the shard of these tests."""
    machine = Counters()
    log = Log(disk, PurePath("data/__words-0"), SETTINGS.log)
    partition = Partition("__words", 0, log, SETTINGS, simulation.clock)
    return Shard(machine, partition, simulation.clock), machine


async def _until_counted(machine: Counters) -> None:
    while not machine.counts:  # noqa: ASYNC110 - nobody tells, and time costs nothing here
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


def test_a_refused_command_leaves_no_trace() -> None:
    async def main(simulation: Simulation) -> None:
        shard, machine = open_shard(SimDisk(7), simulation)
        with pytest.raises(Invalid):
            await shard.submit("bad")
        assert (machine.counts, shard.partition.log.end_offset) == ({}, 0)

    simulate(main, 7)


def test_state_changes_before_the_answer_and_the_answer_waits_for_the_disk() -> None:
    async def main(simulation: Simulation) -> None:
        shard, machine = open_shard(SimDisk(7), simulation)
        submitted = asyncio.create_task(shard.submit("a"))
        await _until_counted(machine)
        assert not submitted.done()
        assert shard.partition.log.durable_end == 0
        await submitted
        assert shard.partition.log.durable_end == 1

    simulate(main, 7)


def test_a_command_that_changes_nothing_waits_for_what_made_it_needless() -> None:
    async def main(simulation: Simulation) -> None:
        shard, machine = open_shard(SimDisk(7), simulation)
        first = asyncio.create_task(shard.submit("a"))
        await _until_counted(machine)
        await shard.submit("same")
        assert shard.partition.log.durable_end == 1
        await first

    for seed in range(20):
        simulate(main, seed)


def test_a_full_disk_leaves_state_as_it_was_and_goes_on_when_there_is_room() -> None:
    async def main(simulation: Simulation) -> None:
        disk = SimDisk(7)
        shard, machine = open_shard(disk, simulation)
        await shard.submit("a")
        disk.fail(errno.ENOSPC, operation="write")
        with pytest.raises(DiskFull):
            await shard.submit("a")
        assert machine.counts == {"a": 1}
        await shard.submit("a")
        assert machine.counts == {"a": 2}

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


def test_a_compacted_log_makes_the_same_state() -> None:
    async def main(simulation: Simulation) -> None:
        disk = SimDisk(7)
        shard, machine = open_shard(disk, simulation)
        for number in range(200):
            await shard.submit(f"w{number % 7} x{number % 5}")
            if number % 20 == 0:
                await shard.submit(f"-w{number % 7}")
                await tend(shard.partition.flusher, simulation.clock.now_ms() + number * 10_000)
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
