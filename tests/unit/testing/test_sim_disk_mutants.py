"""The simulated disk is cruel enough: a log that forgets one duty is caught, a correct one never is."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath
from random import Random

import pytest

from goqueue.testing import PowerLoss, SimDisk

DIRECTORY = PurePath("data")
SEEDS = range(300)
SEGMENT_RECORDS = 8
HEADER = struct.Struct(">II")


@dataclass(frozen=True, slots=True)
class Duties:
    """What a log does before it acknowledges a record, and what it checks when it reads one."""

    syncs_data: bool = True
    syncs_names: bool = True
    checks_sums: bool = True


def append_until_power_fails(disk: SimDisk, duties: Duties, records: list[bytes]) -> int:
    """Append records to segments; return how many were acknowledged."""
    acknowledged = 0
    try:
        for number, record in enumerate(records):
            if number % SEGMENT_RECORDS == 0:
                file = disk.open(DIRECTORY / f"{number:04}", create=True)
                if duties.syncs_names:
                    disk.sync_directory(DIRECTORY)
            file.write_at(file.size(), HEADER.pack(len(record), zlib.crc32(record)), record)
            if duties.syncs_data:
                file.sync()
            acknowledged += 1
    except PowerLoss:
        pass
    return acknowledged


def recover(disk: SimDisk, duties: Duties) -> list[bytes]:
    """Return the records that are found, up to the first that is missing or damaged."""
    found: list[bytes] = []
    for name in disk.list_directory(DIRECTORY):
        if int(name) != len(found):
            break
        found += segment_records(disk.read_file(DIRECTORY / name), duties)
    return found


def segment_records(data: bytes, duties: Duties) -> Iterator[bytes]:
    position = 0
    while position + HEADER.size <= len(data):
        size, checksum = HEADER.unpack_from(data, position)
        record = data[position + HEADER.size : position + HEADER.size + size]
        if size == 0 or len(record) < size or (duties.checks_sums and zlib.crc32(record) != checksum):
            return
        yield record
        position += HEADER.size + size


def violations(duties: Duties) -> int:
    """Count the seeds after which an acknowledged record is gone, or one is found that nobody wrote."""
    count = 0
    for seed in SEEDS:
        chance = Random(seed)
        records = [chance.randbytes(chance.randrange(1, 900)) for _ in range(chance.randrange(1, 40))]
        disk = SimDisk(seed)
        disk.make_directory(DIRECTORY)
        disk.sync_directory(PurePath())
        disk.crash_after(chance.randrange(1, 2 * len(records) + 2))
        acknowledged = append_until_power_fails(disk, duties, records)
        disk.crash()
        found = recover(disk, duties)
        count += len(found) < acknowledged or found != records[: len(found)]
    return count


def test_log_that_does_its_duties_loses_nothing() -> None:
    assert violations(Duties()) == 0


@pytest.mark.parametrize(
    ("duties", "violations_min"),
    [
        pytest.param(Duties(syncs_data=False), 150, id="acknowledges before it syncs"),
        pytest.param(Duties(syncs_names=False), 75, id="never syncs its directory"),
        pytest.param(Duties(checks_sums=False), 10, id="has no checksum"),
    ],
)
def test_log_that_forgets_a_duty_is_caught(duties: Duties, violations_min: int) -> None:
    assert violations(duties) >= violations_min
