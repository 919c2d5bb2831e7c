"""A maintenance that is told to stop does not bring a long compaction to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from goqueue.log.batches import own_batch
from goqueue.log.compaction import Compaction
from goqueue.log.events import Compacted, UpkeepFailed
from goqueue.log.log import Log
from goqueue.model.log_settings import Cleanup, LogSettings
from goqueue.records.builder import NewRecord, build_batch
from goqueue.runtime.flusher import Flusher
from goqueue.runtime.maintenance import LogMaintenance
from goqueue.seams.clock import SystemClock
from goqueue.seams.cooperative_yield import Pause
from goqueue.seams.disk import RealDisk
from goqueue.testing import RecordingSink

SETTINGS = LogSettings(cleanup=Cleanup.COMPACT, segment_bytes=64 * 1024, min_cleanable_dirty_ratio=0.0)
End = Callable[[LogMaintenance, Flusher], Awaitable[None]]


async def _stop(maintenance: LogMaintenance, flusher: Flusher) -> None:
    del flusher
    maintenance.stop()


async def _leave(maintenance: LogMaintenance, flusher: Flusher) -> None:
    await maintenance.leave(flusher)


def _filled(directory: Path, sink: RecordingSink) -> Log:
    log = Log(RealDisk(), directory, SETTINGS, sink)
    for number in range(2000):
        log.append([own_batch(build_batch([NewRecord(1, b"k%d" % (number % 100), b"v" * 80)]))], leader_epoch=0)
    flush = log.flush()
    assert flush is not None
    flush.run()
    log.flushed(flush)
    while (upkeep := log.upkeep()) is not None:
        upkeep.run()
        log.upkept(upkeep)
    return log


@pytest.mark.parametrize("end", [_stop, _leave])
def test_a_compaction_is_given_up_and_leaves_nothing_behind(
    end: End, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = RecordingSink()
    real = Compaction._latest_offsets

    async def main() -> None:
        loop = asyncio.get_running_loop()
        compacting = asyncio.Event()

        def latest_offsets(self: Compaction, breathe: Pause) -> dict[bytes, int]:
            loop.call_soon_threadsafe(compacting.set)
            # For ever, unless somebody says that it is enough.
            while real(self, breathe):
                pass
            return {}

        monkeypatch.setattr(Compaction, "_latest_offsets", latest_offsets)
        log = _filled(tmp_path / "log", sink)
        with ThreadPoolExecutor(2) as threads:
            flusher = Flusher(log, threads)
            maintenance = LogMaintenance(lambda: [flusher], SystemClock(), threads)
            tending = asyncio.create_task(maintenance.run())
            await compacting.wait()
            async with asyncio.timeout(30):
                await end(maintenance, flusher)
                maintenance.stop()
                await tending
            await flusher.drain()
            log.close()

    asyncio.run(main())
    assert [event for event in sink.events if isinstance(event, Compacted | UpkeepFailed)] == []
