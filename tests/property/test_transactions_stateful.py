"""The transaction coordinator against a naive model, with producers that share ids, miss replies and repeat themselves.

Beside the model, a ledger is kept of what producers see: no identity is given to two of them, a transaction ends in one
way, and nobody hears of a commit before all markers are durable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from goqueue.errors import GoQueueError
from goqueue.machines.decision import KeyedRecord, Now, TicketReply
from goqueue.machines.transactions.machine import TransactionMachine
from goqueue.machines.transactions.records import transaction_record
from goqueue.machines.transactions.values import (
    Abort,
    AddOffsets,
    AddPartitions,
    Command,
    Ending,
    EndTransaction,
    Init,
    ProducerEpoch,
    Transaction,
)
from goqueue.model.topic import TopicPartition
from goqueue.model.transactions import TransactionState
from tests.property.transaction_model import LAST_EPOCH, Known, Model, Refusal, commands_of_anybody, handled, state_of
from tests.unit.machines.compaction import COMPACTIONS, compacted, compactions

NOBODY, HOLDER = -1, -2
WALL_MS = 1_700_000_000_000
WEEK_MS = 7 * 24 * 3_600_000
PARTITIONS = [TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)]

ids = st.sampled_from(["a", "b"])
# Mostly, the one who acts holds the present identity, and hears the reply: or nobody would get anywhere.
producers = st.sampled_from([HOLDER, HOLDER, HOLDER, 0, 1, 2])
heard = st.sampled_from([True, True, True, False])
contents = st.frozensets(st.sampled_from(PARTITIONS), max_size=2)
groups = st.sampled_from(["g", "h"])
timeouts = st.sampled_from([1000, *[60_000] * 6, 900_000, 0, 900_001])
durations = st.sampled_from([0, 1, 999, 1000, 20_000, 59_000, 60_000, 900_000, WEEK_MS])


class Sent(NamedTuple):
    """A command, who sent it, and whether that one hears the reply."""

    command: Command
    producer: int
    is_heard: bool


class TransactionsMachine(RuleBasedStateMachine):
    """Lets producers act on what they have heard, and compares."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = TransactionMachine()
        self.model = Model()
        self.log: list[KeyedRecord] = []
        self.again = TransactionMachine()
        self.now = Now(WALL_MS, 0)
        self.ticket = 0
        self.last_name = "a"
        self.tried: tuple[int, Now] | None = None
        self.producer_ids = 100
        self.waiting: dict[int, Sent] = {}
        self.sent: list[Sent] = []
        self.late: list[Command] = []
        # what producers know, and the ledger
        self.views: dict[tuple[int, str], ProducerEpoch] = {}
        self.given: dict[ProducerEpoch, int] = {}
        self.endings: dict[tuple[str, int, int], Ending] = {}
        self.writers: dict[tuple[str, int, int], ProducerEpoch] = {}
        self.completed: set[tuple[str, int, int]] = set()

    @initialize(epochs=st.tuples(st.sampled_from([0, LAST_EPOCH - 2]), st.sampled_from([0, LAST_EPOCH - 1])))
    def begin(self, epochs: tuple[int, int]) -> None:
        """Let the ids have producers, which may be close to the last epoch."""
        for producer, (name, epoch) in enumerate(zip("ab", epochs, strict=True)):
            found = Transaction(id=name, producer_id=producer, epoch=epoch, timeout_ms=60_000, updated_ms=WALL_MS)
            self.store([transaction_record(found)])
            self.machine.apply(self.log[-1])
            self.model.ids[name] = Known(found.identity, 60_000, None, WALL_MS, found.identity)
            self.views[producer, name] = found.identity
        self.machine.revive(self.now)
        self.model.restart(self.now)

    # -- what producers do

    @rule(producer=producers, name=ids, timeout_ms=timeouts, goes_on=st.booleans(), is_heard=heard)
    def init(self, producer: int, name: str, timeout_ms: int, goes_on: bool, is_heard: bool) -> None:
        producer, identity = self.who(producer, name)
        known = identity if goes_on else None
        self.send(Sent(Init(name, timeout_ms, self.spare(), known), producer, is_heard))

    @rule(producer=producers, name=ids, partitions=contents, is_heard=heard)
    def add_partitions(self, producer: int, name: str, partitions: frozenset[TopicPartition], is_heard: bool) -> None:
        producer, identity = self.who(producer, name)
        self.send(Sent(AddPartitions(name, *identity, partitions), producer, is_heard))

    @rule(producer=producers, name=ids, partitions=contents)
    def write(self, producer: int, name: str, partitions: frozenset[TopicPartition]) -> None:
        """Let partitions be written to, if they may."""
        _, identity = self.who(producer, name)
        for partition in partitions:
            refusal = self.model.refusal_of(name, identity, partition)
            if refusal is None:
                self.machine.verify(name, *identity, partition)
                continue
            with pytest.raises(GoQueueError) as raised:
                self.machine.verify(name, *identity, partition)
            assert raised.value.code == refusal

    @rule(producer=producers, name=ids, group=groups, is_heard=heard)
    def add_offsets(self, producer: int, name: str, group: str, is_heard: bool) -> None:
        producer, identity = self.who(producer, name)
        self.send(Sent(AddOffsets(name, *identity, group), producer, is_heard))

    @rule(producer=producers, name=ids, is_commit=st.booleans(), bumps_epoch=st.booleans(), is_heard=heard)
    def end(self, producer: int, name: str, is_commit: bool, bumps_epoch: bool, is_heard: bool) -> None:
        producer, identity = self.who(producer, name)
        spare = self.spare()
        command = EndTransaction(name, *identity, is_commit=is_commit, bumps_epoch=bumps_epoch, spare_producer_id=spare)
        self.send(Sent(command, producer, is_heard))

    @rule(name=ids, partitions=contents, group=groups, is_commit=st.booleans(), bumps_epoch=st.booleans())
    def transact(
        self, name: str, partitions: frozenset[TopicPartition], group: str, is_commit: bool, bumps_epoch: bool
    ) -> None:
        """Let the holder of the present identity do what is usual, up to the end."""
        self.add_partitions(HOLDER, name, partitions, is_heard=True)
        self.add_offsets(HOLDER, name, group, is_heard=True)
        self.note()
        self.end(HOLDER, name, is_commit, bumps_epoch, is_heard=True)

    @precondition(lambda self: self.sent)
    @rule(back=st.integers(1, 12), is_heard=heard)
    def repeat(self, back: int, is_heard: bool) -> None:
        """Send a command again: a retry, or a copy that was under way for long and that nobody waits for."""
        sent = self.sent[-min(back, len(self.sent))]
        is_last = sent is next(
            each
            for each in reversed(self.sent)
            if each.producer == sent.producer and each.command.id == sent.command.id
        )
        command = sent.command
        if isinstance(command, Init | EndTransaction):
            # The spare producer id comes from the broker, and is another one each time.
            command = replace(command, spare_producer_id=self.spare())
        self.send(Sent(command, sent.producer, is_heard and is_last))

    @rule(name=ids, step=st.integers(-2, 2), is_commit=st.booleans(), kind=st.integers(0, 3))
    def make_up_an_identity(self, name: str, step: int, is_commit: bool, kind: int) -> None:
        """Act with an epoch near the present one, which nobody was given."""
        known = self.model.ids.get(name)
        identity = ProducerEpoch(*known.marker) if known else ProducerEpoch(99, 9)
        made_up = ProducerEpoch(identity.producer_id, identity.epoch + step)
        if made_up in self.given or made_up in self.views.values():
            return
        commands: list[Command] = [
            Init(name, 1000, self.spare(), made_up),
            AddPartitions(name, *made_up, frozenset(PARTITIONS[:1])),
            AddOffsets(name, *made_up, "g"),
            EndTransaction(name, *made_up, is_commit=is_commit, bumps_epoch=True, spare_producer_id=self.spare()),
        ]
        self.carry_out(commands[kind])

    # -- what happens to them

    @rule()
    def complete(self) -> None:
        """Complete the oldest that ends."""
        for ending in self.machine.ending()[:1]:
            self.completed.add((ending.id, ending.producer_id, ending.number))
            self.carry_out(ending.completion)
            assert ending not in self.machine.ending()

    @precondition(lambda self: self.endings)
    @rule(data=st.data())
    def complete_late(self, data: st.DataObject) -> None:
        """Say once more that an earlier one is complete."""
        current = self.machine.ending()
        stale = [ending for ending in self.endings.values() if ending not in current]
        if stale:
            ending = data.draw(st.sampled_from(stale))
            before = self.machine.all()
            self.carry_out(ending.completion)
            assert self.machine.all() == before

    @rule(name=ids)
    def abort(self, name: str) -> None:
        self.carry_out(Abort(name))

    @rule(ms=durations, is_prompt=st.booleans())
    def pass_time(self, ms: int, is_prompt: bool) -> None:
        """Let time pass, and do what is due now or after some other things."""
        self.now = Now(self.now.wall_ms + ms, self.now.monotonic_ms + ms)
        deadlines = [known.deadline for known in self.model.ids.values() if known.deadline is not None]
        assert self.machine.deadline_ms() == min(deadlines, default=None)
        due = self.machine.due(self.now)
        assert len(due) == sum(deadline <= self.now.monotonic_ms for deadline in deadlines)
        self.late += due
        if is_prompt:
            self.do_what_is_late()

    @precondition(lambda self: self.late)
    @rule()
    def do_what_is_late(self) -> None:
        late, self.late = self.late, []
        for command in late:
            self.carry_out(command)

    @rule(
        left=st.integers(0, COMPACTIONS - 1),
        away_ms=st.sampled_from([-1000, 0, 1000, WEEK_MS // 2]),
        monotonic_ms=st.integers(0, 10),
    )
    def restart(self, left: int, away_ms: int, monotonic_ms: int) -> None:
        """Begin anew with what was stored, all of it or what compaction leaves; who waited has hung up."""
        self.machine = folded(compactions(self.log)[left])
        self.now = Now(self.now.wall_ms + away_ms, monotonic_ms)
        self.machine.revive(self.now)
        self.model.restart(self.now)
        self.waiting.clear()

    # -- how

    def who(self, producer: int, name: str) -> tuple[int, ProducerEpoch]:
        """Return a producer with the identity that it believes to have."""
        if producer == HOLDER:
            holder = self.model.ids[name].holder if name in self.model.ids else None
            producer = next((each for (each, of), view in self.views.items() if (of, view) == (name, holder)), 0)
        return producer, self.views.get((producer, name), ProducerEpoch(99, producer))

    def spare(self) -> int:
        self.producer_ids += 1
        return self.producer_ids

    def send(self, sent: Sent) -> None:
        self.sent.append(sent)
        self.carry_out(sent.command, sent.producer, is_heard=sent.is_heard)

    def carry_out(self, command: Command, producer: int = NOBODY, *, is_heard: bool = False) -> None:
        """Decide, store and adopt; compare with what the model does."""
        self.ticket += 1
        self.last_name = command.id
        self.waiting[self.ticket] = Sent(command, producer, is_heard)
        before = self.machine.records()
        try:
            expected = self.model.handle(command, self.ticket, self.now)
        except Refusal as refusal:
            self.check_refusal(command, str(refusal))
            return
        decision = self.machine.decide(command, self.ticket, self.now)
        assert self.machine.records() == before
        self.store(decision.records)
        self.machine.adopt(decision)
        assert [(ticket, code(reply)) for ticket, reply in decision.answers] == expected
        for answer in decision.answers:
            self.hear(answer)

    def store(self, records: Sequence[KeyedRecord]) -> None:
        """Append to the log, and to the fold over all of it."""
        self.log += records
        for record in records:
            self.again.apply(record)

    def check_refusal(self, command: Command, expected: str) -> None:
        before = self.machine.records()
        with pytest.raises(GoQueueError) as raised:
            self.machine.decide(command, self.ticket, self.now)
        assert raised.value.code == expected
        assert self.machine.records() == before
        del self.waiting[self.ticket]

    def hear(self, answer: TicketReply) -> None:
        """Let a producer hear a reply, which it does once; keep the ledger."""
        sent = self.waiting.pop(answer.ticket)
        command, reply = sent.command, answer.reply
        if sent.producer == NOBODY or not isinstance(reply, ProducerEpoch):
            return
        assert self.given.setdefault(reply, sent.producer) == sent.producer
        if isinstance(command, EndTransaction) and command.is_commit:
            caller = (command.producer_id, command.epoch)
            *_, last = [key for key, writer in self.writers.items() if key[0] == command.id and writer == caller]
            assert last in self.completed
            assert self.endings[last].is_commit
        if sent.is_heard:
            self.views[sent.producer, command.id] = reply

    # -- what always holds

    @invariant()
    def agrees_with_the_model(self) -> None:
        self.machine.validate()
        assert {found.id for found in self.machine.all()} == self.model.ids.keys()
        for found in self.machine.all():
            known = self.model.ids[found.id]
            assert (found.identity, found.holder) == (known.marker, known.holder)
            assert (found.previous, found.next or found.identity) == (known.asker, known.after or known.marker)
            assert found.state is state_of(known)
            assert {*found.partitions, *found.groups} == known.content
            assert (found.timeout_ms, found.deadline_ms, found.number) == (known.timeout, known.deadline, known.count)
            assert list(found.waiting_ends) == known.ends

    @invariant()
    def would_decide_everything_as_the_model_does(self) -> None:
        """Try what anybody could say now to the id that was last spoken to, without doing it."""
        if self.tried == (len(self.log), self.now):
            return
        self.tried = (len(self.log), self.now)
        found = next((each for each in self.machine.all() if each.id == self.last_name), None)
        for command in commands_of_anybody(self.last_name, found, self.spare()):
            model = self.model.copy()
            assert (command, self.decided(command)) == (command, handled(model, command, self.now))

    def decided(self, command: Command) -> object:
        """Return the code of a refusal, or who is told what and how the id stands then."""
        try:
            decision = self.machine.decide(command, 0, self.now)
        except GoQueueError as error:
            return error.code
        told = [(ticket, code(reply)) for ticket, reply in decision.answers]
        standing = folded(decision.records).all() if decision.records else self.machine.all()
        return told, [(each.identity, each.previous, each.state) for each in standing if each.id == command.id]

    @invariant()
    def is_what_the_log_makes_of_it(self) -> None:
        for again in (self.again, folded(compacted(self.log, drops_tombstones=True))):
            assert again.all() == self.machine.all()
            assert {each.id: each for each in again.ending()} == {each.id: each for each in self.machine.ending()}

    @invariant()
    def ends_each_transaction_in_one_way(self) -> None:
        self.note()

    def note(self) -> None:
        """Write into the ledger who began a transaction, and how it ends."""
        for found in self.machine.all():
            if found.state is TransactionState.ONGOING:
                key = (found.id, found.producer_id, found.number)
                assert self.writers.setdefault(key, found.identity) == found.identity
        for ending in self.machine.ending():
            key = (ending.id, ending.producer_id, ending.number)
            assert self.endings.setdefault(key, ending) == ending

    @invariant()
    def lets_nobody_wait_but_for_an_end(self) -> None:
        ending = {each.id for each in self.machine.ending()}
        assert {sent.command.id for sent in self.waiting.values()} <= ending


def code(reply: object) -> object:
    return reply.code if isinstance(reply, GoQueueError) else reply


def folded(records: Sequence[KeyedRecord]) -> TransactionMachine:
    machine = TransactionMachine()
    for record in records:
        machine.apply(record)
    return machine


TestTransactions = TransactionsMachine.TestCase
TestTransactions.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)
