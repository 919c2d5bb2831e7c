"""Partitions whose logs were not opened yet: what is asked of them first must not be lost by opening them."""

from __future__ import annotations

from pathlib import PurePath

import pytest

from goqueue.errors import LogOffline
from goqueue.log.closed_state import ClosedState
from goqueue.log.log import Log
from goqueue.model.log_settings import LogSettings
from goqueue.model.topic_settings import TopicSettings
from goqueue.runtime.partition import Appended, Partition
from goqueue.testing import SimDisk, Simulation, simulate
from tests.unit.log.log_kit import batch

DIRECTORY = PurePath("data/orders-0")
SETTINGS = TopicSettings(log=LogSettings(segment_bytes=1024, retention_ms=-1))


def _asleep(disk: SimDisk, simulation: Simulation, rest: ClosedState) -> Partition:
    log = Log(disk, DIRECTORY, SETTINGS.log, closed_state=rest)
    return Partition("orders", 0, log, SETTINGS, simulation.clock)


async def _closed(disk: SimDisk, simulation: Simulation, count: int = 20) -> ClosedState:
    partition = Partition("orders", 0, Log(disk, DIRECTORY, SETTINGS.log), SETTINGS, simulation.clock)
    for _ in range(count):
        (outcome,) = partition.append([batch(b"x" * 100)])
        assert isinstance(outcome, Appended)
    await partition.close()
    rest = partition.log.closed_state()
    assert rest is not None
    return rest


@pytest.mark.parametrize("offset", [13, -1])
def test_records_deleted_as_the_first_thing_after_a_start_stay_deleted(offset: int) -> None:
    disk = SimDisk(0)

    async def main(simulation: Simulation) -> None:
        partition = _asleep(disk, simulation, await _closed(disk, simulation))
        start = 20 if offset == -1 else offset
        assert await partition.delete_before(offset) == start
        assert partition.log.start_offset == start
        disk.kill()
        assert Log(disk, DIRECTORY, SETTINGS.log).start_offset == start

    simulate(main, 0)


def test_a_log_that_is_closed_or_deleted_is_not_opened_any_more() -> None:
    disk = SimDisk(0)

    async def main(simulation: Simulation) -> None:
        partition = _asleep(disk, simulation, await _closed(disk, simulation))
        await partition.close()
        before = disk.tree()
        with pytest.raises(LogOffline, match="it is closed"):
            partition.offset_for_time(0)
        assert disk.tree() == before
        assert partition.log.is_unopened

    simulate(main, 0)
