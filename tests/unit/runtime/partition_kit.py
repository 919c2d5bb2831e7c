"""What the tests of partitions share: one to work on, batches of producers, and outcomes in short."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from goqueue.errors import GoQueueError
from goqueue.log.log import Log
from goqueue.model.log_settings import FlushPolicy, LogSettings
from goqueue.model.topic_settings import Stamp, TopicSettings
from goqueue.runtime.partition import Appended, Outcome, Partition
from goqueue.testing import SimDisk, Simulation, simulate
from tests.unit.log.log_kit import DIRECTORY, batch

GROUP = TopicSettings(log=LogSettings(flush=FlushPolicy.GROUP, retention_ms=-1))
INTERVAL = TopicSettings(log=LogSettings(flush=FlushPolicy.INTERVAL, flush_interval_ms=1000, retention_ms=-1))
STAMPED = replace(GROUP, stamp=Stamp.LOG_APPEND_TIME)

Act = Callable[[Partition, SimDisk, Simulation], Awaitable[None]]


def partition_of(disk: SimDisk, simulation: Simulation, settings: TopicSettings = GROUP) -> Partition:
    """Open the partition of these tests."""
    return Partition("orders", 0, Log(disk, DIRECTORY, settings.log), settings, simulation.clock)


def run(act: Act, settings: TopicSettings = GROUP, disk: SimDisk | None = None, seed: int = 7) -> None:
    """Let something happen to a new partition."""
    used = disk or SimDisk(seed)

    async def main(simulation: Simulation) -> None:
        partition = partition_of(used, simulation, settings)
        await act(partition, used, simulation)
        await partition.close()

    simulate(main, seed)


def appended(outcome: Outcome) -> tuple[int, int]:
    """Return where a section went."""
    assert isinstance(outcome, Appended), outcome
    return outcome.base_offset, outcome.end_offset


def codes(outcomes: list[Outcome]) -> list[str]:
    """Return the outcomes as codes, `ok` for a section that is stored."""
    return [outcome.code if isinstance(outcome, GoQueueError) else "ok" for outcome in outcomes]


def idempotent(sequence: int, *contents: bytes, producer: int = 5, epoch: int = 0) -> bytearray:
    """Return a batch of a producer."""
    return batch(*(contents or (b"x",)), producer=producer, epoch=epoch, sequence=sequence)
