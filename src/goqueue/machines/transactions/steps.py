"""The rules of a transaction: functions that take one, and return its next value with the replies to send.

| state      | Init           | AddPartitions | End                              | Abort; Expire         | Complete    |
|            |                | AddOffsets    |                                  |                       |             |
|------------|----------------|---------------|----------------------------------|-----------------------|-------------|
| (unknown)  | EMPTY          | refused       | refused                          | refused; nothing      | nothing     |
| EMPTY      | EMPTY          | ONGOING       | refused (*)                      | refused; nothing      | nothing     |
| ONGOING    | PREPARE_ABORT, | ONGOING       | PREPARE_COMMIT or PREPARE_ABORT, | PREPARE_ABORT,        | nothing     |
|            | waits          |               | waits                            | Abort waits           |             |
| PREPARE_x  | waits          | refused for   | by the same, the same way: waits | of an abort waits,    | COMPLETE_x, |
|            |                | now           | otherwise refused                | otherwise refused     | all replies |
| COMPLETE_x | EMPTY          | ONGOING       | by the same, the same way: same  | of an abort: replies, | nothing     |
|            |                |               | reply, otherwise refused (*)     | otherwise refused     |             |

(*) If it bumps the epoch, an abort without a transaction is allowed, and makes it COMPLETE_ABORT at once: there is
nothing to mark. So a producer that does not know whether its transaction has begun can make sure that it never does.

The reply to an end comes when the transaction has ended everywhere, not when that is decided: later requests of the
producer find no trace of it. `PREPARE_x` is stored before the first marker is written and is final, so after a crash
the markers are written (again) in the same way.

**Replies before durability.** The end of a transaction: `PREPARE_x` and the markers are durable, and lead to the same
end after a crash. An addition to a transaction: nothing is written because of it before it is durable
(`broker/transactions/coordination.known`). An identity is never sent before it is durable: another producer could get
it.

**Identities.** A producer acts as (producer id, epoch), and only the present identity may act. Each of these makes the
next one the present one, which is the next epoch or, at the end of epochs, epoch 0 of a new producer id:

- Init without a known identity: a takeover, there is no `previous`;
- Init by the holder of the present identity; its open transaction is aborted;
- End, if it bumps the epoch;
- an abort without the producer (a takeover, Abort, Expire), there is no `previous`.

A bump comes with the decision to end and not with its completion: the markers carry the raised epoch, so partitions
refuse late batches. After an abort without the producer, no producer holds the present identity, and none ever will: a
takeover raises the epoch once more when it is carried out. So it need not know whether a producer had got the raised
one, and it gets the same identity whether or not there was a crash in between. The epoch above the last one is used in
such aborts and in markers only: so every producer can be fenced at the end of epochs, too.

A producer that gets no reply asks again with its old identity, which is `previous` then. It gets the present one, and
nothing changes. That holds until a transaction begins with the present identity: its holder knows it then, and a later
repetition is an old one, and refused. So a request of one transaction never touches a later one, unless both have the
same identity: a producer that never bumps has to take care of that itself.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from goqueue.errors import (
    ConcurrentTransactions,
    GoQueueError,
    Invalid,
    InvalidTransactionState,
    InvalidTransactionTimeout,
    ProducerMismatch,
    TransactionFenced,
)
from goqueue.machines.decision import Now, TicketReply
from goqueue.machines.transactions.values import (
    EPOCH_MAX,
    GROUPS_MAX,
    IDLE_MS,
    TIMEOUT_MAX_MS,
    TIMEOUT_MIN_MS,
    WAITING_ENDS_MAX,
    AddOffsets,
    AddPartitions,
    Complete,
    EndTransaction,
    Init,
    ProducerEpoch,
    Transaction,
    WaitingInit,
)
from goqueue.model.sinks import is_sink_key
from goqueue.model.topic import TopicPartition
from goqueue.model.transactions import TransactionState


class TransactionStep(NamedTuple):
    """The next value of a transaction, and the replies to send; `is_told_at_once` as in a `Decision`."""

    transaction: Transaction
    answers: tuple[TicketReply, ...] = ()
    is_told_at_once: bool = False


# -- identities


def init(transaction: Transaction | None, command: Init, ticket: int, now: Now) -> TransactionStep:
    """Give a producer its identity: at once, or when the open transaction has ended."""
    _check_init(command)
    if transaction is None:
        transaction = Transaction(
            id=command.id,
            producer_id=command.spare_producer_id,
            epoch=0,
            timeout_ms=command.timeout_ms,
            previous=command.known,
            updated_ms=now.wall_ms,
            deadline_ms=now.monotonic_ms + IDLE_MS,
        )
        return TransactionStep(transaction, (TicketReply(ticket, transaction.identity),))
    _check_known(transaction, command.known)
    if transaction.is_ongoing:
        if command.known is None:
            transaction = fence(transaction, now)
        else:
            transaction = _prepare(transaction, now, is_commit=False, spare_producer_id=command.spare_producer_id)
    if not transaction.is_ending:
        transaction = _init_idle(transaction, command, now)
        return TransactionStep(transaction, (TicketReply(ticket, transaction.identity),))
    earlier = transaction.waiting_init
    answers = () if earlier is None else (TicketReply(earlier.ticket, _concurrent(transaction)),)
    return TransactionStep(replace(transaction, waiting_init=WaitingInit(ticket, command)), answers)


def _init_idle(transaction: Transaction, command: Init, now: Now) -> Transaction:
    """Make the producer's identity the present one; its `known` one has been checked."""
    if command.known is not None and command.known != transaction.identity:
        return replace(transaction, timeout_ms=command.timeout_ms)
    identity = _following(transaction, command.spare_producer_id)
    return replace(
        transaction,
        producer_id=identity.producer_id,
        epoch=identity.epoch,
        previous=command.known,
        timeout_ms=command.timeout_ms,
        state=TransactionState.EMPTY,
        started_ms=-1,
        updated_ms=now.wall_ms,
        deadline_ms=now.monotonic_ms + IDLE_MS,
    )


