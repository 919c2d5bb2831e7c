"""Looks for dead letters between two offsets of a partition.

The undertaker writes letters outside of transactions. So those of others are passed over, and one that is open hides
nothing: else a letter would be written again and again until it ends.
"""

from __future__ import annotations

from collections.abc import Callable

from goqueue.broker.dead_letters.reading import open_batches
from goqueue.errors import CorruptBatch
from goqueue.model.dead_letters import DeadLetterCause, cause_of
from goqueue.runtime.partition import Partition
from goqueue.runtime.waiters import give_way


async def find_letters(
    partition: Partition,
    start: int,
    end: int,
    is_wanted: Callable[[DeadLetterCause], bool],
    found: set[DeadLetterCause],
    *,
    enough: int | None = None,
) -> None:
    """Add what letters say to what was found, as far as that is wanted, until there are enough.

    If some are damaged, those before them are found. What nobody could ever read is none of the broker's.
    """
    position = max(start, partition.log.start_offset)
    before = -1
    while before < position < end and len(found) != enough:
        before = position
        for batch in open_batches(partition, position, end, leaves_out_transactions=True):
            if batch.is_damaged or not position < batch.end <= end:
                where = f"{partition.topic}-{partition.index}"
                raise CorruptBatch(f"{where} is damaged: {batch.error or f'a batch says that it ends at {batch.end}'}")
            found |= {cause for record in batch.records if is_wanted(cause := cause_of(record.headers))}
            position = batch.end
            await give_way()
            if position >= end or len(found) == enough:
                break
