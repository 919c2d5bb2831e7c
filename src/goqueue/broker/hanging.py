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

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from goqueue.broker.events import DoubtfulTransaction, HangingTransaction
from goqueue.broker.pipeline import operation
from goqueue.broker.transactions import ended
from goqueue.errors import CoordinatorUnavailable, GoQueueError, InvalidTransactionState, ProducerFenced
from goqueue.machines.group_values import TopicPartition
from goqueue.machines.producer import NO_OFFSET
from goqueue.machines.transaction_values import EPOCH_MAX, Abort
from goqueue.runtime.partition import Partition

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker


class OpenTransaction(NamedTuple):
    """A transaction that is open in a partition; without a transactional id, no coordinator knows of it.

    Its marker may be lost if it `is_doubtful`: then nobody knows whether it was committed.
    """

    producer_id: int
    epoch: int
    first_offset: int
    transactional_id: str | None
    is_doubtful: bool


def abort_unknown_transactions(broker: Broker) -> None:
    """Abort what no coordinator will; nothing is done unless all of them can be asked."""
    if not broker.transactions.is_whole:
        return
    coordinators = _coordinators(broker)
    for partition in broker.partitions:
        for found in _open_in(partition, coordinators):
            if found.transactional_id is not None:
                continue
            if found.is_doubtful:
                broker.sink.emit(
                    DoubtfulTransaction(partition.topic, partition.index, found.producer_id, found.first_offset)
                )
            else:
                broker.sink.emit(HangingTransaction(partition.topic, partition.index, found.producer_id))
                # A log that takes no marker now is reported elsewhere, and the next start tries again.
                with suppress(GoQueueError):
                    _end(partition, found, is_commit=False)


@operation("transactions.list_open")
async def list_open_transactions(broker: Broker, topic: str, index: int) -> Sequence[OpenTransaction]:
    """Return the transactions that are open in a partition, the oldest first."""
    partition = broker.topic(topic).partition(index)
    return sorted(_open_in(partition, _coordinators(broker)), key=lambda found: found.first_offset)


@operation("transactions.end_hanging", writes=True)
async def end_hanging_transaction(
    broker: Broker, topic: str, index: int, producer_id: int, *, is_commit: bool = False, epoch: int | None = None
) -> None:
    """End a transaction of a partition that no coordinator will; its marker is durable at return.

    InvalidTransactionState if the producer has none open there, or a coordinator knows of it. ProducerFenced if the
    producer has another epoch by now than the one that is given.
    """
    partition = broker.topic(topic).partition(index)
    if not broker.transactions.is_whole:
        raise CoordinatorUnavailable("not all coordinators can be asked whose transaction that is", hint="try again")
    found = _find(partition, _coordinators(broker), producer_id)
    if found.transactional_id is not None:
        raise InvalidTransactionState(
            f"the transaction is that of {found.transactional_id!r}, whose coordinator will end it",
            hint="abort that transactional id",
        )
    _check_epoch(found, epoch)
    await partition.flusher.durable(_end(partition, found, is_commit=is_commit))


@operation("transactions.abort_of_producer", writes=True)
async def abort_transaction_of(broker: Broker, topic: str, index: int, producer_id: int, epoch: int) -> str | None:
    """Abort through its coordinator what a producer has open in a partition; return its transactional id.

    None if no coordinator knows of it: then nothing was done.
    """
    found = _find(broker.topic(topic).partition(index), _coordinators(broker), producer_id)
    if found.transactional_id is not None:
        _check_epoch(found, epoch)
        await ended(broker, Abort(found.transactional_id))
    return found.transactional_id


_Coordinators = dict[tuple[int, TopicPartition], str]


def _coordinators(broker: Broker) -> _Coordinators:
    """Return the transactional ids that will end what producers have written to partitions."""
    return {
        (transaction.producer_id, partition): transaction.id
        for machine in broker.transactions.machines
        for transaction in machine.all()
        for partition in transaction.partitions
    }


def _open_in(partition: Partition, coordinators: _Coordinators) -> Iterator[OpenTransaction]:
    producers = partition.log.producers
    where = TopicPartition(partition.topic, partition.index)
    for producer_id, state in list(producers) if producers.first_open_offset is not None else ():
        if state.transaction_start != NO_OFFSET:
            yield OpenTransaction(
                producer_id,
                state.epoch,
                state.transaction_start,
                coordinators.get((producer_id, where)),
                is_doubtful=partition.log.segments.has_damage_from(state.transaction_start),
            )


def _find(partition: Partition, coordinators: _Coordinators, producer_id: int) -> OpenTransaction:
    for found in _open_in(partition, coordinators):
        if found.producer_id == producer_id:
            return found
    raise InvalidTransactionState(
        f"producer {producer_id} has no transaction open in {partition.topic}-{partition.index}"
    )


def _check_epoch(found: OpenTransaction, epoch: int | None) -> None:
    if epoch is not None and epoch < found.epoch:
        raise ProducerFenced(f"producer {found.producer_id} is at epoch {found.epoch} by now, and not at {epoch}")


def _end(partition: Partition, found: OpenTransaction, *, is_commit: bool) -> int:
    return partition.end_transaction(found.producer_id, min(found.epoch, EPOCH_MAX) + 1, is_commit=is_commit)