def _check_init(command: Init) -> None:
    if not command.id:
        raise Invalid("a transactional id cannot be empty")
    if is_sink_key(command.id):
        raise Invalid(f"{command.id!r} stands for all transactions of a sink, and is none itself")
    if not TIMEOUT_MIN_MS <= command.timeout_ms <= TIMEOUT_MAX_MS:
        raise InvalidTransactionTimeout(
            f"a transaction cannot have {command.timeout_ms} ms", hint=f"{TIMEOUT_MIN_MS} to {TIMEOUT_MAX_MS}"
        )


def _check_known(transaction: Transaction, known: ProducerEpoch | None) -> None:
    """Refuse a returning producer unless it holds the present identity, or the one before whose reply may be lost."""
    if known is not None and known not in (transaction.previous, transaction.holder):
        raise TransactionFenced(
            f"producer {known.producer_id} with epoch {known.epoch} is not the present one of {transaction.id!r}",
            hint="without an identity, it can take over",
        )


# -- partitions and offsets of a transaction


def add_partitions(transaction: Transaction, command: AddPartitions, ticket: int, now: Now) -> TransactionStep:
    """Add partitions to the transaction."""
    _check_adding(transaction, ProducerEpoch(command.producer_id, command.epoch))
    if not command.partitions <= transaction.partitions:
        transaction = _begun(transaction, now)
        transaction = replace(transaction, partitions=transaction.partitions | command.partitions)
    return TransactionStep(transaction, (TicketReply(ticket, None),), is_told_at_once=True)


def add_offsets(transaction: Transaction, command: AddOffsets, ticket: int, now: Now) -> TransactionStep:
    """Add the offsets of a group to the transaction."""
    _check_adding(transaction, ProducerEpoch(command.producer_id, command.epoch))
    if command.group not in transaction.groups:
        if len(transaction.groups) >= GROUPS_MAX:
            raise InvalidTransactionState(
                f"the transaction of {transaction.id!r} sets offsets of {GROUPS_MAX} groups, which is all that it may",
                hint="commit it, and go on in another one",
            )
        transaction = _begun(transaction, now)
        transaction = replace(transaction, groups=transaction.groups | {command.group})
    return TransactionStep(transaction, (TicketReply(ticket, None),), is_told_at_once=True)


