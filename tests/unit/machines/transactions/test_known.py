"""What the coordinator tells of a transactional id: to its holder, by its producer, and of how transactions ended."""

from __future__ import annotations

import pytest

from goqueue.errors import ProducerMismatch, TransactionFenced
from goqueue.machines.transactions.values import EPOCH_MAX, Abort, EndCause, Expire
from tests.unit.machines.transactions.transaction_kit import (
    ID,
    TIMEOUT_MS,
    Talk,
    abort,
    add,
    commit,
    empty,
    init,
    ongoing,
)


def test_only_the_holder_of_the_present_identity_is_told_how_it_stands() -> None:
    talk = ongoing()
    assert talk.machine.held(ID, 7, 0) is talk.machine.find(ID)
    with pytest.raises(TransactionFenced):
        talk.machine.held(ID, 7, 1)
    for wrong in ((ID, 8, 0), ("unknown", 7, 0)):
        with pytest.raises(ProducerMismatch):
            talk.machine.held(*wrong)
    talk.wait(commit(bumps=True))
    # The new epoch is nobody's before its holder is told.
    for epoch in (0, 1):
        with pytest.raises(TransactionFenced):
            talk.machine.held(ID, 7, epoch)
    talk.complete()
    assert talk.machine.held(ID, 7, 1).epoch == 1


def test_an_id_is_found_by_its_present_producer_id_only() -> None:
    assert Talk().machine.find_producer(7) is None
    talk = empty(EPOCH_MAX)
    assert talk.machine.find_producer(7) is talk.machine.find(ID)
    assert talk.machine.find_producer(8) is None
    talk.ask(init((7, EPOCH_MAX), spare=8))
    assert talk.machine.find_producer(7) is None
    assert talk.machine.find_producer(8) is talk.machine.find(ID)
    again = Talk(talk.log)
    assert again.machine.find_producer(8) == talk.machine.find(ID)


def test_transactions_are_counted_by_why_they_ended() -> None:
    talk = ongoing()
    talk.wait(commit(bumps=True))
    talk.complete()
    talk.ask(add(1))
    talk.wait(abort(1, bumps=True))
    talk.complete()
    talk.ask(add(2))
    talk.wait(init(spare=9))
    talk.complete()
    epoch = talk.machine.find(ID).epoch
    talk.ask(add(epoch))
    talk.wait(Abort(ID))
    talk.complete()
    talk.ask(init(spare=9))
    talk.ask(add(talk.machine.find(ID).epoch))
    talk.pass_time(TIMEOUT_MS)
    talk.ask(Expire(ID))
    assert talk.machine.ended == {
        EndCause.COMMIT: 1,
        EndCause.ABORT: 1,
        EndCause.INIT: 1,
        EndCause.OPERATOR: 1,
        EndCause.TIMEOUT: 1,
    }


def test_what_is_asked_for_again_is_not_counted_again() -> None:
    talk = ongoing()
    talk.wait(commit(bumps=True))
    talk.wait(commit(bumps=True))
    talk.complete()
    talk.ask(commit(bumps=True))
    # Nor is an end of nothing.
    talk.ask(abort(1, bumps=True))
    assert talk.machine.ended == {EndCause.COMMIT: 1}
