"""An offset and a leader epoch name one record for ever, also if a power loss takes records that were seen."""

from __future__ import annotations

import asyncio
import struct

import pytest

from goqueue.log import names
from goqueue.log.checkpoint import SLOT_BYTES, Checkpoint, CheckpointFile
from goqueue.records.checksum import crc32c
from goqueue.records.layout import headers
from goqueue.records.reader import read_records
from goqueue.runtime.partition import Partition
from goqueue.testing import Fate, SeededEntropy, SimDisk, Simulation, simulate
from tests.unit.log.log_kit import DIRECTORY, batch
from tests.unit.runtime.partition_kit import INTERVAL, partition_of

LIVES = 12


def _seen(partition: Partition) -> dict[tuple[int, int], bytes | None]:
    """Return what readers see of a partition, by leader epoch and offset."""
    data = partition.read(partition.log.start_offset, bytes_max=1_000_000)
    return {
        (header.leader_epoch, record.offset): record.value
        for position, header in headers(data)
        for record in read_records(memoryview(data)[position:])
    }


@pytest.mark.seeds(40, long_count=2_000)
def test_what_was_seen_at_an_offset_in_an_epoch_is_never_something_else(seed: int) -> None:
    disk, chance = SimDisk(seed), SeededEntropy(seed)
    known: dict[tuple[int, int], bytes | None] = {}
    epochs = []

    async def live(simulation: Simulation) -> None:
        partition = partition_of(disk, simulation, INTERVAL)
        epochs.append(partition.leader_epoch)
        for _ in range(chance.below(4)):
            partition.append([batch(b"%d" % chance.below(1_000_000))])
            await asyncio.sleep(chance.choice([0, 0, 0.1, 2]))
            for place, value in _seen(partition).items():
                assert known.setdefault(place, value) == value
        if chance.chance(0.2):
            await partition.delete_before(partition.high_watermark)
        if chance.chance(0.4):
            await partition.close()

    for life in range(LIVES):
        simulate(live, seed * LIVES + life, may_leak=True)
        if chance.chance(0.7):
            disk.crash(chance.choice([Fate.NONE, Fate.NONE, None]))
        else:
            disk.kill()
    assert epochs == sorted(epochs)


def test_an_epoch_outlives_all_of_its_records() -> None:
    disk = SimDisk(1)
    epochs = []

    async def live(simulation: Simulation) -> None:
        partition = partition_of(disk, simulation, INTERVAL)
        partition.append([batch(b"x")])
        epochs.append(partition.leader_epoch)

    for _ in range(3):
        simulate(live, 1, may_leak=True)
        disk.crash(Fate.NONE)
    assert epochs == [0, 1, 2]


def test_a_checkpoint_without_an_epoch_is_still_read() -> None:
    disk = SimDisk(1)
    entry = struct.pack("<IIQqqqqIqI", 0x4B435147, 1, 9, 3, 8, 2, 700, 12345, -1, 1)
    disk.make_directory(DIRECTORY)
    path = DIRECTORY / names.CHECKPOINT
    file = disk.open(path, create=True)
    file.write_at(0, (entry + struct.pack("<I", crc32c(entry))).ljust(SLOT_BYTES, b"\0"))
    file.close()
    assert CheckpointFile(disk, path).load() == Checkpoint(3, 8, 2, 700, 12345, is_clean=1)