def verify(transaction: Transaction, caller: ProducerEpoch, partitions: frozenset[TopicPartition]) -> None:
    """Raise unless the caller's transaction is open and has the partitions."""
    check_caller(transaction, caller)
    if not transaction.is_ongoing:
        raise InvalidTransactionState(
            f"no transaction of {transaction.id!r} is under way", hint=f"its state is {transaction.state}"
        )
    missing = ", ".join(f"{topic}-{number}" for topic, number in sorted(partitions - transaction.partitions))
    if missing:
        raise InvalidTransactionState(f"the transaction of {transaction.id!r} does not have {missing}")


def _check_adding(transaction: Transaction, caller: ProducerEpoch) -> None:
    check_caller(transaction, caller)
    if transaction.is_ending:
        raise _concurrent(transaction)


def _begun(transaction: Transaction, now: Now) -> Transaction:
    """Begin a transaction, unless one is open."""
    if transaction.is_ongoing:
        return replace(transaction, updated_ms=now.wall_ms)
    return replace(
        transaction,
        state=TransactionState.ONGOING,
        previous=None,
        number=transaction.number + 1,
        started_ms=now.wall_ms,
        updated_ms=now.wall_ms,
        deadline_ms=now.monotonic_ms + transaction.timeout_ms,
    )


# -- ends


def end(transaction: Transaction, command: EndTransaction, ticket: int, now: Now) -> TransactionStep:
    """Decide how a transaction ends; the reply, at the end, is the identity to continue with."""
    caller = ProducerEpoch(command.producer_id, command.epoch)
    spare = command.spare_producer_id if command.bumps_epoch else None
    if transaction.is_ongoing:
        check_caller(transaction, caller)
        prepared = _prepare(transaction, now, is_commit=command.is_commit, spare_producer_id=spare)
        return wait_for_end(prepared, ticket)
    if caller == transaction.previous and transaction.state is not TransactionState.EMPTY:
        return _end_again(transaction, command, ticket)
    check_caller(transaction, caller)
    if command.is_commit or spare is None:
        raise _not_under_way(transaction, "committed" if command.is_commit else "aborted")
    prepared = _prepare(transaction, now, is_commit=False, spare_producer_id=spare)
    ended = _completed(prepared, now)
    return TransactionStep(ended, (TicketReply(ticket, ended.identity),))


def _end_again(transaction: Transaction, command: EndTransaction, ticket: int) -> TransactionStep:
    if command.is_commit != transaction.is_committed:
        raise _not_under_way(transaction, "committed" if command.is_commit else "aborted")
    if transaction.is_ending:
        return wait_for_end(transaction, ticket)
    return TransactionStep(transaction, (TicketReply(ticket, transaction.identity),))


def abort(transaction: Transaction, ticket: int, now: Now) -> TransactionStep:
    """Abort without the producer; the reply comes when the transaction has ended."""
    if transaction.is_ongoing:
        return wait_for_end(fence(transaction, now), ticket)
    if transaction.state is TransactionState.PREPARE_ABORT:
        return wait_for_end(transaction, ticket)
    if transaction.state is TransactionState.COMPLETE_ABORT:
        return TransactionStep(transaction, (TicketReply(ticket, transaction.identity),))
    raise _not_under_way(transaction, "aborted")


def fence(transaction: Transaction, now: Now) -> Transaction:
    """Abort without the producer: no producer holds the raised epoch, so none can act."""
    return replace(
        transaction,
        state=TransactionState.PREPARE_ABORT,
        epoch=transaction.epoch + 1,
        previous=None,
        updated_ms=now.wall_ms,
        deadline_ms=None,
    )


