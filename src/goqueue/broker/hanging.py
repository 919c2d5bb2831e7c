"""Transactions that a partition holds open and no coordinator knows of: they are aborted when the broker starts.

A coordinator knows of a partition before anything is written there, and markers are durable before a transaction is
complete. So there are none of these, unless the coordinator's log was lost or damaged. Nobody would ever end them:
readers of committed records would wait for ever, and whatever is in them would share the fate of their producer's next
transaction. The epoch of the marker is above that of the producer, which is so told that it has lost something.

Where records behind the start of such a transaction are damaged, its marker may be one of them: it may have been
committed, and nobody knows any more. So it is reported and left alone.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from goqueue.broker.events import DoubtfulTransaction, HangingTransaction
from goqueue.errors import GoQueueError
from goqueue.machines.group_values import TopicPartition
from goqueue.machines.producer import NO_OFFSET
from goqueue.machines.transaction_values import EPOCH_MAX

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker


def abort_unknown_transactions(broker: Broker) -> None:
    """Abort what no coordinator will; nothing is done unless all of them can be asked."""
    if not broker.transactions.is_whole:
        return
    known = {
        (transaction.producer_id, partition)
        for machine in broker.transactions.machines
        for transaction in machine.all()
        for partition in transaction.partitions
    }
    for partition in broker.partitions:
        producers = partition.log.producers
        for producer_id, state in producers if producers.first_open_offset is not None else ():
            is_known = (producer_id, TopicPartition(partition.topic, partition.index)) in known
            if state.transaction_start == NO_OFFSET or is_known:
                continue
            if partition.log.segments.has_damage_from(state.transaction_start):
                broker.sink.emit(
                    DoubtfulTransaction(partition.topic, partition.index, producer_id, state.transaction_start)
                )
            else:
                broker.sink.emit(HangingTransaction(partition.topic, partition.index, producer_id))
                # A log that takes no marker now is reported elsewhere, and the next start tries again.
                with suppress(GoQueueError):
                    partition.end_transaction(producer_id, min(state.epoch, EPOCH_MAX) + 1, is_commit=False)
