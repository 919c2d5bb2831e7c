"""Sinks under restarts, repetitions and timeouts: each batch is committed as a whole, and at most once."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from typing_extensions import override

from goqueue.errors import GoQueueError
from goqueue.machines.decision import KeyedRecord, Now
from goqueue.machines.transactions.machine import TransactionMachine
from goqueue.machines.transactions.sinks import BatchCommit
from goqueue.machines.transactions.values import (
    AddPartitions,
    Command,
    CommitBatch,
    EndTransaction,
    ForgetSink,
    Init,
    ProducerEpoch,
    SinkStage,
)
from goqueue.model.sinks import sink_key, stage_id
from goqueue.model.topic import TopicPartition

KEY = sink_key("query")
TASKS = 3
TIMEOUT_MS = 60_000
PARTITION = TopicPartition("orders", 0)

tasks = st.integers(0, TASKS - 1)


class Sinks(RuleBasedStateMachine):
    """A machine that is asked as the drivers and tasks of a query ask, and stands in for the markers as well."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = TransactionMachine()
        self.log: list[KeyedRecord] = []
        self.now = Now(1_700_000_000_000, 0)
        self.tickets = 0
        self.stages: dict[str, SinkStage] = {}
        self.batches: list[tuple[SinkStage, ...]] = []
        self.seen: list[tuple[str, int]] = []

    def say(self, command: Command) -> object:
        """Carry out a command; return its answer, or None if it is not answered yet."""
        self.tickets += 1
        decision = self.machine.decide(command, self.tickets, self.now)
        self.log += decision.records
        self.machine.adopt(decision)
        self.machine.validate()
        return dict(decision.answers).get(self.tickets)

    @rule(task=tasks, attempt=st.integers(0, 1))
    def stage(self, task: int, attempt: int) -> None:
        name = stage_id("query", task, attempt)
        self.complete()
        identity = self.say(Init(name, TIMEOUT_MS, 1000 + self.tickets))
        if identity is None:
            # What was staged before under that name is aborted first.
            self.complete()
            identity = self.machine.find(name).identity
        assert isinstance(identity, ProducerEpoch)
        self.say(AddPartitions(name, *identity, frozenset({PARTITION})))
        self.stages[name] = SinkStage(name, *identity)

    @rule(batch=st.integers(0, 4), wanted=st.sets(st.tuples(tasks, st.integers(0, 1))))
    def commit(self, batch: int, wanted: set[tuple[int, int]]) -> None:
        names = [stage_id("query", *each) for each in sorted(wanted)]
        stages = tuple(self.stages[name] for name in names if name in self.stages)
        last = self.machine.last_batch(KEY)
        before = {each.id: each for each in self.machine.all()}
        try:
            told = self.say(CommitBatch(KEY, batch, stages))
        except GoQueueError:
            assert last is None or batch > last.batch
            assert any(not before[each.id].is_ongoing or before[each.id].identity != each.identity for each in stages)
            assert {each.id: each for each in self.machine.all()} == before
            return
        assert isinstance(told, BatchCommit)
        assert told.is_new is (last is None or batch > last.batch)
        if told.is_new:
            assert told.batch == batch
            self.batches.append(stages)
        else:
            assert last is not None
            assert told.batch == last.batch
            assert all(any(stage in of for of in self.batches) for stage in told.committed)

    @rule()
    def forget(self) -> None:
        before = self.machine.all()
        self.say(ForgetSink(KEY))
        assert self.machine.last_batch(KEY) is None
        assert self.machine.all() == before

    @rule(task=tasks)
    def abort(self, task: int) -> None:
        stage = self.stages.get(stage_id("query", task, 0))
        if stage is not None and self.machine.find(stage.id).is_ongoing:
            self.say(EndTransaction(*stage, is_commit=False, bumps_epoch=False, spare_producer_id=-1))

    @rule()
    def complete(self) -> None:
        for ending in self.machine.ending():
            if ending.is_commit:
                self.seen.append((ending.id, ending.number))
            self.say(ending.completion)

    @rule()
    def time_out(self) -> None:
        self.now = Now(self.now.wall_ms + TIMEOUT_MS, self.now.monotonic_ms + TIMEOUT_MS)
        for command in self.machine.due(self.now):
            self.say(command)

    @rule()
    def restart(self) -> None:
        folded = TransactionMachine()
        for record in self.log:
            folded.apply(record)
        folded.revive(self.now)
        assert folded.all() == self.machine.all()
        assert folded.last_batch(KEY) == self.machine.last_batch(KEY)
        self.machine = folded

    @invariant()
    def nothing_is_committed_twice(self) -> None:
        assert len(self.seen) == len(set(self.seen))

    @invariant()
    def what_is_committed_belongs_to_one_batch(self) -> None:
        committed = [stage for stages in self.batches for stage in stages]
        assert len(committed) == len(set(committed))
        waiting = sum(each.is_commit for each in self.machine.ending())
        assert len(self.seen) + waiting == len(committed)

    @override
    def teardown(self) -> None:
        self.complete()
        assert len(self.seen) == sum(map(len, self.batches))


TestSinks = Sinks.TestCase
