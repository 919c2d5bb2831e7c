"""A log written by an earlier version is read as it was written: its bytes are kept in tests/golden/log."""

from __future__ import annotations

from pathlib import PurePath

import pytest

from goqueue.log.events import IndexRebuilt
from goqueue.log.log import Log
from goqueue.log.verify import verify
from goqueue.records.reader import read_records
from goqueue.seams.disk import RealDisk
from goqueue.testing import RecordingSink, SimDisk
from tests.golden.make_log import FIRST_MS, SETTINGS, TARGET, batches
from tests.unit.log.log_kit import stored_batches

DIRECTORY = PurePath("log")


@pytest.fixture
def disk() -> SimDisk:
    """A disk with a copy of the stored log."""
    disk = SimDisk(0)
    for path in sorted(TARGET.iterdir()):
        disk.write_file(DIRECTORY / path.name, path.read_bytes())
    return disk


def test_stored_log_is_whole() -> None:
    assert list(verify(RealDisk(), TARGET)) == []


def test_stored_log_opens_without_being_read_again(disk: SimDisk) -> None:
    before = disk.tree()
    sink = RecordingSink()
    log = Log(disk, DIRECTORY, SETTINGS, sink)
    assert sink.of(IndexRebuilt) == []
    assert (log.start_offset, log.end_offset, log.epochs.latest) == (2, 48, 3)
    assert [entry.producer_id for entry in log.aborted_transactions(0, 48)] == [8] * 4
    assert dict(log.producers)[7].recent[-1].last_sequence == 23
    found = log.offset_for_time(FIRST_MS + 5)
    assert found is not None
    assert found.offset == 30
    log.close()
    assert disk.tree() == before


def test_stored_records_are_those_that_were_appended(disk: SimDisk) -> None:
    log = Log(disk, DIRECTORY, SETTINGS)
    expected = [_without_offsets(batch) for batch in batches()]
    assert [_without_offsets(data) for _, data in stored_batches(log)] == expected[1:]


def _without_offsets(batch: bytes | bytearray) -> list[tuple[object, ...]]:
    return [(record.timestamp, record.key, record.value, record.headers) for record in read_records(batch)]
