"""The producer table against a model that remembers every batch and searches all of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from goqueue.machines.producer import Duplicate, Fresh, ProducerTable, Refused
from goqueue.records.control import ControlType
from goqueue.records.layout import CONTROL_BIT, MAGIC, TRANSACTIONAL_BIT, BatchHeader

SEQUENCE_END = 2**31
PRODUCERS = st.integers(-1, 2)
STEPS = st.integers(-7, 2)
EPOCH_STEPS = st.integers(-1, 1)


@dataclass
class Known:
    """What the model has of one producer: all its batches of the current epoch, and its open transaction."""

    epoch: int
    quiet_since: int | None = None
    batches: list[BatchHeader] = field(default_factory=list)
    opened: int | None = None
    last_offset: int = -1


class ProducerTableMachine(RuleBasedStateMachine):
    """Offers batches that fit, repeat, skip or come from an old epoch, and applies those that are fresh."""

    def __init__(self) -> None:
        super().__init__()
        self.table = ProducerTable()
        self.known: dict[int, Known] = {}
        self.offset = 0
        self.now = 1000

    @rule(
        producer=PRODUCERS, epoch_step=st.integers(-1, 1), step=STEPS, count=st.integers(1, 3), near_end=st.booleans()
    )
    def write(self, producer: int, epoch_step: int, step: int, count: int, near_end: bool) -> None:
        """Offer a batch whose sequence lies a few steps from what is due."""
        known = self.known.get(producer)
        epoch = max(0, (known.epoch if known else 0) + epoch_step)
        due = 0 if known is None or not known.batches else known.batches[-1].last_sequence + 1
        base = SEQUENCE_END - 3 if known is None and near_end else due
        sequence = (base + step) % SEQUENCE_END if step > -7 else 0
        self.offer(self.header(producer, epoch, sequence, count, is_transactional=producer == 0))

    @rule(producer=PRODUCERS, back=st.integers(1, 8))
    def repeat(self, producer: int, back: int) -> None:
        """Offer one of the last batches again."""
        known = self.known.get(producer)
        if known is not None and len(known.batches) >= back:
            self.offer(known.batches[-back]._replace(base_offset=self.offset))

    @rule(producer=st.integers(0, 2), epoch_step=st.integers(0, 1), control=st.sampled_from(ControlType))
    def end(self, producer: int, epoch_step: int, control: ControlType) -> None:
        """Write a marker, which may raise the epoch."""
        known = self.known.get(producer)
        header = self.header(producer, (known.epoch if known else 0) + epoch_step, -1, 1, is_transactional=True)
        header = header._replace(attributes=header.attributes | CONTROL_BIT)
        assert self.table.decide(header) == Fresh()
        aborted = self.table.apply(header, control)
        known = self.note(header)
        opened, known.opened = known.opened, None
        self.offset += 1
        if opened is None or control is ControlType.COMMIT:
            assert aborted is None
        else:
            assert aborted is not None
            stable = min((each.opened for each in self.known.values() if each.opened is not None), default=self.offset)
            assert aborted == (producer, opened, header.base_offset, stable)

    @rule(passed=st.integers(0, 30), idle_ms=st.integers(1, 40))
    def expire(self, passed: int, idle_ms: int) -> None:
        """Forget who has been quiet for long, counted from the first look that found them quiet."""
        self.now += passed
        idle = []
        for producer, known in self.known.items():
            if known.quiet_since is None:
                known.quiet_since = self.now
            elif known.opened is None and self.now - known.quiet_since >= idle_ms:
                idle.append(producer)
        assert self.table.expire(self.now, idle_ms) == len(idle)
        for producer in idle:
            del self.known[producer]

    @rule()
    def restart(self) -> None:
        """Go on with what the bytes of the table tell."""
        self.table = ProducerTable.decode(self.table.encode())
        for known in self.known.values():
            known.quiet_since = None

    def header(self, producer: int, epoch: int, sequence: int, count: int, *, is_transactional: bool) -> BatchHeader:
        """Return the header of a batch at the end of the log."""
        self.now += 3
        has_producer = producer >= 0
        return BatchHeader(
            base_offset=self.offset,
            length=49,
            leader_epoch=0,
            magic=MAGIC,
            crc=0,
            attributes=TRANSACTIONAL_BIT if is_transactional else 0,
            last_offset_delta=count - 1,
            base_timestamp=self.now,
            max_timestamp=self.now,
            producer_id=producer,
            producer_epoch=epoch if has_producer else -1,
            base_sequence=sequence if has_producer else -1,
            record_count=count,
        )

    def offer(self, header: BatchHeader) -> None:
        """Compare the verdict with the model's, and append what is fresh."""
        verdict = self.table.decide(header)
        told = verdict.error.code if isinstance(verdict, Refused) else verdict
        assert told == self.expected(header)
        if isinstance(verdict, Fresh):
            self.table.apply(header)
            if header.producer_id >= 0:
                known = self.note(header)
                known.batches.append(header)
                if header.is_transactional and known.opened is None:
                    known.opened = header.base_offset
            self.offset = header.next_offset

    def note(self, header: BatchHeader) -> Known:
        """Take note of epoch and time."""
        known = self.known.setdefault(header.producer_id, Known(header.producer_epoch))
        if header.producer_epoch != known.epoch:
            known.epoch, known.batches = header.producer_epoch, []
        known.quiet_since = None
        known.last_offset = header.base_offset
        return known

    def expected(self, header: BatchHeader) -> Fresh | Duplicate | str:
        """Return the verdict by the table of the module, row by row."""
        known = self.known.get(header.producer_id)
        if header.producer_id < 0:
            return Fresh()
        if known is None:
            return Fresh() if header.base_sequence == 0 else "unknown_producer"
        if header.producer_epoch < known.epoch:
            return "producer_fenced"
        if header.producer_epoch > known.epoch:
            return Fresh() if header.base_sequence == 0 else "out_of_order_sequence"
        if not known.batches:
            return Fresh() if header.base_sequence == 0 else "out_of_order_sequence"
        sequences = (header.base_sequence, header.last_sequence)
        for seen in known.batches[-5:]:
            if (seen.base_sequence, seen.last_sequence) == sequences:
                return Duplicate(seen.base_offset)
        due = (known.batches[-1].last_sequence + 1) % SEQUENCE_END
        return Fresh() if header.base_sequence == due else "out_of_order_sequence"

    @invariant()
    def table_is_valid_and_agrees(self) -> None:
        """Check what the table says about itself."""
        self.table.validate()
        assert len(self.table) == len(self.known)
        opened = [known.opened for known in self.known.values() if known.opened is not None]
        assert self.table.first_open_offset == min(opened, default=None)
        lasts = {known.batches[-1].base_offset for known in self.known.values() if known.batches}
        assert self.table.last_offsets() == lasts | {known.last_offset for known in self.known.values()}


TestProducerTable = ProducerTableMachine.TestCase
TestProducerTable.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
