"""A talk with a transaction coordinator, checked after every word, and short names for what is said."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from goqueue.errors import (
    GoQueueError,
)
from goqueue.machines.decision import Decision, KeyedRecord, Now
from goqueue.machines.transactions.machine import TransactionMachine
from goqueue.machines.transactions.records import transaction_record
from goqueue.machines.transactions.values import AddOffsets, AddPartitions, Command, EndTransaction, Init, ProducerEpoch
from goqueue.model.topic import TopicPartition
from goqueue.model.transactions import TransactionState
from tests.unit.machines.compaction import compactions

ID = "payments"
P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
TIMEOUT_MS = 60_000
WALL_MS = 1_700_000_000_000
State = TransactionState


class Talk:
    """A machine, the log of its records, and a clock; every command gets the next ticket, beginning with 1."""

    def __init__(self, records: Sequence[KeyedRecord] = (), *, wall_ms: int = WALL_MS, monotonic_ms: int = 0) -> None:
        self.machine = TransactionMachine()
        self.log = list(records)
        self.now = Now(wall_ms, monotonic_ms)
        self.ticket = 0
        for record in records:
            self.machine.apply(record)
        self.machine.revive(self.now)
        self.machine.validate()

    def say(self, command: Command) -> dict[int, object]:
        """Carry out a command; return who is told what, errors by their codes."""
        return self.carry_out(self.machine.decide(command, self.next_ticket(), self.now))

    def ask(self, command: Command) -> object:
        """Carry out a command that is answered at once, and nobody else is; return the answer."""
        told = self.say(command)
        assert list(told) == [self.ticket]
        return told[self.ticket]

    def wait(self, command: Command) -> int:
        """Carry out a command that is not answered yet; return its ticket."""
        assert self.say(command) == {}
        return self.ticket

    def refused(self, command: Command, error: type[GoQueueError]) -> None:
        """Check that a command is refused and leaves no trace."""
        before = self.machine.all()
        with pytest.raises(error) as raised:
            self.machine.decide(command, self.next_ticket(), self.now)
        assert raised.type is error
        assert self.machine.all() == before

    def complete(self) -> dict[int, object]:
        """Complete the one transaction that is ending; return who else is told what."""
        (ending,) = self.machine.ending()
        told = self.say(ending.completion)
        assert told.pop(self.ticket) is None
        return told

    def carry_out(self, decision: Decision) -> dict[int, object]:
        """Append, adopt, and check that a start from the log would find the same."""
        self.log += decision.records
        self.machine.adopt(decision)
        self.machine.validate()
        for records in compactions(self.log):
            assert folded(records).all() == self.machine.all()
        assert folded(self.machine.records()).all() == self.machine.all()
        told = {
            answer.ticket: answer.reply.code if isinstance(answer.reply, GoQueueError) else answer.reply
            for answer in decision.answers
        }
        assert len(told) == len(decision.answers)
        return told

    def pass_time(self, ms: int) -> None:
        self.now = Now(self.now.wall_ms + ms, self.now.monotonic_ms + ms)

    def next_ticket(self) -> int:
        self.ticket += 1
        return self.ticket

    def state(self) -> tuple[State, int, int]:
        """Return state, producer id and epoch."""
        transaction = self.machine.find(ID)
        return transaction.state, transaction.producer_id, transaction.epoch


def folded(records: Sequence[KeyedRecord]) -> TransactionMachine:
    machine = TransactionMachine()
    for record in records:
        machine.apply(record)
    return machine


def init(known: tuple[int, int] | None = None, *, spare: int = 900, timeout_ms: int = TIMEOUT_MS) -> Init:
    return Init(ID, timeout_ms, spare, None if known is None else ProducerEpoch(*known))


def add(epoch: int = 0, *partitions: TopicPartition, producer: int = 7) -> AddPartitions:
    return AddPartitions(ID, producer, epoch, frozenset(partitions or {P0}))


def offsets(epoch: int = 0, group: str = "billing", producer: int = 7) -> AddOffsets:
    return AddOffsets(ID, producer, epoch, group)


def end(epoch: int = 0, *, is_commit: bool, bumps: bool = False, producer: int = 7, spare: int = 901) -> EndTransaction:
    return EndTransaction(ID, producer, epoch, is_commit=is_commit, bumps_epoch=bumps, spare_producer_id=spare)


def commit(epoch: int = 0, *, bumps: bool = False, producer: int = 7) -> EndTransaction:
    return end(epoch, is_commit=True, bumps=bumps, producer=producer)


def abort(epoch: int = 0, *, bumps: bool = False, producer: int = 7) -> EndTransaction:
    return end(epoch, is_commit=False, bumps=bumps, producer=producer)


def empty(epoch: int = 0) -> Talk:
    """Return a talk in which producer 7 has the id."""
    talk = Talk()
    assert talk.ask(init(spare=7)) == (7, 0)
    return talk if epoch == 0 else Talk([transaction_record(replace(talk.machine.find(ID), epoch=epoch))])


def ongoing(epoch: int = 0) -> Talk:
    talk = empty(epoch)
    assert talk.ask(add(epoch)) is None
    return talk


def in_state(state: State, *, bumps: bool = False) -> Talk:
    """Return a talk in which producer 7, that had epoch 0, has come to a state."""
    if state is State.EMPTY:
        return empty()
    talk = ongoing()
    if state is not State.ONGOING:
        talk.wait(end(is_commit=state in {State.PREPARE_COMMIT, State.COMPLETE_COMMIT}, bumps=bumps))
    if state in {State.COMPLETE_COMMIT, State.COMPLETE_ABORT}:
        talk.complete()
    assert talk.state() == (state, 7, int(bumps and state not in {State.EMPTY, State.ONGOING}))
    return talk


ALL = list(State)
IDLE = [State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT]
PREPARED = [State.PREPARE_COMMIT, State.PREPARE_ABORT]
COMPLETED = [State.COMPLETE_COMMIT, State.COMPLETE_ABORT]
