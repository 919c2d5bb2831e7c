"""The maintenance and what keeps records from expiring: a look may fail or take long, and upkeep goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import PurePath

from goqueue.errors import Corrupt
from goqueue.log.batches import NewBatch, check_batches
from goqueue.log.events import DamageFound, WentOffline
from goqueue.log.log import Log
from goqueue.model.log_settings import Cleanup, LogSettings
from goqueue.records.builder import NewRecord, build_batch
from goqueue.runtime.flusher import Flusher
from goqueue.runtime.maintenance import LogMaintenance
from goqueue.seams.disk import remove_tree
from goqueue.testing import RecordingSink, SimDisk, Simulation, simulate

DIRECTORY = PurePath("data/topic-0")


def _batch(simulation: Simulation) -> Sequence[NewBatch]:
    return check_batches(build_batch([NewRecord(simulation.clock.now_ms(), None, b"value")]), bytes_max=1000)


class _Keeper:
    """Keeps records from an offset on, once it has looked; all looks fail but the last, which has no end of its own."""

    def __init__(self, looks: int) -> None:
        self.left = looks
        self.stopped = asyncio.Event()

    async def look(self) -> None:
        self.left -= 1
        if self.left > 0:
            raise Corrupt("one offset cannot be read")
        await self.stopped.wait()

    def expires_before(self, log: Log) -> int | None:
        return 20

    def stop(self) -> None:
        self.stopped.set()


def test_a_look_at_what_is_kept_that_fails_is_reported_and_logs_are_tended_all_the_same() -> None:
    disk = SimDisk(0)
    reported: list[str] = []

    async def main(simulation: Simulation) -> None:
        simulation.loop.set_exception_handler(lambda _, context: reported.append(str(context["exception"])))
        flusher = Flusher(Log(disk, DIRECTORY, LogSettings(segment_bytes=1024, retention_ms=1000)))
        for _ in range(30):
            offset = flusher.log.append(_batch(simulation), leader_epoch=0)[0].next_offset
            flusher.note_append()
        await flusher.durable(offset)
        await asyncio.sleep(5)
        maintenance = LogMaintenance(lambda: [flusher], simulation.clock, holds=_Keeper(4))
        tending = asyncio.create_task(maintenance.run())
        await asyncio.sleep(10)
        assert 0 < flusher.log.start_offset <= 20
        assert reported == ["one offset cannot be read"] * 3
        # The look that is under way would never end.
        assert not tending.done()
        maintenance.stop()
        async with asyncio.timeout(1):
            await tending

    simulate(main, 0)


def test_damage_of_logs_that_nobody_uses_is_found_within_rounds_and_others_stay_asleep() -> None:
    disk = SimDisk(0)
    sink = RecordingSink()

    async def main(simulation: Simulation) -> None:
        flushers = []
        for number in range(50):
            path = PurePath(f"data/topic-{number}")
            log = Log(disk, path, LogSettings(retention_ms=-1))
            log.append(_batch(simulation), leader_epoch=0)
            log.close()
            flushers.append(
                Flusher(Log(disk, path, LogSettings(retention_ms=-1), sink, closed_state=log.closed_state()))
            )
        remove_tree(disk, PurePath("data/topic-7"))
        disk.write_file(PurePath("data/topic-48/00000000000000000000.log"), b"")
        maintenance = LogMaintenance(lambda: flushers, simulation.clock)
        tending = asyncio.create_task(maintenance.run())
        await asyncio.sleep(5)
        assert [number for number, flusher in enumerate(flushers) if flusher.log.obstacle] == [7]
        assert [event.directory for event in sink.of(WentOffline)] == ["data/topic-7"]
        # This one can be opened: it goes on after the record that is gone.
        assert [event.directory for event in sink.of(DamageFound)] == ["data/topic-48"]
        assert [number for number, flusher in enumerate(flushers) if not flusher.log.is_unopened] == [48]
        maintenance.stop()
        await tending

    simulate(main, 0)


def test_others_have_a_turn_after_each_log_that_upkeep_has_to_open() -> None:
    disk = SimDisk(0)
    settings = LogSettings(segment_bytes=1024, cleanup=Cleanup.COMPACT, min_compaction_lag_ms=10**9)

    async def main(simulation: Simulation) -> None:
        flushers = []
        for number in range(40):
            log = Log(disk, PurePath(f"data/topic-{number}"), settings)
            for _ in range(30):
                log.append(_batch(simulation), leader_epoch=0)
            log.close()
            flushers.append(Flusher(Log(disk, log.directory, settings, closed_state=log.closed_state())))
        maintenance = LogMaintenance(lambda: flushers, simulation.clock)
        woken: list[int] = []
        seen: list[int] = []

        def note() -> None:
            woken.append(len(woken))
            simulation.loop.call_soon(lambda: seen.append(len(woken)))

        for flusher in flushers:
            flusher.log.on_open = note
        tending = asyncio.create_task(maintenance.run())
        await asyncio.sleep(10)
        # The order of callbacks is left to chance.
        assert len(set(seen)) > len(flushers) / 2
        maintenance.stop()
        await tending

    simulate(main, 0)
