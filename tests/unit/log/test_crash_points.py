"""One life of a log with everything in it, cut short in the middle of each of its disk operations, with every fate."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import pytest

from goqueue.log.batches import check_batches
from goqueue.log.events import DamageFound
from goqueue.log.log import Log
from goqueue.log.verify import verify
from goqueue.log.verify_segment import Severity
from goqueue.model.log_settings import Cleanup
from goqueue.records.layout import patch, read_header
from goqueue.testing import Fate, PowerLoss, RecordingSink, SimDisk
from tests.simulation.log_model import LogModel
from tests.unit.log.log_kit import (
    DIRECTORY,
    NOW_MS,
    SETTINGS,
    abort,
    append,
    batch,
    commit,
    flush,
    in_transaction,
    keyed,
    open_log,
    upkeep,
)

COMPACTING = replace(SETTINGS, cleanup=Cleanup.COMPACT, min_cleanable_dirty_ratio=0)


class Life:
    """A log that does a fixed list of things, and a model that notes each before it may happen."""

    def __init__(self, disk: SimDisk) -> None:
        self.disk = disk
        self.model = LogModel()
        self.truncate_to: int | None = None
        self.reset_to: int | None = None
        self.log: Log

    def run(self) -> None:
        """Live once through: rolls, flushes, index files, deletion, compaction with its swap, truncation, reset."""
        self.log = open_log(self.disk, COMPACTING)
        self.append(keyed((b"k", b"replaced"), (b"a", b"kept")), batch(b"p", key=b"p", producer=1, sequence=0))
        self.flush()
        self.log.roll()
        self.append(in_transaction(b"aborted", key=b"k", producer=2, sequence=0), abort(2))
        self.append(keyed((b"k", b"latest"), (b"a", None)))
        self.log.roll()
        self.append(in_transaction(b"committed", key=b"t", producer=2, sequence=1), commit(2))
        self.flush()
        upkeep(self.log)
        self.log.checkpoint()
        upkeep(self.log)
        self.compact()
        self.append(batch(b"tail"))
        self.log.checkpoint()
        self.flush()
        upkeep(self.log)
        self.append(batch(b"to be cut"), batch(b"to be cut as well"))
        self.flush()
        self.truncate(self.log.end_offset - 1)
        self.delete_before(3)
        self.append(batch(b"more"))
        self.flush()
        upkeep(self.log)
        self.reset(self.log.end_offset + 5)
        self.append(batch(b"after the reset"))
        self.flush()
        self.log.close()

    def append(self, *batches: bytearray) -> None:
        offset = self.log.end_offset
        for each in check_batches(bytearray().join(batches), bytes_max=10_000):
            patch(each.data, base_offset=offset, leader_epoch=0)
            header = read_header(each.data)
            self.model.append(header, bytes(each.data))
            offset = header.next_offset
        append(self.log, *batches)

    def flush(self) -> None:
        flush(self.log)
        self.model.durable_end = self.log.durable_end
        self.model.start = self.log.start_offset

    def compact(self) -> None:
        work = self.log.compaction(NOW_MS)
        assert work is not None
        self.model.has_compacted = True
        self.log.compacted(work, work.run())
        upkeep(self.log)

    def delete_before(self, offset: int) -> None:
        self.model.start_asked = offset
        self.log.delete_before(offset)

    def truncate(self, offset: int) -> None:
        self.truncate_to = offset
        self.log.truncate(offset)
        self.model.truncate(offset)
        self.model.durable_end = self.log.durable_end
        self.truncate_to = None

    def reset(self, offset: int) -> None:
        self.reset_to = offset
        self.log.reset(offset)
        self.model.reset(offset)
        self.reset_to = None

    def violations(self, log: Log) -> list[str]:
        """Compare a log that was just opened with what was promised; a cut back happened whole, or not at all."""
        faults = self.model.violations_after_crash(log)
        if faults and self.truncate_to is not None:
            self.model.truncate(self.truncate_to)
            faults = self.model.violations_after_crash(log)
        if faults and self.reset_to is not None:
            self.model.reset(self.reset_to)
            faults = self.model.violations_after_crash(log)
        return faults


def operation_count() -> int:
    """Return how many disk operations a whole life takes."""
    disk = SimDisk(0)
    Life(disk).run()
    return disk.operations


def interrupted_lives() -> Iterator[tuple[int, Life]]:
    """Yield a life for each operation in which the power can go; the disk is without power."""
    for operation in range(1, operation_count() + 1):
        disk = SimDisk(operation)
        life = Life(disk)
        disk.crash_after(operation)
        with suppress(PowerLoss):
            life.run()
        yield operation, life


def test_whole_life_keeps_its_promises() -> None:
    disk = SimDisk(0)
    life = Life(disk)
    life.run()
    assert life.violations(open_log(disk, COMPACTING)) == []
    assert disk.operations > 100


@pytest.mark.parametrize("fate", [*Fate, None], ids=lambda fate: fate.name if fate else "KILL")
def test_power_loss_in_any_operation_costs_nothing_that_was_promised(fate: Fate | None) -> None:
    for operation, life in interrupted_lives():
        where = f"operation {operation}"
        if fate is None:
            life.disk.kill()
        else:
            life.disk.crash(fate)
        sink = RecordingSink()
        log = open_log(life.disk, COMPACTING, sink)
        assert life.violations(log) == [], where
        assert sink.of(DamageFound) == [], where
        log.close()
        damages = [found for found in verify(life.disk, DIRECTORY) if found.severity is Severity.DAMAGE]
        assert damages == [], where


def test_power_loss_while_opening_after_a_power_loss_costs_nothing_either() -> None:
    for operation, life in interrupted_lives():
        life.disk.crash(Fate.SOME)
        for again in range(1, 4):
            disk = life.disk.clone(again)
            disk.crash_after(again)
            with suppress(PowerLoss):
                open_log(disk, COMPACTING)
            disk.crash(Fate.EARLIER)
            log = open_log(disk, COMPACTING)
            assert life.violations(log) == [], f"operation {operation}, then {again}"
