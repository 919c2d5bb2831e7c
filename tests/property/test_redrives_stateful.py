"""Redrives against a model of sets: same letters, same counts, and the same again after any restart."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from goqueue.errors import GoQueueError
from goqueue.machines.decision import KeyedRecord, Now
from goqueue.machines.redrives.machine import RedriveMachine
from goqueue.machines.redrives.values import (
    Advance,
    Cancel,
    Command,
    DropLetters,
    Finish,
    Moves,
    PlanBatch,
    RedriveBatch,
    RedriveTerms,
    Start,
)
from goqueue.model.redrives import RedriveState
from tests.unit.machines.compaction import COMPACTIONS, compactions

TOPICS = st.sampled_from([UUID(int=1), UUID(int=2)])
ENDS = {0: 9000, 1: 5}
PARTITIONS = st.sampled_from(sorted(ENDS))


@dataclass
class Job:
    """What the model has of a redrive."""

    topic: UUID
    positions: dict[int, int] = field(default_factory=lambda: dict.fromkeys(ENDS, 0))
    planned: RedriveBatch | None = None
    number: int = 0
    moved: int = 0
    is_cancelled: bool = False
    is_over: bool = False
    is_orphan: bool = False


class RedrivesMachine(RuleBasedStateMachine):
    """Gives commands, keeps all records that were stored, and compares."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = RedriveMachine()
        self.stored: list[KeyedRecord] = []
        self.jobs: list[Job] = []
        self.marked: set[tuple[UUID, int, int]] = set()

    def carry_out(self, command: Command) -> str:
        """Decide, store and adopt; return the code of the error, or nothing."""
        try:
            decision = self.machine.decide(command, 1, Now(len(self.stored), 3))
        except GoQueueError as error:
            return error.code
        self.stored += decision.records
        self.machine.adopt(decision)
        return ""

    def job(self, number: int) -> tuple[str, Job] | None:
        if not self.jobs:
            return None
        number %= len(self.jobs)
        return f"job{number}", self.jobs[number]

    @rule(topic=TOPICS)
    def start(self, topic: UUID) -> None:
        is_taken = any(job.topic == topic and not job.is_over for job in self.jobs)
        spans = {index: (0, end) for index, end in ENDS.items()}
        outcome = self.carry_out(Start(f"job{len(self.jobs)}", "t", topic, RedriveTerms(), spans))
        assert outcome == ("redrive_running" if is_taken else "")
        if not is_taken:
            self.jobs.append(Job(topic))

    @rule(number=st.integers(0, 9), partition=PARTITIONS, steps=st.integers(1, 6000), every=st.integers(1, 900))
    def plan(self, number: int, partition: int, steps: int, every: int) -> None:
        if (found := self.job(number)) is None:
            return
        name, job = found
        position = job.positions[partition]
        end = position + steps
        offsets = tuple(range(position, min(end, ENDS[partition]), every))
        batch = RedriveBatch(job.number + 1, partition, end, offsets, Moves(moved=len(offsets)))
        may_be = not job.is_over and not job.is_cancelled and end <= ENDS[partition]
        assert self.carry_out(PlanBatch(name, batch)) == ("" if may_be else "conflict")
        if may_be:
            job.planned = batch

    @rule(number=st.integers(0, 9), late=st.integers(0, 1))
    def advance(self, number: int, late: int) -> None:
        if (found := self.job(number)) is None:
            return
        name, job = found
        batch = job.planned
        assert self.carry_out(Advance(name, job.number + 1 - late, 0)) == ""
        if batch is not None and not late:
            job.positions[batch.partition] = batch.end
            job.moved += len(batch.moved)
            job.number, job.planned = batch.number, None
            if not job.is_orphan:
                self.marked |= {(job.topic, batch.partition, offset) for offset in batch.moved}

    @rule(number=st.integers(0, 9))
    def cancel(self, number: int) -> None:
        if (found := self.job(number)) is not None:
            assert self.carry_out(Cancel(found[0])) == ""
            found[1].is_cancelled |= not found[1].is_over

    @rule(number=st.integers(0, 9))
    def finish(self, number: int) -> None:
        if (found := self.job(number)) is not None:
            assert self.carry_out(Finish(found[0], RedriveState.DONE, "")) == ""
            found[1].is_over, found[1].planned = True, None

    @rule(topic=TOPICS)
    def drop(self, topic: UUID) -> None:
        assert self.carry_out(DropLetters(topic)) == ""
        self.marked = {each for each in self.marked if each[0] != topic}
        for job in self.jobs:
            job.is_orphan |= job.topic == topic and not job.is_over

    @rule(choice=st.integers(0, COMPACTIONS - 1))
    def restart(self, choice: int) -> None:
        self.stored = list(compactions(self.stored)[choice])
        self.machine = RedriveMachine()
        for record in self.stored:
            self.machine.apply(record)

    @invariant()
    def is_as_the_model_says(self) -> None:
        self.machine.validate()
        for number, job in enumerate(self.jobs):
            found = self.machine.find(f"job{number}")
            assert {index: span.position for index, span in found.spans.items()} == job.positions
            assert (found.moves.moved, found.batch, found.number) == (job.moved, job.planned, job.number)
            assert found.state.is_end == job.is_over
        for topic, partition, offset in self.marked:
            assert self.machine.redriven.has(topic, partition, offset)
        for topic in (UUID(int=1), UUID(int=2)):
            for partition in ENDS:
                expected = sum(each[:2] == (topic, partition) for each in self.marked)
                assert self.machine.redriven.count(topic, partition, 0) == expected


TestRedrives = RedrivesMachine.TestCase
TestRedrives.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
