"""The runtime around a log: shared flushes, flush by interval, faults of the disk, upkeep, loading."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from contextlib import suppress
from pathlib import PurePath

import pytest

from goqueue.errors import LogOffline
from goqueue.log.batches import check_batches
from goqueue.log.events import UpkeepFailed, WentOffline
from goqueue.log.file_cache import FileCache
from goqueue.log.log import Log
from goqueue.model.log_settings import Cleanup, FlushPolicy, LogSettings
from goqueue.records.builder import NewRecord, build_batch
from goqueue.records.reader import read_records
from goqueue.runtime.flusher import Flusher
from goqueue.runtime.loading import open_logs
from goqueue.runtime.maintenance import LogMaintenance
from goqueue.testing import Fate, SimDisk, Simulation, simulate
from goqueue.testing.sink import RecordingSink

DIRECTORY = PurePath("data/topic-0")


def _append(log: Log, value: bytes = b"value", *, key: bytes | None = None, timestamp: int = 1000) -> int:
    batch = build_batch([NewRecord(timestamp, key, value)])
    return log.append(check_batches(batch, bytes_max=100_000), leader_epoch=0)[0].next_offset


def _count_syncs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    from goqueue.testing.disk import SimFile

    synced: list[str] = []
    real = SimFile.sync

    def sync(self: SimFile) -> None:
        synced.append(self._path.name)
        real(self)

    monkeypatch.setattr(SimFile, "sync", sync)
    return synced


def test_all_who_wait_at_a_time_share_one_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimDisk(0)

    async def main(simulation: Simulation) -> None:
        log = Log(disk, DIRECTORY, LogSettings())
        flusher = Flusher(log)
        synced = _count_syncs(monkeypatch)

        async def write() -> None:
            offset = _append(log)
            flusher.note_append()
            await flusher.durable(offset)

        await asyncio.gather(*(write() for _ in range(64)))
        assert log.durable_end == 64
        assert synced.count("00000000000000000000.log") <= 3

    simulate(main, 0)


def test_records_are_durable_within_the_interval_though_nothing_more_is_written() -> None:
    disk = SimDisk(0)

    async def main(simulation: Simulation) -> None:
        log = Log(disk, DIRECTORY, LogSettings(flush=FlushPolicy.INTERVAL))
        flusher = Flusher(log)
        _append(log)
        flusher.note_append()
        await asyncio.sleep(0.9)
        assert log.durable_end == 0
        await asyncio.sleep(0.2)
        assert log.durable_end == 1

    simulate(main, 0)
    disk.crash(Fate.NONE)
    assert Log(disk, DIRECTORY, LogSettings()).end_offset == 1


def test_whoever_asks_for_durability_does_not_wait_for_the_interval() -> None:
    async def main(simulation: Simulation) -> None:
        settings = LogSettings(flush=FlushPolicy.INTERVAL, flush_interval_ms=60_000)
        log = Log(SimDisk(0), DIRECTORY, settings)
        flusher = Flusher(log)
        offset = _append(log)
        flusher.note_append()
        async with asyncio.timeout(1):
            await flusher.durable(offset)

    simulate(main, 0)


def test_a_failed_flush_stops_the_log_and_is_never_tried_again() -> None:
    disk = SimDisk(0)
    sink = RecordingSink()

    async def main(simulation: Simulation) -> None:
        log = Log(disk, DIRECTORY, LogSettings(), sink)
        flusher = Flusher(log)
        first = _append(log, b"durable")
        flusher.note_append()
        await flusher.durable(first)
        disk.fail(errno.EIO, operation="sync", path="*.log")
        waiters = []
        for _ in range(3):
            offset = _append(log)
            flusher.note_append()
            waiters.append(flusher.durable(offset))
        outcomes = await asyncio.gather(*waiters, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [LogOffline] * 3
        assert log.durable_end == first
        with pytest.raises(LogOffline):
            _append(log)
        with pytest.raises(LogOffline):
            await flusher.durable(first + 1)
        assert log.flush() is None
        assert read_records(log.read(0, bytes_max=1, end_offset=log.durable_end))[0].value == b"durable"

    simulate(main, 0)
    assert len(sink.of(WentOffline)) == 1
    disk.crash()
    log = Log(disk, DIRECTORY, LogSettings())
    assert log.end_offset >= 1


def test_drain_leaves_nothing_under_way() -> None:
    async def main(simulation: Simulation) -> None:
        log = Log(SimDisk(0), DIRECTORY, LogSettings(flush=FlushPolicy.INTERVAL))
        flusher = Flusher(log)
        for _ in range(5):
            _append(log)
            flusher.note_append()
        await flusher.drain()
        assert log.durable_end == 5
        log.close()

    simulate(main, 0)


def test_a_cancelled_waiter_disturbs_nobody() -> None:
    async def main(simulation: Simulation) -> None:
        log = Log(SimDisk(0), DIRECTORY, LogSettings())
        flusher = Flusher(log)
        offset = _append(log)
        flusher.note_append()
        impatient = asyncio.ensure_future(flusher.durable(offset))
        patient = asyncio.ensure_future(flusher.durable(offset))
        await asyncio.sleep(0)
        impatient.cancel()
        await patient
        assert log.durable_end == offset
        with suppress(asyncio.CancelledError):
            await impatient

    for seed in range(20):
        simulate(main, seed)


async def _tended(simulation: Simulation, flusher: Flusher, seconds: float) -> None:
    maintenance = asyncio.create_task(LogMaintenance(lambda: [flusher], simulation.clock).run())
    await asyncio.sleep(seconds)
    maintenance.cancel()
    await asyncio.gather(maintenance, return_exceptions=True)


def test_maintenance_expires_old_segments_and_removes_their_files() -> None:
    disk = SimDisk(0)

    async def main(simulation: Simulation) -> None:
        log = Log(disk, DIRECTORY, LogSettings(segment_bytes=1024, retention_ms=5_000))
        flusher = Flusher(log)
        for _ in range(40):
            offset = _append(log, timestamp=simulation.clock.now_ms())
            flusher.note_append()
        await flusher.durable(offset)
        files = len(disk.list_directory(DIRECTORY))
        await _tended(simulation, flusher, 3)
        assert log.start_offset == 0
        await asyncio.sleep(5)
        await _tended(simulation, flusher, 5)
        assert log.start_offset == 40
        assert len(disk.list_directory(DIRECTORY)) < files

    simulate(main, 0)
    disk.crash(Fate.NONE)
    assert Log(disk, DIRECTORY, LogSettings()).start_offset == 40


def test_maintenance_compacts_while_producers_write() -> None:
    disk = SimDisk(0)

    async def main(simulation: Simulation) -> None:
        settings = LogSettings(segment_bytes=1024, cleanup=Cleanup.COMPACT)
        log = Log(disk, DIRECTORY, settings)
        flusher = Flusher(log)
        maintenance = asyncio.create_task(LogMaintenance(lambda: [flusher], simulation.clock).run())
        for number in range(200):
            offset = _append(log, b"%d" % number, key=b"key-%d" % (number % 4), timestamp=simulation.clock.now_ms())
            flusher.note_append()
            await flusher.durable(offset)
            await asyncio.sleep(0.1)
        maintenance.cancel()
        await asyncio.gather(maintenance, return_exceptions=True)
        assert log.segments.size_bytes < 4096
        assert log.end_offset == 200

    simulate(main, 0)


def test_maintenance_survives_a_disk_that_refuses_upkeep() -> None:
    disk = SimDisk(0)
    sink = RecordingSink()

    async def main(simulation: Simulation) -> None:
        log = Log(disk, DIRECTORY, LogSettings(segment_bytes=1024), sink)
        flusher = Flusher(log)
        disk.fail(errno.ENOSPC, operation="write", path="*.index.tmp", times=2)
        for _ in range(30):
            offset = _append(log)
            flusher.note_append()
        await flusher.durable(offset)
        await _tended(simulation, flusher, 5)
        assert all(segment.covered == segment.size for segment in log.segments.sealed)
        assert not log.fault

    simulate(main, 0)
    assert sink.of(UpkeepFailed)


def test_checkpoints_bound_what_must_be_read_after_a_kill() -> None:
    disk = SimDisk(0)

    async def main(simulation: Simulation) -> None:
        log = Log(disk, DIRECTORY, LogSettings(checkpoint_interval_ms=1000))
        flusher = Flusher(log)
        for _ in range(50):
            offset = _append(log)
            flusher.note_append()
        await flusher.durable(offset)
        await _tended(simulation, flusher, 4)
        assert log.segments.active.covered == log.segments.active.size

    simulate(main, 0)


def test_a_log_that_cannot_be_opened_does_not_keep_the_others_from_it() -> None:
    disk = SimDisk(0)
    wanted = [(PurePath(f"data/topic-{number}"), LogSettings()) for number in range(10)]
    for directory, settings in wanted:
        Log(disk, directory, settings).close()
    disk.fail(errno.EIO, operation="list", path="data/topic-3", times=None)

    loaded = asyncio.run(open_logs(disk, wanted, RecordingSink(), FileCache(disk)))

    assert sorted(loaded.faults) == [PurePath("data/topic-3")]
    assert len(loaded.logs) == 9


def test_a_log_that_nobody_writes_to_gives_its_files_back() -> None:
    async def main(simulation: Simulation) -> None:
        log = Log(SimDisk(0), DIRECTORY, LogSettings())
        flusher = Flusher(log)
        offset = _append(log)
        flusher.note_append()
        await flusher.durable(offset)
        assert log.segments.active.file is not None
        await _tended(simulation, flusher, 3)
        assert log.segments.active.file is None
        offset = _append(log)
        flusher.note_append()
        await flusher.durable(offset)
        assert len(read_records(log.read(1, bytes_max=1))) == 1

    simulate(main, 0)


def test_failing_log_does_not_stop_maintenance_of_others() -> None:
    disk = SimDisk(0)
    sink = RecordingSink()

    async def main(simulation: Simulation) -> None:
        settings = LogSettings(segment_bytes=1024, retention_ms=1000)
        sick = Flusher(Log(disk, PurePath("data/sick"), settings, sink))
        well = Flusher(Log(disk, PurePath("data/well"), settings, sink))
        for flusher in (sick, well):
            for _ in range(30):
                offset = _append(flusher.log, timestamp=simulation.clock.now_ms())
                flusher.note_append()
            await flusher.durable(offset)
        disk.fail(errno.EIO, operation="open", path="data/sick/*.log", times=None)
        await asyncio.sleep(2)
        maintenance = LogMaintenance(lambda: [sick, well], simulation.clock)
        tending = asyncio.create_task(maintenance.run())
        await asyncio.sleep(5)
        maintenance.stop()
        await tending
        assert sick.log.fault
        assert well.log.start_offset == 30

    simulate(main, 0)


@pytest.mark.parametrize("seed", range(30))
def test_a_log_can_be_closed_after_its_upkeep_was_cancelled(seed: int) -> None:
    disk = SimDisk(seed)

    async def main(simulation: Simulation) -> None:
        settings = LogSettings(segment_bytes=1024, cleanup=Cleanup.COMPACT, min_cleanable_dirty_ratio=0.0)
        log = Log(disk, DIRECTORY, settings)
        flusher = Flusher(log)
        for number in range(60):
            offset = _append(log, b"%d" % number, key=b"key")
            flusher.note_append()
        await flusher.durable(offset)
        maintenance = asyncio.create_task(LogMaintenance(lambda: [flusher], simulation.clock).run())
        await asyncio.sleep(simulation.entropy.fraction() * 0.01)
        maintenance.cancel()
        with pytest.raises(asyncio.CancelledError):
            await maintenance
        await flusher.drain()
        log.close()

    simulate(main, seed)
    assert Log(disk, DIRECTORY, LogSettings()).end_offset == 60


def test_records_written_during_a_flush_do_not_wait_for_another_whole_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(simulation: Simulation) -> None:
        log = Log(SimDisk(0), DIRECTORY, LogSettings(flush=FlushPolicy.INTERVAL))
        flusher = Flusher(log)
        real = simulation.loop.run_in_executor

        def slowly(executor: object, function: Callable[[], None]) -> asyncio.Future[None]:
            async def run() -> None:
                await asyncio.sleep(0.8)
                await real(None, function)

            return asyncio.ensure_future(run())

        monkeypatch.setattr(simulation.loop, "run_in_executor", slowly)
        _append(log)
        flusher.note_append()
        await asyncio.sleep(1.01)
        _append(log)
        flusher.note_append()
        await asyncio.sleep(1.9)
        assert log.durable_end == 2

    simulate(main, 0)
