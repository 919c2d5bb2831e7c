"""What a start makes of stored transactions, what is due when, and when transactional ids are forgotten."""

from __future__ import annotations

import pytest

from goqueue.errors import Corrupt
from goqueue.machines.deadlines import DeadlineIndex
from goqueue.machines.decision import KeyedRecord
from goqueue.machines.transactions.machine import TransactionMachine
from goqueue.machines.transactions.records import transaction_record
from goqueue.machines.transactions.values import (
    IDLE_MS,
    AddPartitions,
    Expire,
    Forget,
    Init,
    ProducerEpoch,
    Transaction,
)
from tests.unit.machines.transactions.transaction_kit import (
    ALL,
    ID,
    IDLE,
    P0,
    P1,
    TIMEOUT_MS,
    WALL_MS,
    State,
    Talk,
    add,
    commit,
    empty,
    folded,
    in_state,
    init,
    ongoing,
)


@pytest.mark.parametrize(
    "record",
    [
        KeyedRecord(b"\xff", b"{}"),
        KeyedRecord(b"payments", b"{}"),
        KeyedRecord(b"payments", b"?"),
        KeyedRecord(b"payments", b'{"producer_id":1,"epoch":0,"timeout_ms":1,"state":"Odd","updated_ms":0}'),
    ],
)
def test_a_record_that_cannot_be_read_is_damage(record: KeyedRecord) -> None:
    with pytest.raises(Corrupt):
        TransactionMachine().apply(record)


def test_a_record_stays_readable_in_later_versions() -> None:
    value = (
        b'{"producer_id":7,"epoch":32767,"timeout_ms":60000,"state":"PrepareCommit","updated_ms":9,"number":2,'
        b'"started_ms":8,"previous":[7,32766],"next":[9,0],"partitions":{"orders":[0,1]},"groups":["billing"]}'
    )
    transaction = Transaction(
        id="\u00e9",
        producer_id=7,
        epoch=32767,
        timeout_ms=60_000,
        state=State.PREPARE_COMMIT,
        previous=ProducerEpoch(7, 32766),
        next=ProducerEpoch(9, 0),
        partitions=frozenset({P0, P1}),
        groups=frozenset({"billing"}),
        number=2,
        started_ms=8,
        updated_ms=9,
    )
    record = KeyedRecord("\u00e9".encode(), value)
    assert transaction_record(transaction) == record
    assert folded([record]).all() == [transaction]


def test_transactional_ids_are_due_in_order_and_each_for_itself() -> None:
    talk = Talk()
    for number, timeout_ms in enumerate([3000, 1000, 2000]):
        talk.ask(Init(f"t{number}", timeout_ms, number))
        talk.ask(AddPartitions(f"t{number}", number, 0, frozenset({P0})))
    talk.pass_time(2500)
    assert talk.machine.due(talk.now) == [Expire("t1"), Expire("t2")]
    talk.ask(Expire("t1"))
    assert talk.machine.due(talk.now) == [Expire("t2")]
    assert talk.machine.deadline_ms() == 2000
    assert [transaction.id for transaction in talk.machine.all()] == ["t0", "t1", "t2"]
    assert [ending.id for ending in talk.machine.ending()] == ["t1"]


def test_deadlines_that_were_replaced_do_not_pile_up() -> None:
    deadlines = DeadlineIndex()
    for number in range(10_000):
        deadlines.set("a", 10_000 - number)
        deadlines.set("b", number % 2 or None)
        deadlines.validate()
    assert (deadlines.first(), deadlines.due(5)) == (1, ["a", "b"])


@pytest.mark.parametrize("state", IDLE)
def test_an_idle_id_is_forgotten_after_a_week(state: State) -> None:
    talk = in_state(state)
    talk.pass_time(IDLE_MS - 1)
    assert talk.machine.due(talk.now) == []
    assert talk.ask(Forget(ID)) is None
    assert talk.machine.find(ID).state is state
    talk.pass_time(1)
    assert talk.machine.due(talk.now) == [Forget(ID)]
    assert talk.ask(Forget(ID)) is None
    assert talk.log[-1] == KeyedRecord(ID.encode(), None)
    assert (talk.machine.all(), talk.machine.deadline_ms()) == ([], None)
    assert talk.ask(init(spare=8)) == (8, 0)


def test_an_id_that_is_used_again_is_not_forgotten() -> None:
    talk = empty()
    talk.pass_time(IDLE_MS)
    (forget,) = talk.machine.due(talk.now)
    talk.ask(add(0))
    assert talk.ask(forget) is None
    assert talk.state() == (State.ONGOING, 7, 0)
    waiting = talk.wait(commit())
    assert talk.ask(forget) is None
    talk.pass_time(IDLE_MS)
    assert talk.machine.due(talk.now) == []
    assert talk.complete() == {waiting: (7, 0)}


@pytest.mark.parametrize("state", ALL)
@pytest.mark.parametrize("bumps", [True, False])
def test_a_start_finds_what_was_stored(state: State, bumps: bool) -> None:
    before = in_state(state, bumps=bumps)
    after = Talk(before.log)
    assert after.machine.all() == before.machine.all()
    assert after.machine.ending() == before.machine.ending()


@pytest.mark.parametrize("bumps", [True, False])
def test_what_was_decided_before_a_crash_is_completed_after_it_and_can_be_asked_for(bumps: bool) -> None:
    talk = Talk(in_state(State.PREPARE_COMMIT, bumps=bumps).log)
    waiting = talk.wait(commit(bumps=bumps))
    assert talk.complete() == {waiting: (7, int(bumps))}
    talk = Talk(talk.log)
    assert talk.ask(commit(bumps=bumps)) == (7, int(bumps))


def test_a_takeover_that_a_crash_interrupts_gets_the_same_identity_later() -> None:
    talk = ongoing()
    talk.wait(init())
    talk = Talk(talk.log)
    assert talk.complete() == {}
    talk = Talk(talk.log)
    assert talk.ask(init()) == (7, 2)


def test_a_producer_that_goes_on_over_a_crash_is_not_fenced_by_itself() -> None:
    talk = ongoing()
    talk.wait(init(known=(7, 0)))
    talk = Talk(talk.log)
    waiting = talk.wait(init(known=(7, 0)))
    assert talk.complete() == {waiting: (7, 1)}


def test_after_a_start_a_transaction_has_all_its_time_again() -> None:
    talk = ongoing()
    talk = Talk(talk.log, wall_ms=WALL_MS + 10 * TIMEOUT_MS, monotonic_ms=5)
    assert talk.machine.deadline_ms() == 5 + TIMEOUT_MS
    talk.pass_time(TIMEOUT_MS)
    assert talk.machine.due(talk.now) == [Expire(ID)]


@pytest.mark.parametrize(
    ("passed_ms", "left_ms"),
    [(0, IDLE_MS), (1000, IDLE_MS - 1000), (IDLE_MS, 0), (2 * IDLE_MS, 0), (-1000, IDLE_MS)],
)
def test_idleness_goes_on_over_a_start(passed_ms: int, left_ms: int) -> None:
    talk = Talk(empty().log, wall_ms=WALL_MS + passed_ms, monotonic_ms=5)
    assert talk.machine.deadline_ms() == 5 + left_ms
