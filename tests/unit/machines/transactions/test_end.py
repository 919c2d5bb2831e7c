"""How transactions end, as transcripts: by their producers, over their heads, and in which order of things."""

from __future__ import annotations

from dataclasses import replace

import pytest

from goqueue.errors import InvalidTransactionState, ProducerMismatch, TransactionFenced
from goqueue.machines.transactions.values import (
    EPOCH_MAX,
    WAITING_ENDS_MAX,
    Abort,
    Command,
    Complete,
    EndTransaction,
    Expire,
)
from tests.unit.machines.transactions.transaction_kit import (
    ALL,
    COMPLETED,
    ID,
    IDLE,
    P1,
    PREPARED,
    TIMEOUT_MS,
    State,
    abort,
    add,
    commit,
    empty,
    end,
    in_state,
    init,
    offsets,
    ongoing,
)


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("bumps", [True, False])
def test_an_end_is_answered_when_it_is_complete_and_markers_carry_the_raised_epoch(
    is_commit: bool, bumps: bool
) -> None:
    talk = ongoing()
    waiting = talk.wait(end(is_commit=is_commit, bumps=bumps))
    (ending,) = talk.machine.ending()
    assert (ending.epoch, ending.is_commit) == (int(bumps), is_commit)
    again = talk.wait(end(is_commit=is_commit, bumps=bumps))
    assert talk.complete() == {waiting: (7, int(bumps)), again: (7, int(bumps))}
    assert talk.ask(end(is_commit=is_commit, bumps=bumps)) == (7, int(bumps))
    assert talk.ask(add(int(bumps))) is None


@pytest.mark.parametrize("state", [*PREPARED, *COMPLETED])
@pytest.mark.parametrize("bumps", [True, False])
def test_the_end_of_a_transaction_cannot_be_changed(state: State, bumps: bool) -> None:
    is_committed = state in {State.PREPARE_COMMIT, State.COMPLETE_COMMIT}
    in_state(state, bumps=bumps).refused(end(is_commit=not is_committed, bumps=bumps), InvalidTransactionState)


@pytest.mark.parametrize("state", ALL)
def test_only_the_present_identity_can_end(state: State) -> None:
    talk = in_state(state)
    for is_commit in (True, False):
        talk.refused(end(1, is_commit=is_commit), TransactionFenced)
        talk.refused(end(0, is_commit=is_commit, producer=8), ProducerMismatch)


@pytest.mark.parametrize("state", PREPARED)
def test_an_identity_that_nobody_was_told_of_cannot_end(state: State) -> None:
    for is_commit in (True, False):
        in_state(state, bumps=True).refused(end(1, is_commit=is_commit, bumps=True), TransactionFenced)


@pytest.mark.parametrize("command", [commit(), abort(), commit(bumps=True)])
def test_what_has_not_begun_cannot_end(command: EndTransaction) -> None:
    empty().refused(command, InvalidTransactionState)
    for state in COMPLETED:
        in_state(state, bumps=True).refused(replace(command, epoch=1), InvalidTransactionState)


@pytest.mark.parametrize("state", IDLE)
def test_an_abort_that_bumps_the_epoch_needs_no_transaction(state: State) -> None:
    talk = in_state(state, bumps=True)
    epoch = talk.machine.find(ID).epoch
    assert talk.ask(abort(epoch, bumps=True)) == (7, epoch + 1)
    assert talk.ask(abort(epoch, bumps=True)) == (7, epoch + 1)
    assert talk.state() == (State.COMPLETE_ABORT, 7, epoch + 1)
    assert talk.machine.ending() == ()
    talk.refused(add(epoch), TransactionFenced)


def test_an_end_at_the_end_of_epochs_leads_to_the_spare_producer_id() -> None:
    talk = ongoing(EPOCH_MAX)
    waiting = talk.wait(end(EPOCH_MAX, is_commit=True, bumps=True, spare=901))
    assert (talk.machine.ending()[0].producer_id, talk.machine.ending()[0].epoch) == (7, EPOCH_MAX + 1)
    again = talk.wait(end(EPOCH_MAX, is_commit=True, bumps=True, spare=902))
    assert talk.complete() == {waiting: (901, 0), again: (901, 0)}
    assert talk.ask(end(EPOCH_MAX, is_commit=True, bumps=True, spare=903)) == (901, 0)
    assert talk.ask(init(known=(7, EPOCH_MAX))) == (901, 0)
    assert talk.ask(add(0, producer=901)) is None
    talk.refused(commit(EPOCH_MAX, bumps=True), ProducerMismatch)


def test_an_end_without_a_bump_is_possible_at_the_end_of_epochs() -> None:
    talk = ongoing(EPOCH_MAX)
    waiting = talk.wait(commit(EPOCH_MAX))
    assert talk.complete() == {waiting: (7, EPOCH_MAX)}


def test_only_so_many_repetitions_wait() -> None:
    talk = ongoing()
    first, *waiting = [talk.wait(commit()) for _ in range(WAITING_ENDS_MAX)]
    assert talk.say(commit()) == {first: "concurrent_transactions"}
    assert talk.complete().keys() == {*waiting, talk.ticket - 1}


