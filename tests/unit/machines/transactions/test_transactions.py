"""The transaction coordinator, as transcripts: who gets which identity, and what belongs to a transaction."""

from __future__ import annotations

import pytest

from goqueue.errors import (
    ConcurrentTransactions,
    Invalid,
    InvalidTransactionState,
    InvalidTransactionTimeout,
    ProducerMismatch,
    TransactionFenced,
    UnknownTransaction,
)
from goqueue.machines.transactions.values import (
    EPOCH_MAX,
    GROUPS_MAX,
    TIMEOUT_MAX_MS,
    Abort,
    AddPartitions,
    Command,
    Complete,
    Expire,
    Forget,
    Init,
)
from tests.unit.machines.transactions.transaction_kit import (
    ALL,
    COMPLETED,
    ID,
    IDLE,
    P0,
    P1,
    PREPARED,
    TIMEOUT_MS,
    WALL_MS,
    State,
    Talk,
    abort,
    add,
    commit,
    empty,
    in_state,
    init,
    offsets,
    ongoing,
)

BOTH = frozenset({P0, P1})
BILLING = frozenset({"billing"})


def test_the_life_of_a_committed_transaction() -> None:
    talk = Talk()
    assert talk.ask(init(spare=7)) == (7, 0)
    assert talk.state() == (State.EMPTY, 7, 0)
    talk.pass_time(5)
    assert talk.ask(add(0, P0)) is None
    assert talk.ask(add(0, P0, P1)) is None
    assert talk.ask(offsets()) is None
    assert talk.machine.ending() == ()
    found = talk.machine.find(ID)
    assert (found.state, found.partitions, found.groups) == (State.ONGOING, BOTH, BILLING)
    assert (found.started_ms, found.timeout_ms, found.number) == (WALL_MS + 5, TIMEOUT_MS, 1)

    waiting = talk.wait(commit())
    (ending,) = talk.machine.ending()
    assert (ending.id, ending.producer_id, ending.epoch, ending.is_commit) == (ID, 7, 0, True)
    assert (ending.partitions, ending.groups) == (BOTH, BILLING)
    assert talk.complete() == {waiting: (7, 0)}
    assert talk.state() == (State.COMPLETE_COMMIT, 7, 0)
    assert (talk.machine.find(ID).partitions, talk.machine.ending()) == (frozenset(), ())

    assert talk.ask(add(0, P1)) is None
    assert (talk.machine.find(ID).partitions, talk.machine.find(ID).groups) == (frozenset({P1}), frozenset())
    waiting = talk.wait(abort())
    assert talk.complete() == {waiting: (7, 0)}
    assert talk.state() == (State.COMPLETE_ABORT, 7, 0)


def test_what_decide_says_is_not_done_until_it_is_adopted() -> None:
    talk = ongoing()
    before = talk.machine.find(ID)
    for command in (init(), add(0, P1), offsets(), commit(), Abort(ID)):
        talk.machine.decide(command, 99, talk.now)
        assert talk.machine.find(ID) is before
        assert talk.machine.ending() == ()


@pytest.mark.parametrize("command", [add(), offsets(), commit(), abort(bumps=True)])
def test_nobody_acts_under_an_id_that_is_not_known(command: Command) -> None:
    Talk().refused(command, ProducerMismatch)


def test_an_unknown_id_cannot_be_found_or_aborted_and_needs_no_completion() -> None:
    talk = Talk()
    with pytest.raises(UnknownTransaction):
        talk.machine.find(ID)
    talk.refused(Abort(ID), UnknownTransaction)
    for command in (Complete(ID, 7, 0, 1), Expire(ID), Forget(ID)):
        assert talk.ask(command) is None
    assert (talk.machine.all(), talk.log) == ([], [])


@pytest.mark.parametrize("timeout_ms", [-1, 0, TIMEOUT_MAX_MS + 1])
def test_a_timeout_out_of_range_is_refused(timeout_ms: int) -> None:
    Talk().refused(init(timeout_ms=timeout_ms), InvalidTransactionTimeout)
    ongoing().refused(init(timeout_ms=timeout_ms), InvalidTransactionTimeout)


@pytest.mark.parametrize("timeout_ms", [1, TIMEOUT_MAX_MS])
def test_a_timeout_at_the_limits_is_taken(timeout_ms: int) -> None:
    talk = Talk()
    talk.ask(init(timeout_ms=timeout_ms))
    assert talk.machine.find(ID).timeout_ms == timeout_ms


def test_an_empty_transactional_id_is_refused() -> None:
    Talk().refused(Init("", TIMEOUT_MS, 7), Invalid)


