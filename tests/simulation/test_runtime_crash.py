"""Writers wait for durability while a maintenance is at work, and the power goes: no acknowledged record is lost."""

from __future__ import annotations

import asyncio
from pathlib import PurePath

import pytest

from goqueue.errors import LogOffline
from goqueue.log.batches import check_batches
from goqueue.log.events import DamageFound
from goqueue.log.log import Log
from goqueue.model.log_settings import Cleanup, LogSettings
from goqueue.records.builder import NewRecord, build_batch
from goqueue.records.reader import read_records
from goqueue.runtime.flusher import Flusher
from goqueue.runtime.maintenance import LogMaintenance
from goqueue.testing import PowerLoss, SimDisk, Simulation, simulate
from goqueue.testing.loop import Unhandled
from goqueue.testing.sink import RecordingSink
from tests.simulation.log_model import read_all

DIRECTORY = PurePath("data/topic-0")
WRITERS = 6


def _settings(seed: int) -> LogSettings:
    cleanup = Cleanup.COMPACT if seed % 3 == 0 else Cleanup.DELETE
    return LogSettings(
        segment_bytes=1024, cleanup=cleanup, checkpoint_interval_ms=2000, min_cleanable_dirty_ratio=0.0, retention_ms=-1
    )


async def _write(log: Log, flusher: Flusher, simulation: Simulation, name: int, acknowledged: dict[int, bytes]) -> None:
    """Publish one record after the other, each once the one before is durable."""
    for number in range(40):
        await asyncio.sleep(simulation.entropy.fraction() * 0.2)
        value = b"%d-%d" % (name, number)
        batch = build_batch([NewRecord(simulation.clock.now_ms(), value, value)])
        (header,) = log.append(check_batches(batch, bytes_max=10_000), leader_epoch=0)
        flusher.note_append()
        await flusher.durable(header.next_offset)
        acknowledged[header.base_offset] = value


@pytest.mark.seeds(100, long_count=5_000)
def test_what_was_awaited_survives_a_power_loss(seed: int) -> None:
    disk = SimDisk(seed)
    sink = RecordingSink()
    acknowledged: dict[int, bytes] = {}

    async def main(simulation: Simulation) -> None:
        log = Log(disk, DIRECTORY, _settings(seed), sink)
        flusher = Flusher(log)
        maintenance = asyncio.create_task(LogMaintenance(lambda: [flusher], simulation.clock).run())
        disk.crash_after(30 + simulation.entropy.below(900))
        writers = [_write(log, flusher, simulation, name, acknowledged) for name in range(WRITERS)]
        outcomes = await asyncio.gather(*writers, return_exceptions=True)
        assert all(outcome is None or isinstance(outcome, PowerLoss | LogOffline) for outcome in outcomes)
        maintenance.cancel()
        await asyncio.gather(maintenance, return_exceptions=True)

    try:
        simulate(main, seed, may_leak=True)
    except PowerLoss:
        pass
    except Unhandled as end:
        if not isinstance(end.__cause__, PowerLoss):
            raise
    disk.crash()
    log = Log(disk, DIRECTORY, _settings(seed), sink)

    found = {record.offset: record.value for _, data in read_all(log) for record in read_records(data)}
    assert acknowledged.items() <= found.items()
    assert sink.of(DamageFound) == []
