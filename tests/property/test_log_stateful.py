"""The log against a list of batches: no crashes, but everything that an owner may do, in any order."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from goqueue.errors import OffsetOutOfRange
from goqueue.log import names
from goqueue.log.batches import check_batches
from goqueue.log.events import DamageFound
from goqueue.model.log_settings import LogSettings
from goqueue.records.builder import NewRecord, build_batch
from goqueue.records.compression import Codec
from goqueue.testing import RecordingSink, SimDisk
from tests.simulation.log_model import LogModel
from tests.unit.log.log_kit import NOW_MS, abort, commit, flush, in_transaction, open_log, remove_files, upkeep

SIZES = st.lists(st.integers(0, 200), min_size=1, max_size=3)
TIMES = st.integers(-1, 60)


class LogMachine(RuleBasedStateMachine):
    """Does the same to a log and to a model of it."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = SimDisk(0)
        self.sink = RecordingSink()
        self.model = LogModel()
        self.sequence = 0
        self.epoch = 0

    @initialize(interval=st.sampled_from([0, 150, 4096]), retention=st.sampled_from([-1, 20]))
    def open(self, interval: int, retention: int) -> None:
        """Begin with an empty log."""
        self.settings = LogSettings(segment_bytes=1024, index_interval_bytes=interval, retention_ms=retention)
        self.log = open_log(self.disk, self.settings, self.sink)
        self.first_base = 0

    @rule(sizes=SIZES, time=TIMES, codec=st.sampled_from([Codec.NONE, Codec.LZ4]), epoch_step=st.integers(0, 1))
    def append(self, sizes: list[int], time: int, codec: Codec, epoch_step: int) -> None:
        """Append one batch of plain records."""
        self.epoch += epoch_step
        timestamps = [time if time < 0 else NOW_MS + time + number for number in range(len(sizes))]
        records = [NewRecord(at, None, b"x" * size) for at, size in zip(timestamps, sizes, strict=True)]
        self.store(build_batch(records, codec=codec))

    @rule(producer=st.integers(1, 2), count=st.integers(1, 2))
    def write_in_transaction(self, producer: int, count: int) -> None:
        """Append several batches of a transaction with one call."""
        batches = []
        for _ in range(count):
            batches.append(in_transaction(b"t", producer=producer, sequence=self.sequence))
            self.sequence += 1
        self.store(*batches)

    @rule(producer=st.integers(1, 2), is_committed=st.booleans())
    def end_transaction(self, producer: int, is_committed: bool) -> None:
        """Append a marker."""
        self.store(commit(producer) if is_committed else abort(producer))

    def store(self, *batches: bytearray) -> None:
        """Append to both."""
        joined = bytearray().join(batches)
        checked = check_batches(joined, bytes_max=10_000)
        for header, batch in zip(self.log.append(checked, leader_epoch=self.epoch), checked, strict=True):
            self.model.append(header, bytes(batch.data))

    @rule()
    def flush(self) -> None:
        """Make all of it durable."""
        flush(self.log)
        self.model.durable_end = self.model.end
        self.model.start = self.model.start_asked
        assert self.log.durable_end == self.log.end_offset

    @rule()
    def upkeep(self) -> None:
        """Do what can wait."""
        upkeep(self.log)

    @rule()
    def roll(self) -> None:
        """Start a new segment."""
        self.log.roll()

    @rule()
    def checkpoint(self) -> None:
        """Ask for an index of the active segment."""
        self.log.checkpoint()

    @rule(part=st.floats(0, 1))
    def delete_before(self, part: float) -> None:
        """Delete the older part of the records."""
        offset = self.log.start_offset + int(part * (self.log.durable_end - self.log.start_offset))
        with suppress(OffsetOutOfRange):
            self.log.delete_before(offset)
            self.model.start_asked = offset

    @rule(age=st.integers(0, 100))
    def expire(self, age: int) -> None:
        """Let old segments go."""
        before = self.log.start_offset
        self.log.expire(NOW_MS + age)
        assert before <= self.log.start_offset <= self.log.durable_end or self.log.start_offset == before
        self.model.start_asked = self.log.start_offset

    @rule(part=st.floats(0, 1))
    def truncate(self, part: float) -> None:
        """Cut the newer part of the records off."""
        offset = self.log.start_offset + int(part * (self.log.end_offset - self.log.start_offset))
        if offset < self.log.end_offset:
            self.log.truncate(offset)
            self.model.truncate(offset)
            self.settle()

    @rule(step=st.integers(0, 5))
    def reset(self, step: int) -> None:
        """Empty the log."""
        self.log.reset(self.log.end_offset + step)
        self.model.reset(self.model.end + step)
        self.first_base = self.log.start_offset

    @rule(keeps_indexes=st.booleans())
    def close_and_open(self, keeps_indexes: bool) -> None:
        """Stop cleanly and start again, perhaps with the batches alone to go by."""
        has_all_segments = self.log.segments.first.base_offset == self.first_base
        self.log.close()
        # What a producer did in segments that are gone is known from the index files alone.
        if not keeps_indexes and has_all_segments:
            remove_files(self.disk, names.INDEX)
        self.model.start = self.model.start_asked
        self.start_again()

    @rule()
    def kill_and_open(self) -> None:
        """End the process: what was written is there, but an unflushed deletion may be forgotten."""
        self.disk.kill()
        self.start_again()

    def start_again(self) -> None:
        """Open, compare, and take over what was never promised."""
        self.log = open_log(self.disk, self.settings, self.sink)
        assert self.model.violations_after_crash(self.log) == []
        if self.model.batches:
            assert self.log.end_offset == self.model.end
        self.settle()

    def settle(self) -> None:
        """Take over what the log decided within what it may."""
        self.model.settle_on(self.log)

    @invariant()
    def log_is_what_was_appended(self) -> None:
        """Compare everything that can be read."""
        assert self.model.violations_live(self.log) == []
        assert self.sink.of(DamageFound) == []
        assert self.log.start_offset <= self.log.end_offset
        assert self.log.durable_end <= self.log.end_offset


TestLog = LogMachine.TestCase
TestLog.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