@pytest.mark.parametrize("state", IDLE)
def test_a_takeover_of_an_idle_id_raises_the_epoch_and_fences_the_former_producer(state: State) -> None:
    talk = in_state(state)
    assert talk.ask(init(timeout_ms=1000)) == (7, 1)
    assert talk.state() == (State.EMPTY, 7, 1)
    assert talk.machine.find(ID).timeout_ms == 1000
    for command in (add(0), offsets(0), commit(0), abort(0, bumps=True), init(known=(7, 0))):
        talk.refused(command, TransactionFenced)
    assert talk.ask(init()) == (7, 2)


@pytest.mark.parametrize("state", IDLE)
def test_a_producer_that_goes_on_gets_a_new_epoch_and_the_same_again_if_it_did_not_hear(state: State) -> None:
    talk = in_state(state)
    assert talk.ask(init(known=(7, 0))) == (7, 1)
    assert talk.ask(init(known=(7, 0))) == (7, 1)
    assert talk.state() == (State.EMPTY, 7, 1)
    talk.ask(add(1))
    talk.refused(init(known=(7, 0)), TransactionFenced)
    assert talk.state() == (State.ONGOING, 7, 1)


def test_a_producer_that_asks_again_may_change_its_timeout() -> None:
    talk = empty()
    talk.ask(init(known=(7, 0)))
    assert talk.ask(init(known=(7, 0), timeout_ms=1000)) == (7, 1)
    assert talk.machine.find(ID).timeout_ms == 1000


def test_a_takeover_in_between_fences_a_producer_that_did_not_hear() -> None:
    talk = empty()
    assert talk.ask(init(known=(7, 0))) == (7, 1)
    assert talk.ask(init()) == (7, 2)
    talk.refused(init(known=(7, 0)), TransactionFenced)
    talk.refused(init(known=(7, 1)), TransactionFenced)


@pytest.mark.parametrize("known", [(7, 2), (8, 0), (8, 1)])
def test_a_producer_that_was_never_there_cannot_go_on(known: tuple[int, int]) -> None:
    talk = empty()
    talk.ask(init(known=(7, 0)))
    talk.refused(init(known=known), TransactionFenced)


def test_a_producer_whose_id_was_forgotten_goes_on_with_a_new_identity_which_it_can_ask_for_again() -> None:
    talk = Talk()
    assert talk.ask(init(known=(3, 4), spare=7)) == (7, 0)
    assert talk.ask(init(known=(3, 4), spare=8)) == (7, 0)
    talk.refused(init(known=(3, 3)), TransactionFenced)


def test_a_takeover_aborts_what_is_under_way_and_waits_for_it() -> None:
    talk = ongoing()
    waiting = talk.wait(init())
    assert talk.state() == (State.PREPARE_ABORT, 7, 1)
    (ending,) = talk.machine.ending()
    assert (ending.epoch, ending.is_commit, ending.partitions) == (1, False, frozenset({P0}))
    for command in (add(0), offsets(0), commit(0), abort(0), init(known=(7, 0)), init(known=(7, 1))):
        talk.refused(command, TransactionFenced)
    assert talk.complete() == {waiting: (7, 2)}
    assert talk.state() == (State.EMPTY, 7, 2)


def test_a_producer_that_goes_on_has_its_own_transaction_aborted() -> None:
    talk = ongoing()
    waiting = talk.wait(init(known=(7, 0)))
    assert talk.state() == (State.PREPARE_ABORT, 7, 1)
    assert talk.complete() == {waiting: (7, 1)}
    assert talk.ask(init(known=(7, 0))) == (7, 1)
    assert talk.ask(add(1)) is None


@pytest.mark.parametrize("state", PREPARED)
@pytest.mark.parametrize(
    ("bumps", "known", "given"),
    [
        (False, None, (7, 1)),
        (False, (7, 0), (7, 1)),
        (True, None, (7, 2)),
        (True, (7, 0), (7, 1)),
    ],
)
def test_an_init_waits_for_the_end_that_is_decided(
    state: State, bumps: bool, known: tuple[int, int] | None, given: tuple[int, int]
) -> None:
    talk = in_state(state, bumps=bumps)
    ended, waiting = talk.ticket, talk.wait(init(known=known, timeout_ms=1000))
    assert talk.complete() == {ended: (7, int(bumps)), waiting: given}
    assert talk.machine.find(ID).timeout_ms == 1000


def test_of_several_that_wait_the_last_one_takes_over() -> None:
    talk = ongoing()
    first = talk.wait(init())
    assert talk.say(init()) == {first: "concurrent_transactions"}
    second = talk.ticket
    assert talk.say(init()) == {second: "concurrent_transactions"}
    third = talk.ticket
    assert talk.complete() == {third: (7, 2)}


