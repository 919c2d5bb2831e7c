"""A broker among faults: power loss, kills, full and failing disks, cut connections; what it promised holds."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import PurePath

import pytest

from goqueue.broker.topics import service as topics
from goqueue.errors import LogOffline
from goqueue.log.batches import check_batches
from goqueue.log.events import DamageFound
from goqueue.log.log import Log
from goqueue.model.log_settings import LogSettings
from goqueue.records.builder import NewRecord, build_batch
from goqueue.testing import RecordingSink, SimDisk
from tests.simulation.broker_world import BrokerWorld

LIVES = 4


@pytest.fixture(autouse=True)
def _small_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the catalogue be rolled and compacted as soon as there is anything to it."""
    log = replace(
        topics._CATALOG_SETTINGS.log, segment_bytes=1024, min_cleanable_dirty_ratio=0.0, delete_retention_ms=0
    )
    monkeypatch.setattr(topics, "_CATALOG_SETTINGS", replace(topics._CATALOG_SETTINGS, log=log))


@pytest.mark.seeds(60, long_count=5_000)
def test_a_broker_keeps_its_promises_over_many_lives(seed: int) -> None:
    assert BrokerWorld(seed).run(LIVES) == []


@pytest.mark.parametrize("seed", range(10))
def test_a_sync_that_failed_elsewhere_is_not_taken_for_durable(seed: int) -> None:
    """A disk tells of lost pages once. If an append is told, the flush under way is not, and must not say otherwise."""
    disk, sink = SimDisk(seed), RecordingSink()
    log = Log(disk, PurePath("data/t-0"), LogSettings())
    data = check_batches(build_batch([NewRecord(1000, None, b"x")]), bytes_max=1000)
    log.append(data, leader_epoch=0)
    flush = log.flush()
    assert flush is not None
    disk.fail(errno.ENOSPC, operation="write", path="*.log")
    disk.fail(errno.EIO, operation="sync", path="*.log")
    with pytest.raises(LogOffline):
        log.append(data, leader_epoch=0)
    flush.run()
    log.flushed(flush)
    disk.crash()
    Log(disk, PurePath("data/t-0"), LogSettings(), sink)
    assert sink.of(DamageFound) == []
