"""Ids for idempotent producers; no id is ever given twice, also after a crash."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.broker.admission import Caller, operation
from goqueue.machines.catalog import TakeProducerIds
from goqueue.machines.transactions.values import ProducerEpoch

if TYPE_CHECKING:
    from goqueue.broker.transactions.service import TransactionService

# Reserving is a durable write; what a stop leaves of a block is lost, which costs nothing.
_BLOCK = 1000


class ProducerIds:
    """The block of ids that this broker may give out."""

    def __init__(self) -> None:
        self.next_id = 0
        self.end = 0


@operation("producers.init", on="cluster", writes=True)
async def new_producer(transactions: TransactionService, caller: Caller) -> ProducerEpoch:
    """Return a new producer id."""
    return ProducerEpoch(await take_producer_id(transactions), 0)


async def take_producer_id(transactions: TransactionService) -> int:
    """Return a new producer id, for operations that have more to do."""
    ids = transactions.producer_ids
    while ids.next_id == ids.end:
        await transactions.core.tasks.finish(_reserve(transactions), "reserve producer ids")
    ids.next_id += 1
    return ids.next_id - 1


async def _reserve(transactions: TransactionService) -> None:
    first = transactions.topics.catalog.next_producer_id
    await transactions.topics.submit(TakeProducerIds(_BLOCK))
    ids = transactions.producer_ids
    if ids.next_id == ids.end:
        ids.next_id, ids.end = first, first + _BLOCK
