"""Transactions that a partition holds open and no coordinator knows of: who finds them, and who ends them.

A coordinator knows of a partition before anything is written there, and markers are durable before a transaction is
complete. So there are none of these, unless the coordinator's log was lost or damaged. Nobody would ever end them:
readers of committed records would wait for ever, and whatever is in them would share the fate of their producer's next
transaction. So they are aborted when the broker starts. The epoch of the marker is above that of the producer, which is
so told that it has lost something.

Where records behind the start of such a transaction are damaged, its marker may be one of them: it may have been
committed, and nobody knows any more. So it is reported and left alone, until somebody says how it ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from goqueue.broker.admission import Caller, operation
from goqueue.broker.events import DoubtfulTransaction, HangingTransaction
from goqueue.broker.transactions.coordination import ended
from goqueue.errors import CoordinatorUnavailable, GoQueueError, InvalidTransactionState, ProducerFenced
from goqueue.machines.groups.commands import EndOffsets
from goqueue.machines.producer import NO_OFFSET
from goqueue.machines.transactions.values import EPOCH_MAX, Abort
from goqueue.model.topic import TopicPartition
from goqueue.runtime.partition import Partition
from goqueue.runtime.waiters import turns

if TYPE_CHECKING:
    from goqueue.broker.transactions.service import TransactionService

# After so many partitions of one request others have a turn.
_TURN_PARTITIONS = 500


class PartitionTransaction(NamedTuple):
    """A transaction that is open in a partition; without a transactional id, no coordinator knows of it.

    Its marker may be lost if it `is_doubtful`: then nobody knows whether it was committed.
    """

    producer_id: int
    epoch: int
    first_offset: int
    transactional_id: str | None
    is_doubtful: bool


def abort_unknown_transactions(transactions: TransactionService) -> None:
    """Abort what no coordinator will; nothing is done unless all of them can be asked."""
    if not transactions.is_whole:
        return
    for partition in transactions.topics.partitions:
        for found in _open_in(transactions, partition):
            if found.transactional_id is not None:
                continue
            if found.is_doubtful:
                transactions.core.sink.emit(
                    DoubtfulTransaction(partition.topic, partition.index, found.producer_id, found.first_offset)
                )
            else:
                transactions.core.sink.emit(HangingTransaction(partition.topic, partition.index, found.producer_id))
                # A log that takes no marker now is reported elsewhere, and the next start tries again.
                with suppress(GoQueueError):
                    _end(partition, found, is_commit=False)


async def forget_offsets_of_unknown_transactions(transactions: TransactionService) -> None:
    """Forget offsets that wait for the end of a transaction of which no coordinator knows: nobody would end it.

    Nothing is done unless all coordinators can be asked.
    """
    if not transactions.is_whole:
        return
    for machine in transactions.groups.machines:
        for producer_id, groups in machine.offsets.pending().items():
            if any(_is_waiting_for(transactions, producer_id, group) for group in groups):
                continue
            # A log that takes nothing now is reported elsewhere, and the next start tries again.
            with suppress(GoQueueError):
                await transactions.groups.submit(groups[0], EndOffsets(producer_id, is_commit=False))


def _is_waiting_for(transactions: TransactionService, producer_id: int, group: str) -> bool:
    known = (machine.find_producer(producer_id) for machine in transactions.machines)
    return any(transaction is not None and group in transaction.groups for transaction in known)


@operation("transactions.list_open", on="topic")
async def list_open_transactions(
    transactions: TransactionService,
    caller: Caller,
    topic: str,
    index: int,
) -> Sequence[PartitionTransaction]:
    """Return the transactions that are open in a partition, the oldest first."""
    partition = transactions.topics.topic(topic).partition(index)
    return sorted(_open_in(transactions, partition), key=lambda found: found.first_offset)


@operation("transactions.end_hanging", on="topic", writes=True)
async def end_hanging_transaction(
    transactions: TransactionService,
    caller: Caller,
    topic: str,
    index: int,
    producer_id: int,
    *,
    is_commit: bool = False,
    epoch: int | None = None,
    is_forced: bool = False,
) -> None:
    """End a transaction of a partition that no coordinator will; its marker is durable at return.

    InvalidTransactionState if the producer has none open there, or a coordinator knows of it. ProducerFenced if the
    producer has another epoch by now than the one that is given. CoordinatorUnavailable if the log of a coordinator
    cannot be used, which may know of it, unless it `is_forced`.
    """
    partition = transactions.topics.topic(topic).partition(index)
    if not transactions.is_whole and not is_forced:
        raise CoordinatorUnavailable(
            "not all coordinators can be asked whose transaction that is, since the log of one cannot be used",
            hint="repair that log, or force it (--force): then it ends here, whatever it becomes elsewhere",
        )
    found = _find(transactions, partition, producer_id)
    if found.transactional_id is not None:
        raise InvalidTransactionState(
            f"the transaction is that of {found.transactional_id!r}, whose coordinator will end it",
            hint="abort that transactional id",
        )
    _check_epoch(found, epoch)
    await partition.flusher.durable(_end(partition, found, is_commit=is_commit))


@operation("transactions.abort_of_producer", on="topic", writes=True)
async def abort_transactions_of(
    transactions: TransactionService,
    caller: Caller,
    partitions: Iterable[TopicPartition],
    producer_id: int,
    epoch: int,
    *,
    deadline: float,
) -> Mapping[TopicPartition, GoQueueError | None]:
    """Abort through its coordinator what a producer has open in partitions; return an error or None for each.

    Those are left out of which no coordinator knows: nothing was done there.
    """
    outcomes: dict[TopicPartition, GoQueueError | None] = {}
    ids: dict[str, list[TopicPartition]] = {}
    for number, each in enumerate(partitions, 1):
        if number % _TURN_PARTITIONS == 0:
            await turns(1)
        try:
            found = _find(transactions, transactions.topics.topic(each.topic).partition(each.partition), producer_id)
            if found.transactional_id is not None:
                _check_epoch(found, epoch)
                ids.setdefault(found.transactional_id, []).append(each)
        except GoQueueError as error:
            outcomes[each] = error
    for transactional_id, places in ids.items():
        outcome = None
        try:
            await ended(transactions, Abort(transactional_id), deadline=deadline)
        except GoQueueError as error:
            outcome = error
        outcomes |= dict.fromkeys(places, outcome)
    return outcomes


def _open_in(transactions: TransactionService, partition: Partition) -> Iterator[PartitionTransaction]:
    if partition.log.is_unopened:
        # A log with an open transaction is opened at the start.
        return
    producers = partition.log.producers
    where = partition.place
    for producer_id, state in list(producers) if producers.first_open_offset is not None else ():
        if state.transaction_start != NO_OFFSET:
            yield PartitionTransaction(
                producer_id,
                state.epoch,
                state.transaction_start,
                _coordinated(transactions, producer_id, where),
                is_doubtful=partition.log.segments.has_damage_from(state.transaction_start),
            )


def _coordinated(transactions: TransactionService, producer_id: int, where: TopicPartition) -> str | None:
    """Return the transactional id that will end what a producer has written to a partition; None if there is none."""
    for machine in transactions.machines:
        transaction = machine.find_producer(producer_id)
        if transaction is not None and where in transaction.partitions:
            return transaction.id
    return None


def _find(transactions: TransactionService, partition: Partition, producer_id: int) -> PartitionTransaction:
    # Most who are asked for have nothing open, and there may be very many producers.
    if partition.log.producers.has_open_transaction(producer_id):
        for found in _open_in(transactions, partition):
            if found.producer_id == producer_id:
                return found
    raise InvalidTransactionState(
        f"producer {producer_id} has no transaction open in {partition.topic}-{partition.index}"
    )


def _check_epoch(found: PartitionTransaction, epoch: int | None) -> None:
    if epoch is not None and epoch < found.epoch:
        raise ProducerFenced(f"producer {found.producer_id} is at epoch {found.epoch} by now, and not at {epoch}")


def _end(partition: Partition, found: PartitionTransaction, *, is_commit: bool) -> int:
    return partition.end_transaction(found.producer_id, min(found.epoch, EPOCH_MAX) + 1, is_commit=is_commit)