def prepare_commit(transaction: Transaction, now: Now) -> Transaction:
    """Commit the open transaction together with others, by the word of a sink and not of its producer.

    The epoch is raised, so that no late request of this transaction can mean a later one. At the end of epochs it
    stays: the next producer has to take a new identity anyway.
    """
    prepared = _prepare(transaction, now, is_commit=True, spare_producer_id=None)
    return replace(prepared, epoch=min(transaction.epoch + 1, EPOCH_MAX))


def complete(transaction: Transaction, command: Complete, ticket: int, now: Now) -> TransactionStep:
    """End the transaction, send all replies that waited, and carry out the InitProducer that waited."""
    marked = (command.producer_id, command.epoch, command.number)
    if not transaction.is_ending or marked != (*transaction.identity, transaction.number):
        return TransactionStep(transaction, (TicketReply(ticket, None),))
    ended = _completed(transaction, now)
    answers = [TicketReply(waiting, ended.identity) for waiting in transaction.waiting_ends]
    if transaction.waiting_init is not None:
        ended = _init_idle(ended, transaction.waiting_init.command, now)
        answers.append(TicketReply(transaction.waiting_init.ticket, ended.identity))
    is_told_at_once = transaction.waiting_init is None
    return TransactionStep(ended, (*answers, TicketReply(ticket, None)), is_told_at_once=is_told_at_once)


def wait_for_end(transaction: Transaction, ticket: int) -> TransactionStep:
    """Add a waiting caller; beyond the limit the oldest is dropped, which has timed out by then and may ask again."""
    waiting = (*transaction.waiting_ends, ticket)
    answers = tuple(TicketReply(each, _concurrent(transaction)) for each in waiting[:-WAITING_ENDS_MAX])
    return TransactionStep(replace(transaction, waiting_ends=waiting[-WAITING_ENDS_MAX:]), answers)


def _prepare(transaction: Transaction, now: Now, *, is_commit: bool, spare_producer_id: int | None) -> Transaction:
    """Decide the end for the holder of the present identity; with a spare producer id, it gets the next identity."""
    prepared = replace(
        transaction,
        state=TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT,
        previous=transaction.identity,
        updated_ms=now.wall_ms,
        deadline_ms=None,
    )
    if spare_producer_id is None:
        return prepared
    following = _following(transaction, spare_producer_id)
    return replace(
        prepared,
        epoch=transaction.epoch + 1,
        next=None if following.producer_id == transaction.producer_id else following,
    )


def _completed(transaction: Transaction, now: Now) -> Transaction:
    identity = transaction.next or transaction.identity
    is_commit = transaction.is_committed
    return replace(
        transaction,
        producer_id=identity.producer_id,
        epoch=identity.epoch,
        state=TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT,
        next=None,
        partitions=frozenset(),
        groups=frozenset(),
        updated_ms=now.wall_ms,
        deadline_ms=now.monotonic_ms + IDLE_MS,
        waiting_ends=(),
        waiting_init=None,
    )


def _following(transaction: Transaction, spare_producer_id: int) -> ProducerEpoch:
    if transaction.epoch < EPOCH_MAX:
        return ProducerEpoch(transaction.producer_id, transaction.epoch + 1)
    return ProducerEpoch(spare_producer_id, 0)


# -- refusals


def check_caller(transaction: Transaction, caller: ProducerEpoch) -> None:
    """Refuse all callers but the holder of the present identity."""
    if caller.producer_id != transaction.producer_id:
        raise ProducerMismatch(
            f"the transactional id {transaction.id!r} belongs to producer {transaction.producer_id}, "
            f"not {caller.producer_id}"
        )
    if caller != transaction.holder:
        raise TransactionFenced(
            f"producer {caller.producer_id} acts for {transaction.id!r} with epoch {caller.epoch}, which is not its "
            f"present one: another producer has taken over, or a transaction took too long and was aborted"
        )


def _concurrent(transaction: Transaction) -> GoQueueError:
    return ConcurrentTransactions(f"the last transaction of {transaction.id!r} is still being ended", hint="try again")


def _not_under_way(transaction: Transaction, wanted: str) -> GoQueueError:
    return InvalidTransactionState(
        f"the transaction of {transaction.id!r} is in state {transaction.state} and cannot be {wanted}"
    )
