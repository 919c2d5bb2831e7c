"""Transactions: who acts under a transactional id, what belongs to its transaction, and how it ends.

The machine decides (`machines/transactions/machine`), and `marker_writer` carries out what it has decided to end. A
caller that waits for an end is answered within `ANSWER_WITHIN_S`: an offline partition takes no marker, maybe for days.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from goqueue.broker.admission import Caller, operation
from goqueue.broker.groups.membership import require_no_queue, set_offsets
from goqueue.broker.transactions.producers import take_producer_id
from goqueue.errors import (
    CoordinatorUnavailable,
    GoQueueError,
    Invalid,
    InvalidTransactionState,
    ProducerMismatch,
    TopicProtected,
    UnknownTopic,
    UnknownTransaction,
)
from goqueue.machines.groups.commands import CommitOffsets
from goqueue.machines.producer import KnownProducer
from goqueue.machines.transactions.values import (
    EPOCH_MAX,
    Abort,
    AddOffsets,
    AddPartitions,
    EndCause,
    EndTransaction,
    Init,
    ProducerEpoch,
    Transaction,
)
from goqueue.model.group_name import check_group_name
from goqueue.model.topic import TopicPartition, is_internal
from goqueue.model.transactions import ID_BYTES_MAX, TransactionState

if TYPE_CHECKING:
    from goqueue.broker.transactions.service import TransactionService

ANSWER_WITHIN_S = 10.0
"""Less than clients wait for a reply, so that they hear why it takes so long."""


@operation("transactions.init", on="transaction", writes=True)
async def init_transactions(
    transactions: TransactionService,
    caller: Caller,
    transactional_id: str,
    timeout_ms: int,
    known: ProducerEpoch | None = None,
) -> ProducerEpoch:
    """Give the producer of a transactional id its identity; whoever acted under it before is fenced.

    A transaction that was under way is aborted first, unless `known` says that the caller merely goes on.
    """
    _check_id(transactional_id)
    spare = await take_producer_id(transactions)
    identity: ProducerEpoch = await ended(transactions, Init(transactional_id, timeout_ms, spare, known))
    return identity


def answer_by() -> float:
    """Return when whoever asks now has to be answered, for `ended`."""
    return asyncio.get_running_loop().time() + ANSWER_WITHIN_S


async def ended(
    transactions: TransactionService,
    command: Init | EndTransaction | Abort,
    *,
    deadline: float | None = None,
) -> Any:
    """Carry out a command that waits until a transaction has ended; CoordinatorUnavailable if that takes too long.

    What was decided stays so, and whoever asks again waits for the same end. Those who wait for several ends share one
    deadline (`answer_by`).
    """
    try:
        async with asyncio.timeout_at(answer_by() if deadline is None else deadline):
            return await transactions.submit(command.id, command)
    except TimeoutError:
        obstacle = transactions.markers.obstacle_of(command.id)
        if obstacle is None:
            raise CoordinatorUnavailable(
                f"the transaction of {command.id!r} has not ended within {ANSWER_WITHIN_S:g} s", hint="ask again"
            ) from None
        raise CoordinatorUnavailable(
            f"the transaction of {command.id!r} is decided and cannot end: {obstacle}",
            hint="see to the disk of that partition and start the broker again, or delete the topic; then ask again",
        ) from None


@operation("transactions.begin", on="transaction")
async def begin_transaction(
    transactions: TransactionService, caller: Caller, transactional_id: str, identity: ProducerEpoch
) -> Transaction:
    """Make sure that a transaction can begin: the identity is the present one, and the last transaction is over.

    Nothing changes. A transaction begins, and its time, with the first partition or group that becomes part of it.
    """
    transaction = held_transaction(transactions, transactional_id, identity)
    if transaction.is_ongoing or transaction.is_ending:
        raise InvalidTransactionState(
            f"a transaction of {transactional_id!r} is under way", hint="commit or abort it first"
        )
    return transaction


@operation("transactions.add_partitions", on="transaction", writes=True)
async def add_partitions(
    transactions: TransactionService,
    caller: Caller,
    transactional_id: str,
    identity: ProducerEpoch,
    partitions: frozenset[TopicPartition],
) -> Mapping[TopicPartition, GoQueueError]:
    """Say that a transaction is going to write to partitions; whoever writes has to wait until that is `known`.

    Returns the partitions that do not exist, or are the broker's own. If there are any, none was added.
    """
    refused = {each: refusal for each in partitions if (refusal := _refusal(transactions, each)) is not None}
    if not refused:
        await transactions.submit(transactional_id, AddPartitions(transactional_id, *identity, partitions))
    return refused


def _refusal(transactions: TransactionService, partition: TopicPartition) -> GoQueueError | None:
    if is_internal(partition.topic):
        # A marker in the log of a machine would be taken for a record of its own.
        return TopicProtected(f"{partition.topic!r} holds the broker's own state and is written by nobody else")
    if not 0 <= partition.partition < transactions.topics.partition_count(partition.topic):
        return UnknownTopic(f"there is no partition {partition.partition} of a topic {partition.topic!r}")
    return None


@operation("transactions.add_offsets", on="transaction", writes=True)
async def add_offsets(
    transactions: TransactionService, caller: Caller, transactional_id: str, identity: ProducerEpoch, group: str
) -> None:
    """Say that a transaction is going to set offsets of a group; whoever sets them waits until that is `known`."""
    check_group_name(group)
    require_no_queue(transactions.groups, group)
    await transactions.submit(transactional_id, AddOffsets(transactional_id, *identity, group))


@operation("transactions.commit_offsets", on="transaction", writes=True)
async def commit_transaction_offsets(
    transactions: TransactionService,
    caller: Caller,
    transactional_id: str,
    identity: ProducerEpoch,
    command: CommitOffsets,
    *,
    adds_group: bool,
) -> Sequence[GoQueueError | None]:
    """Set offsets of a group when the transaction commits; returns an error or None for each.

    With `adds_group` the group becomes part of the transaction on the way, otherwise it has to be already.
    """
    check_group_name(command.group)
    require_no_queue(transactions.groups, command.group)
    held_transaction(transactions, transactional_id, identity)
    # Nothing may come between the look at the transaction and what is stored because of it: the log of the group has to
    # be there, and that the group is part of the transaction has to be durable.
    await transactions.groups.machine(command.group)
    if adds_group:
        await transactions.submit(transactional_id, AddOffsets(transactional_id, *identity, command.group))
    await known(transactions, transactional_id)
    transaction = held_transaction(transactions, transactional_id, identity)
    if not transaction.is_ongoing:
        raise InvalidTransactionState(f"no transaction of {transactional_id!r} is under way")
    if command.group not in transaction.groups:
        raise InvalidTransactionState(f"group {command.group!r} is not part of the transaction of {transactional_id!r}")
    return await set_offsets(transactions.groups, replace(command, producer_id=identity.producer_id))


@operation("transactions.end", on="transaction", writes=True)
async def end_transaction(
    transactions: TransactionService,
    caller: Caller,
    transactional_id: str,
    identity: ProducerEpoch,
    *,
    is_commit: bool,
    bumps_epoch: bool = False,
    may_be_empty: bool = False,
) -> ProducerEpoch:
    """Commit or abort; at return it has happened in all partitions. Returns the identity to go on with.

    With `may_be_empty`, a commit before anything has become part of the transaction does nothing, and is no mistake.
    """
    if may_be_empty and is_commit and _is_empty(transactions, transactional_id, identity):
        return identity
    spare = await take_producer_id(transactions) if bumps_epoch and identity.epoch >= EPOCH_MAX else -1
    command = EndTransaction(
        transactional_id, *identity, is_commit=is_commit, bumps_epoch=bumps_epoch, spare_producer_id=spare
    )
    following: ProducerEpoch = await ended(transactions, command)
    return following


def _is_empty(transactions: TransactionService, transactional_id: str, identity: ProducerEpoch) -> bool:
    """Tell whether the caller holds the present identity, and has done nothing with it."""
    with suppress(GoQueueError):
        transaction = held_transaction(transactions, transactional_id, identity)
        return not transaction.is_ending and not transaction.is_ongoing
    return False


@operation("transactions.abort", on="transaction", writes=True)
async def abort_transaction(transactions: TransactionService, caller: Caller, transactional_id: str) -> None:
    """Abort whatever transaction is under way, over the head of its producer, who is fenced."""
    _find(transactions, transactional_id)
    await ended(transactions, Abort(transactional_id))


@operation("transactions.list", on="cluster")
async def list_transactions(transactions: TransactionService, caller: Caller) -> Sequence[Transaction]:
    """Return all transactional ids, in their order."""
    found = [transaction for machine in transactions.machines for transaction in machine.all()]
    return sorted(found, key=lambda transaction: transaction.id)


@operation("transactions.describe", on="transaction")
async def find_transaction(transactions: TransactionService, caller: Caller, transactional_id: str) -> Transaction:
    """Return what is known of a transactional id; UnknownTransaction if nothing is."""
    return _find(transactions, transactional_id)


class TransactionTally(NamedTuple):
    """How many transactional ids are in each state, which transaction is open longest, and how others have ended."""

    states: Mapping[TransactionState, int]
    oldest: Transaction | None
    ended: Mapping[EndCause, int]


@operation("transactions.tally", on="cluster")
async def tally_transactions(transactions: TransactionService, caller: Caller) -> TransactionTally:
    """Count transactions: as they are now, and those that were ended since the broker started."""
    states: Counter[TransactionState] = Counter()
    ended: Counter[EndCause] = Counter()
    opened = []
    for machine in transactions.machines:
        ended.update(machine.ended)
        for transaction in machine.all():
            states[transaction.state] += 1
            if transaction.is_ongoing or transaction.is_ending:
                opened.append(transaction)
    oldest = min(opened, key=lambda transaction: transaction.started_ms, default=None)
    return TransactionTally(states, oldest, ended)


@operation("producers.heartbeat", on="producer")
async def find_producer(transactions: TransactionService, caller: Caller, identity: ProducerEpoch) -> Transaction:
    """Return the transactional id that a producer acts under, if its identity is still the present one."""
    for machine in transactions.machines:
        found = machine.find_producer(identity.producer_id)
        if found is not None:
            return machine.held(found.id, *identity)
    raise UnknownTransaction(f"no transactional id belongs to producer {identity.producer_id}")


@operation("producers.list", on="topic")
async def list_producers(
    transactions: TransactionService,
    caller: Caller,
    topic: str,
    index: int,
) -> Sequence[tuple[int, KnownProducer]]:
    """Return the producers that a partition knows, with their ids."""
    return list(transactions.topics.topic(topic).partition(index).log.producers)


async def known(transactions: TransactionService, transactional_id: str) -> None:
    """Wait until all is durable that was decided for a transactional id.

    What is written because a transaction has a partition must not outlive that: nobody would ever end it.
    """
    await transactions.machine(transactional_id)


def is_known(transactions: TransactionService, transactional_id: str) -> bool:
    """Tell whether there is nothing to wait for in `known`."""
    return transactions.is_settled(transactional_id)


def verify(
    transactions: TransactionService,
    transactional_id: str,
    identity: ProducerEpoch,
    partition: TopicPartition,
) -> None:
    """Raise unless the producer's transaction is under way and has the partition, as is known now."""
    machine = transactions.peek(transactional_id)
    if machine is None:
        raise _belongs_to_nobody(transactional_id)
    machine.verify(transactional_id, *identity, partition)


def held_transaction(
    transactions: TransactionService,
    transactional_id: str,
    identity: ProducerEpoch,
) -> Transaction:
    """Return what is known of a transactional id to the holder of its present identity; raises for others."""
    machine = transactions.peek(transactional_id)
    if machine is None:
        raise _belongs_to_nobody(transactional_id)
    return machine.held(transactional_id, *identity)


def _belongs_to_nobody(transactional_id: str) -> GoQueueError:
    return ProducerMismatch(f"the transactional id {transactional_id!r} belongs to no producer")


def _find(transactions: TransactionService, transactional_id: str) -> Transaction:
    machine = transactions.peek(transactional_id)
    if machine is None:
        raise UnknownTransaction(f"nothing is known of the transactional id {transactional_id!r}")
    return machine.find(transactional_id)


def _check_id(transactional_id: str) -> None:
    if not transactional_id:
        raise Invalid("a transactional id cannot be empty")
    if len(transactional_id.encode("utf-8", "surrogateescape")) > ID_BYTES_MAX:
        raise Invalid(f"a transactional id may have {ID_BYTES_MAX} bytes")
