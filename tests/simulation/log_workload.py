"""Lives of a log under random work and power loss; one seed decides everything.

A life opens the log, compares it with the model, works until the power goes, and leaves the disk to the next one.
Flushes, upkeep and compaction are begun, run and ended at different moments, as threads would do it.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress
from pathlib import PurePath
from random import Random

from goqueue.errors import DiskFull, LogOffline
from goqueue.log.batches import check_batches
from goqueue.log.compaction import Compaction, Replacement
from goqueue.log.events import DamageFound
from goqueue.log.flush import Flush, Upkeep
from goqueue.log.log import Log
from goqueue.model.log_settings import Cleanup, LogSettings
from goqueue.records.builder import NewRecord, build_batch
from goqueue.records.compression import Codec
from goqueue.records.control import ControlType, build_marker
from goqueue.records.layout import patch, read_header
from goqueue.testing import Operation, PowerLoss, SimDisk
from goqueue.testing.sink import RecordingSink
from tests.simulation.log_model import LogModel

DIRECTORY = PurePath("data/topic-0")
_DAY_MS = 86_400_000


class LogWorld:
    """A disk, a log on it, and a model of what the log must hold."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.disk = SimDisk(seed)
        self.sink = RecordingSink()
        # A day is longer than a run: in most of them nobody waits long enough for tombstones and markers to go.
        self.model = LogModel(tombstones_may_go=seed % 4 == 0)
        self.settings = LogSettings(
            segment_bytes=1024,
            index_interval_bytes=self.random.choice([0, 100, 300]),
            cleanup=self.random.choice([Cleanup.DELETE, Cleanup.COMPACT, Cleanup.COMPACT_DELETE]),
            delete_retention_ms=0 if self.model.tombstones_may_go else _DAY_MS,
            min_cleanable_dirty_ratio=0.0,
            retention_ms=self.random.choice([-1, 500]),
        )
        self.now_ms = 1_000_000
        self.epoch = 0
        self.values = 0
        self.keys = self.random.choice([3, 8, 40])
        self.compacted_end = 0
        self.sequences: dict[int, int] = {}
        self.in_transaction: set[int] = set()
        self.truncation: int | None = None
        self.reset_to: int | None = None
        # Every seed has its own habits: a mix of all deeds at their usual rates would never try the odd ones often.
        self.deeds = list(self._usual_weights())
        self.weights = [weight * self.random.choice([0.1, 1, 1, 1, 8]) for weight in self._usual_weights().values()]
        self.operations_max = self.random.choice([20, 60, 120, 200])
        self.log: Log
        self.flush: tuple[Flush, bool] | None = None
        self.upkeep: tuple[Upkeep, bool] | None = None
        self.compaction: tuple[Compaction, list[Replacement]] | None = None

    def _usual_weights(self) -> dict[Callable[[], None], float]:
        return {
            self.append: 30,
            self.begin_flush: 10,
            self.run_flush: 10,
            self.end_flush: 10,
            self.begin_upkeep: 5,
            self.run_upkeep: 5,
            self.end_upkeep: 5,
            self.flush_all: 5,
            self.upkeep_all: 3,
            self.begin_compaction: 6,
            self.end_compaction: 6,
            self.log_checkpoint: 3,
            self.roll: 2,
            self.delete_before: 2,
            self.expire: 2,
            self.truncate: 1.5,
            self.reset: 0.2,
            self.break_disk: 0.3,
        }

    def run(self, lives: int) -> list[str]:
        """Live several times; return the violations of the first life that has any."""
        for _ in range(lives):
            faults = self.live()
            if faults:
                return faults
        return self.open(may_fail=False)

    def live(self) -> list[str]:
        """Open, compare, work until the power goes; return violations."""
        try:
            faults = self.open()
            if faults:
                return faults
            self.disk.crash_after(self.random.randrange(1, self.operations_max))
            for _ in range(60):
                self.step()
            self.disk.heal()
            faults = self.model.violations_live(self.log)
            if faults:
                return faults
            if self.random.random() < 0.5:
                self.close()
        except (PowerLoss, LogOffline):
            self.disk.heal()
        if self.random.random() < 0.2:
            self.disk.kill()
        else:
            self.disk.crash()
        return []

    def open(self, *, may_fail: bool = True) -> list[str]:
        """Open the log and compare; the power may go while recovery is at work, too."""
        if may_fail and self.random.random() < 0.3:
            self.disk.crash_after(self.random.randrange(1, 20))
        self.log = Log(self.disk, DIRECTORY, self.settings, self.sink)
        self.disk.heal()
        self.flush = self.upkeep = self.compaction = None
        faults = self._settle_cut() + [event.describe() for event in self.sink.of(DamageFound)]
        self.model.settle_on(self.log)
        self.sequences = {}
        self.in_transaction = {producer for producer, known in self.log.producers if known.transaction_start >= 0}
        return faults

    def _settle_cut(self) -> list[str]:
        """An unfinished truncation either happened or did not."""
        faults = self.model.violations_after_crash(self.log)
        if self.truncation is not None:
            if faults:
                self.model.truncate(self.truncation)
                faults = self.model.violations_after_crash(self.log)
            self.truncation = None
        if self.reset_to is not None:
            if faults:
                self.model.reset(self.reset_to)
                faults = self.model.violations_after_crash(self.log)
            self.reset_to = None
        return faults

    def step(self) -> None:
        """Do one random thing."""
        self.now_ms += self.random.randrange(40)
        self.random.choices(self.deeds, self.weights)[0]()

    def _draw_near_crash(self, chance: float) -> None:
        """Let the power go soon, now and then, where much changes on the disk."""
        if self.random.random() < chance:
            self.disk.crash_after(self.random.randrange(1, 25))

    def append(self) -> None:
        batches = [self._new_batch() for _ in range(self.random.choice([1, 1, 1, 2, 3]))]
        self.epoch += self.random.random() < 0.05
        joined = bytearray().join(batches)
        checked = check_batches(joined, bytes_max=100_000)
        # The power may go while the batches are being written: from here on they may be there or not.
        offset = self.log.end_offset
        for batch in checked:
            patch(batch.data, base_offset=offset, leader_epoch=self.epoch)
            header = read_header(batch.data)
            self.model.append(header, bytes(batch.data))
            offset = header.next_offset
        try:
            self.log.append(checked, leader_epoch=self.epoch)
        except DiskFull:
            # Refused for certain: none of it may ever be seen.
            del self.model.batches[-len(checked) :]

    def _new_batch(self) -> bytearray:
        kind = self.random.random()
        producer = self.random.randrange(3)
        if kind < 0.15 and self.in_transaction:
            producer = self.random.choice(sorted(self.in_transaction))
            self.in_transaction.discard(producer)
            control = self.random.choice([ControlType.ABORT, ControlType.COMMIT])
            return build_marker(control, producer_id=producer, producer_epoch=1, timestamp=self._time())
        records = [self._new_record() for _ in range(self.random.choice([1, 1, 2, 5]))]
        codec = self.random.choice([Codec.NONE, Codec.NONE, Codec.LZ4, Codec.ZSTD])
        if kind < 0.6:
            return build_batch(records, codec=codec)
        sequence = self.sequences.get(producer, 0)
        self.sequences[producer] = sequence + len(records)
        is_transactional = producer < 2
        if is_transactional:
            self.in_transaction.add(producer)
        return build_batch(
            records,
            codec=codec,
            producer_id=producer,
            producer_epoch=1,
            base_sequence=sequence,
            is_transactional=is_transactional,
        )

    def _new_record(self) -> NewRecord:
        self.values += 1
        key = None if self.random.random() < 0.2 else b"key-%d" % self.random.randrange(self.keys)
        value = None if key and self.random.random() < 0.15 else b"value-%d" % self.values
        return NewRecord(self._time(), key, value, [("n", b"%d" % self.values)])

    def _time(self) -> int:
        return self.now_ms - self.random.randrange(200)

    def begin_flush(self) -> None:
        if self.flush is None and (flush := self.log.flush()):
            self.flush = (flush, False)

    def run_flush(self) -> None:
        if self.flush is not None and not self.flush[1]:
            try:
                self.flush[0].run()
            except OSError as error:
                self.log.go_offline(str(error))
                raise LogOffline(str(error)) from error
            self.flush = (self.flush[0], True)

    def end_flush(self) -> None:
        if self.flush is not None and self.flush[1]:
            flush = self.flush[0]
            self.log.flushed(flush)
            self.model.durable_end = self.log.durable_end
            if flush.is_start_moved:
                self.model.start = flush.checkpoint.start_offset
            self.flush = None

    def flush_all(self) -> None:
        for deed in (self.run_flush, self.end_flush, self.begin_flush, self.run_flush, self.end_flush):
            deed()

    def upkeep_all(self) -> None:
        for deed in (self.run_upkeep, self.end_upkeep, self.begin_upkeep, self.run_upkeep, self.end_upkeep):
            deed()

    def begin_upkeep(self) -> None:
        if self.upkeep is None and (upkeep := self.log.upkeep()):
            self.upkeep = (upkeep, False)

    def run_upkeep(self) -> None:
        if self.upkeep is not None and not self.upkeep[1]:
            self._draw_near_crash(0.1)
            try:
                self.upkeep[0].run()
            except OSError as error:
                self.log.upkept(self.upkeep[0], error)
                self.upkeep = None
                return
            self.upkeep = (self.upkeep[0], True)

    def end_upkeep(self) -> None:
        if self.upkeep is not None and self.upkeep[1]:
            self.log.upkept(self.upkeep[0])
            self.upkeep = None

    def begin_compaction(self) -> None:
        compaction = None
        with suppress(OSError):
            compaction = self.log.compaction(self.now_ms)
        if self.compaction is None and compaction is not None:
            self.model.has_compacted = True
            self.compacted_end = self.log.durable_end
            try:
                self.compaction = (compaction, compaction.run())
            except OSError as error:
                self.log.compaction_failed(compaction, error)

    def end_compaction(self) -> None:
        if self.compaction is not None:
            self.log.compacted(*self.compaction)
            self.compaction = None

    def log_checkpoint(self) -> None:
        self.log.checkpoint()

    def roll(self) -> None:
        with suppress(DiskFull):
            self.log.roll()

    def break_disk(self) -> None:
        """Let one of the next operations of some kind fail, once."""
        error = self.random.choice([errno.EIO, errno.ENOSPC])
        operation: Operation = self.random.choice(["write", "sync", "sync_directory", "rename", "open", "truncate"])
        if (error, operation) in {(errno.ENOSPC, "sync"), (errno.ENOSPC, "sync_directory")}:
            error = errno.EIO
        self.disk.fail(error, operation=operation, after=self.random.randrange(6))

    def delete_before(self) -> None:
        offset = self.random.randint(self.log.start_offset, max(self.log.start_offset, self.log.durable_end))
        self.model.start_asked = max(self.model.start_asked, offset)
        self.log.delete_before(offset)

    def expire(self) -> None:
        self.log.expire(self.now_ms)
        self.model.start_asked = max(self.model.start_asked, self.log.start_offset)

    def truncate(self) -> None:
        if self.flush or self.upkeep or self.compaction:
            return
        # Nobody cuts back below what was safe enough to be compacted.
        lowest = max(self.log.start_offset, self.compacted_end)
        target = self.random.randint(lowest, max(lowest, self.log.end_offset))
        bases = [segment.base_offset for segment in self.log.segments if segment.base_offset >= lowest]
        if bases and self.random.random() < 0.5:
            target = self.random.choice(bases)
        if target >= self.log.end_offset:
            return
        self.truncation = target
        self._draw_near_crash(0.4)
        self.log.truncate(target)
        self.model.truncate(target)
        self.model.settle_on(self.log)
        self.truncation = None

    def reset(self) -> None:
        if self.flush or self.upkeep or self.compaction:
            return
        target = self.log.end_offset + self.random.randrange(10)
        self.reset_to = target
        self._draw_near_crash(0.4)
        self.log.reset(target)
        self.model.reset(target)
        self.reset_to = None

    def close(self) -> None:
        """End what is under way, then stop cleanly."""
        for deed in (self.run_flush, self.end_flush, self.run_upkeep, self.end_upkeep, self.end_compaction):
            deed()
        self.log.close()
        self.model.durable_end = self.model.end
        self.model.start = self.model.start_asked