def test_a_delayed_command_of_one_transaction_touches_no_later_one() -> None:
    talk = ongoing()
    late: list[Command] = [add(0, P1), offsets(0), commit(0, bumps=True), abort(0, bumps=True), init(known=(7, 0))]
    talk.wait(commit(0, bumps=True))
    (ending,) = talk.machine.ending()
    talk.complete()
    talk.ask(add(1))
    before = talk.machine.find(ID)
    for command in late:
        talk.refused(command, TransactionFenced)
    talk.wait(abort(1, bumps=True))
    assert talk.ask(ending.completion) is None
    assert talk.state() == (State.PREPARE_ABORT, 7, 2)
    assert talk.machine.find(ID).partitions == before.partitions
    for command in late:
        talk.refused(command, TransactionFenced)


def test_a_completion_of_something_else_changes_nothing() -> None:
    talk = ongoing()
    waiting = talk.wait(commit(bumps=True))
    for command in (Complete(ID, 7, 0, 1), Complete(ID, 8, 1, 1), Complete(ID, 7, 2, 1), Complete(ID, 7, 1, 2)):
        assert talk.ask(command) is None
        assert talk.state() == (State.PREPARE_COMMIT, 7, 1)
    assert talk.complete() == {waiting: (7, 1)}


@pytest.mark.parametrize("state", [*IDLE, State.ONGOING])
def test_there_is_nothing_to_complete_unless_a_transaction_ends(state: State) -> None:
    talk = in_state(state)
    before = talk.machine.find(ID)
    assert talk.ask(Complete(ID, 7, 0, before.number)) is None
    assert talk.machine.find(ID) == before


def test_a_delayed_completion_does_not_complete_a_later_transaction_of_the_same_epoch() -> None:
    talk = ongoing()
    talk.wait(commit())
    (ending,) = talk.machine.ending()
    talk.complete()
    talk.ask(add(0, P1))
    waiting = talk.wait(commit())
    assert talk.ask(ending.completion) is None
    assert talk.state() == (State.PREPARE_COMMIT, 7, 0)
    assert talk.complete() == {waiting: (7, 0)}


def test_an_operator_aborts_over_the_producers_head() -> None:
    talk = ongoing()
    first, second = talk.wait(Abort(ID)), talk.wait(Abort(ID))
    assert talk.state() == (State.PREPARE_ABORT, 7, 1)
    talk.refused(commit(0), TransactionFenced)
    assert talk.complete().keys() == {first, second}
    talk.ask(Abort(ID))
    for epoch in (0, 1):
        for command in (add(epoch), commit(epoch), abort(epoch, bumps=True), init(known=(7, epoch))):
            talk.refused(command, TransactionFenced)
    assert talk.ask(init()) == (7, 2)


@pytest.mark.parametrize("state", [State.EMPTY, State.PREPARE_COMMIT, State.COMPLETE_COMMIT])
def test_only_what_is_under_way_can_be_aborted(state: State) -> None:
    in_state(state).refused(Abort(ID), InvalidTransactionState)


def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced() -> None:
    talk = empty()
    talk.pass_time(1000)
    talk.ask(add(0))
    talk.pass_time(TIMEOUT_MS - 1)
    talk.ask(add(0, P1))
    assert talk.machine.deadline_ms() == 1000 + TIMEOUT_MS
    assert talk.machine.due(talk.now) == []
    assert talk.ask(Expire(ID)) is None
    assert talk.state() == (State.ONGOING, 7, 0)
    talk.pass_time(1)
    assert talk.machine.due(talk.now) == [Expire(ID)]
    assert talk.machine.due(talk.now) == [Expire(ID)]
    assert talk.ask(Expire(ID)) is None
    assert talk.state() == (State.PREPARE_ABORT, 7, 1)
    assert (talk.machine.due(talk.now), talk.machine.deadline_ms()) == ([], None)
    talk.refused(commit(0), TransactionFenced)
    talk.refused(abort(0, bumps=True), TransactionFenced)
    assert talk.complete() == {}
    talk.refused(init(known=(7, 0)), TransactionFenced)
    assert talk.ask(init()) == (7, 2)


def test_an_expiry_that_comes_late_does_not_touch_the_next_transaction() -> None:
    talk = ongoing()
    talk.pass_time(TIMEOUT_MS)
    (expiry,) = talk.machine.due(talk.now)
    talk.wait(commit())
    assert talk.ask(expiry) is None
    assert talk.state() == (State.PREPARE_COMMIT, 7, 0)
    talk.complete()
    talk.ask(add(0))
    assert talk.ask(expiry) is None
    assert talk.state() == (State.ONGOING, 7, 0)


def test_an_end_is_begun_once_however_often_somebody_asks_for_it() -> None:
    talk = ongoing()
    talk.wait(end(is_commit=True))
    assert [ending.id for ending in talk.machine.take_new_endings()] == [ID]
    talk.wait(end(is_commit=True))
    talk.wait(init())
    # What has failed is tried again at the pace of whoever carries it out, and not at that of those who ask.
    assert talk.machine.take_new_endings() == []
    assert [ending.id for ending in talk.machine.ending()] == [ID]
