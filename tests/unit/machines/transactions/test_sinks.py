"""Batches of sinks: their stages are committed together, and once for each batch."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from goqueue.errors import Corrupt, Invalid, InvalidTransactionState, ProducerMismatch, TransactionFenced
from goqueue.machines.decision import KeyedRecord
from goqueue.machines.transactions.machine import TransactionMachine
from goqueue.machines.transactions.records import transaction_record
from goqueue.machines.transactions.sinks import SINK_IDLE_MS, BatchCommit, CommittedBatch
from goqueue.machines.transactions.values import (
    EPOCH_MAX,
    AddPartitions,
    CommitBatch,
    EndTransaction,
    Init,
    ProducerEpoch,
    SinkStage,
)
from goqueue.model.sinks import coordination_key, is_sink_key, sink_key, stage_id
from goqueue.model.transactions import STAGES_MAX, TransactionState
from tests.unit.machines.compaction import compactions
from tests.unit.machines.transactions.transaction_kit import P0, P1, TIMEOUT_MS, WALL_MS, Talk, folded

KEY = sink_key("query")


def staged(talk: Talk, task: int, attempt: int = 0) -> SinkStage:
    """Let an attempt of a task stage something; return how it is named in a batch."""
    name = stage_id("query", task, attempt)
    identity = talk.ask(Init(name, TIMEOUT_MS, 100 * (task + 1) + attempt))
    assert isinstance(identity, ProducerEpoch)
    talk.ask(AddPartitions(name, *identity, frozenset({P0 if task % 2 else P1})))
    return SinkStage(name, *identity)


def commit(batch: int, *stages: SinkStage) -> CommitBatch:
    return CommitBatch(KEY, batch, stages)


def states(talk: Talk) -> list[TransactionState]:
    return [each.state for each in talk.machine.all()]


def complete_all(talk: Talk) -> None:
    for ending in talk.machine.ending():
        talk.ask(ending.completion)


def test_all_stages_of_a_batch_are_committed_by_one_decision() -> None:
    talk = Talk()
    stages = (staged(talk, 0), staged(talk, 1))
    decision = talk.machine.decide(commit(0, *stages), talk.next_ticket(), talk.now)
    assert len(decision.records) == 3
    assert talk.carry_out(decision) == {talk.ticket: BatchCommit(0, stages, is_new=True)}
    assert states(talk) == [TransactionState.PREPARE_COMMIT] * 2
    assert talk.machine.last_batch(KEY) == CommittedBatch(0, WALL_MS)
    complete_all(talk)
    assert states(talk) == [TransactionState.COMPLETE_COMMIT] * 2


def test_whoever_asks_again_is_told_the_same_and_waits_for_what_is_under_way() -> None:
    talk = Talk()
    stages = (staged(talk, 0), staged(talk, 1))
    talk.ask(commit(0, *stages))
    assert talk.ask(commit(0, *stages)) == BatchCommit(0, stages, is_new=False)
    waiting = talk.wait(EndTransaction(*stages[0], is_commit=True, bumps_epoch=False, spare_producer_id=-1))
    ending = next(each for each in talk.machine.ending() if each.id == stages[0].id)
    assert talk.say(ending.completion)[waiting] == (stages[0].producer_id, stages[0].epoch + 1)
    assert talk.ask(commit(0, *stages)) == BatchCommit(0, stages, is_new=False)


def test_what_is_said_again_of_a_batch_does_not_touch_what_its_producer_does_next() -> None:
    talk = Talk()
    stage = staged(talk, 0)
    talk.ask(commit(0, stage))
    complete_all(talk)
    going_on = SinkStage(stage.id, stage.producer_id, stage.epoch + 1)
    talk.ask(AddPartitions(*going_on, frozenset({P0})))
    assert talk.ask(commit(0, stage)) == BatchCommit(0, (), is_new=False)
    talk.refused(EndTransaction(*stage, is_commit=True, bumps_epoch=False, spare_producer_id=-1), TransactionFenced)
    assert states(talk) == [TransactionState.ONGOING]
    assert talk.ask(commit(1, going_on)) == BatchCommit(1, (going_on,), is_new=True)


def test_a_stage_at_the_end_of_epochs_is_committed_too() -> None:
    talk = Talk()
    name = stage_id("query", 0, 0)
    talk.ask(Init(name, TIMEOUT_MS, 5))
    last = replace(talk.machine.find(name), epoch=EPOCH_MAX)
    talk = Talk([transaction_record(last)])
    stage = SinkStage(name, 5, EPOCH_MAX)
    talk.ask(AddPartitions(*stage, frozenset({P0})))
    assert talk.ask(commit(0, stage)) == BatchCommit(0, (stage,), is_new=True)
    complete_all(talk)
    assert talk.ask(Init(name, TIMEOUT_MS, 6)) == (6, 0)


def test_what_is_decided_to_end_is_handed_out_once() -> None:
    talk = Talk()
    stages = (staged(talk, 0), staged(talk, 1))
    assert talk.machine.take_new_endings() == []
    talk.ask(commit(0, *stages))
    assert [each.id for each in talk.machine.take_new_endings()] == [stage.id for stage in stages]
    talk.wait(EndTransaction(*stages[0], is_commit=True, bumps_epoch=False, spare_producer_id=-1))
    assert talk.machine.take_new_endings() == []
    assert len(talk.machine.ending()) == 2
    assert len(Talk(talk.log).machine.take_new_endings()) == 2


def test_what_is_staged_again_for_a_committed_batch_is_aborted() -> None:
    talk = Talk()
    first = staged(talk, 0)
    talk.ask(commit(5, first))
    complete_all(talk)
    again, other = staged(talk, 0), staged(talk, 0, attempt=1)
    assert talk.ask(commit(5, again, other)) == BatchCommit(5, (), is_new=False)
    assert states(talk) == [TransactionState.PREPARE_ABORT] * 2
    complete_all(talk)
    assert talk.ask(commit(4, again)) == BatchCommit(5, (), is_new=False)
    assert talk.machine.last_batch(KEY) == CommittedBatch(5, WALL_MS)


def test_a_batch_with_a_stage_that_is_lost_is_refused_as_a_whole() -> None:
    talk = Talk()
    good, lost = staged(talk, 0), staged(talk, 1)
    # Somebody else under the same name fences whoever was there.
    waiting = talk.wait(Init(lost.id, TIMEOUT_MS, 999))
    assert talk.complete() == {waiting: (lost.producer_id, lost.epoch + 2)}
    talk.refused(commit(0, good, lost), TransactionFenced)
    talk.refused(commit(0, good, SinkStage(lost.id, 4711, 0)), ProducerMismatch)
    talk.refused(commit(0, good, SinkStage(stage_id("query", 9, 9), 1, 0)), InvalidTransactionState)
    assert talk.machine.last_batch(KEY) is None
    talk.pass_time(TIMEOUT_MS)
    for command in talk.machine.due(talk.now):
        talk.ask(command)
    talk.refused(commit(0, good), TransactionFenced)


def test_a_stage_whose_transaction_has_ended_already_is_refused() -> None:
    talk = Talk()
    stage = staged(talk, 0)
    talk.wait(EndTransaction(*stage, is_commit=True, bumps_epoch=False, spare_producer_id=-1))
    talk.refused(commit(0, stage), InvalidTransactionState)


def test_a_batch_without_stages_is_remembered_too() -> None:
    talk = Talk()
    assert talk.ask(commit(3)) == BatchCommit(3, (), is_new=True)
    assert talk.ask(commit(3)) == BatchCommit(3, (), is_new=False)
    late = staged(talk, 0)
    assert talk.ask(commit(3, late)) == BatchCommit(3, (), is_new=False)
    assert talk.ask(commit(4)) == BatchCommit(4, (), is_new=True)


def test_the_same_stage_twice_or_too_many_are_refused() -> None:
    talk = Talk()
    stage = staged(talk, 0)
    talk.refused(commit(0, stage, stage), Invalid)
    many = tuple(SinkStage(stage_id("query", number, 0), number, 0) for number in range(STAGES_MAX + 1))
    talk.refused(commit(0, *many), Invalid)


def test_batches_survive_a_start_and_are_forgotten_after_a_month() -> None:
    talk = Talk()
    talk.ask(commit(7, staged(talk, 0)))
    complete_all(talk)
    for records in compactions(talk.log):
        assert folded(records).last_batch(KEY) == CommittedBatch(7, WALL_MS)
    assert folded(talk.machine.records()).last_batch(KEY) == CommittedBatch(7, WALL_MS)
    later = Talk(talk.log, wall_ms=WALL_MS + SINK_IDLE_MS - 1000, monotonic_ms=5)
    assert later.ask(commit(7)) == BatchCommit(7, (), is_new=False)
    later.pass_time(1001)
    assert any(command.id == KEY for command in later.machine.due(later.now))
    for command in later.machine.due(later.now):
        later.say(command)
    assert later.machine.last_batch(KEY) is None
    assert all(folded(records).last_batch(KEY) is None for records in compactions(later.log))


def test_a_sink_is_no_transactional_id() -> None:
    talk = Talk()
    talk.refused(Init(KEY, TIMEOUT_MS, 1), Invalid)
    with pytest.raises(Corrupt, match="cannot be read"):
        TransactionMachine().apply(KeyedRecord(KEY.encode(), b"[]"))


def test_all_stages_of_a_sink_are_looked_after_in_one_place() -> None:
    assert {coordination_key(stage_id("a-b.c_d", task, 3)) for task in range(5)} == {sink_key("a-b.c_d")}
    assert coordination_key(sink_key("a")) == sink_key("a")
    for other in ("orders", "goqueue-sink:", "goqueue-sink:a:1", "goqueue-sink:a:1:x", "goqueue-sink:a b:1:2", ""):
        assert coordination_key(other) == other
        assert not is_sink_key(other)
    assert is_sink_key(sink_key("a"))
    assert not is_sink_key(stage_id("a", 1, 2))
    for name in ("", "a:b", "a b", "x" * 201, "ä"):
        with pytest.raises(Invalid):
            sink_key(name)