def test_at_the_end_of_epochs_a_producer_gets_the_spare_producer_id() -> None:
    talk = empty(EPOCH_MAX - 1)
    assert talk.ask(init(spare=900)) == (7, EPOCH_MAX)
    assert talk.ask(init(spare=901)) == (901, 0)
    talk.refused(add(EPOCH_MAX), ProducerMismatch)


def test_a_producer_at_the_end_of_epochs_can_ask_again() -> None:
    talk = empty(EPOCH_MAX)
    assert talk.ask(init(known=(7, EPOCH_MAX), spare=900)) == (900, 0)
    assert talk.ask(init(known=(7, EPOCH_MAX), spare=901)) == (900, 0)


def test_the_epoch_beyond_the_last_fences_and_is_given_to_nobody() -> None:
    assert EPOCH_MAX + 1 == 2**15 - 1
    talk = ongoing(EPOCH_MAX)
    waiting = talk.wait(init(spare=900))
    assert talk.state() == (State.PREPARE_ABORT, 7, EPOCH_MAX + 1)
    talk.refused(abort(EPOCH_MAX + 1), TransactionFenced)
    assert talk.complete() == {waiting: (900, 0)}

    talk = ongoing(EPOCH_MAX)
    waiting = talk.wait(init(known=(7, EPOCH_MAX), spare=900))
    talk.refused(commit(EPOCH_MAX + 1), TransactionFenced)
    assert talk.complete() == {waiting: (900, 0)}


@pytest.mark.parametrize("state", IDLE)
@pytest.mark.parametrize("command", [add(0), offsets(0)])
def test_the_first_addition_begins_a_transaction(state: State, command: Command) -> None:
    talk = in_state(state)
    number = talk.machine.find(ID).number
    talk.pass_time(50)
    assert talk.ask(command) is None
    found = talk.machine.find(ID)
    assert (found.state, found.started_ms, found.number) == (State.ONGOING, WALL_MS + 50, number + 1)


@pytest.mark.parametrize("command", [add(0, P0), offsets(0), AddPartitions(ID, 7, 0, frozenset())])
def test_what_is_there_already_is_not_stored_again(command: Command) -> None:
    talk = ongoing()
    talk.ask(offsets())
    stored = len(talk.log)
    assert talk.ask(command) is None
    assert len(talk.log) == stored


def test_a_transaction_sets_offsets_of_so_many_groups_and_no_more() -> None:
    talk = empty()
    for number in range(GROUPS_MAX):
        assert talk.ask(offsets(group=f"g-{number}")) is None
    talk.refused(offsets(group="one more"), InvalidTransactionState)
    assert talk.ask(offsets(group="g-0")) is None
    talk.wait(commit())
    talk.complete()
    assert talk.ask(offsets(group="one more")) is None


def test_nothing_begins_no_transaction() -> None:
    talk = empty()
    assert talk.ask(AddPartitions(ID, 7, 0, frozenset())) is None
    assert talk.state() == (State.EMPTY, 7, 0)


@pytest.mark.parametrize("state", PREPARED)
def test_nothing_can_be_added_while_a_transaction_ends(state: State) -> None:
    for command in (add(0, P1), offsets(0)):
        in_state(state).refused(command, ConcurrentTransactions)
        in_state(state, bumps=True).refused(command, TransactionFenced)


@pytest.mark.parametrize("state", ALL)
def test_only_the_present_identity_can_add(state: State) -> None:
    talk = in_state(state)
    for wrong in (add(1), offsets(1)):
        talk.refused(wrong, TransactionFenced)
    for wrong in (add(producer=8), offsets(producer=8)):
        talk.refused(wrong, ProducerMismatch)


def test_partitions_can_be_verified() -> None:
    talk = ongoing()
    talk.machine.verify(ID, 7, 0, P0)
    for arguments, error in [
        ((ID, 7, 0, P1), InvalidTransactionState),
        ((ID, 7, 1, P0), TransactionFenced),
        ((ID, 8, 0, P0), ProducerMismatch),
        (("other", 7, 0, P0), ProducerMismatch),
    ]:
        with pytest.raises(error):
            talk.machine.verify(*arguments)


@pytest.mark.parametrize("state", [state for state in ALL if state is not State.ONGOING])
def test_nothing_can_be_written_unless_a_transaction_is_under_way(state: State) -> None:
    talk = in_state(state)
    with pytest.raises(InvalidTransactionState):
        talk.machine.verify(ID, 7, 0, P0)


def test_writes_of_an_ended_transaction_are_fenced_if_its_end_raised_the_epoch() -> None:
    for state in (*PREPARED, *COMPLETED):
        with pytest.raises(TransactionFenced):
            in_state(state, bumps=True).machine.verify(ID, 7, 0, P0)
