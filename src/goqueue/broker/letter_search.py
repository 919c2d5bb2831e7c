"""Looks for dead letters between two offsets of a partition.

The undertaker writes letters outside of transactions. So those of others are passed over, and one that is open hides
nothing: else a letter would be written again and again until it ends.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from goqueue.broker.letters import open_batches
from goqueue.errors import CorruptBatch, LogOffline
from goqueue.model.dead_letters import Cause, cause_of
from goqueue.runtime.partition import Partition
from goqueue.runtime.waiters import turns


async def durable_end(partition: Partition) -> int:
    """Return how far a partition can be looked at now; what a power loss could take back does not count as written."""
    end = partition.high_watermark
    with suppress(LogOffline):
        await partition.flusher.durable(end)
    return min(end, partition.log.durable_end)


async def find_letters(
    partition: Partition,
    start: int,
    end: int,
    is_wanted: Callable[[Cause], bool],
    found: set[Cause],
    *,
    enough: int | None = None,
) -> None:
    """Add what letters say to what was found, as far as that is wanted, until there are enough.

    If some cannot be read, those before them are found.
    """
    position = max(start, partition.log.start_offset)
    before = -1
    while before < position < end and len(found) != enough:
        before = position
        for batch in open_batches(partition, position, end, leaves_out_transactions=True):
            if not position < batch.end <= end:
                raise CorruptBatch(f"a batch of {partition.topic}-{partition.index} says that it ends at {batch.end}")
            found |= {cause for record in batch.records if is_wanted(cause := cause_of(record.headers))}
            position = batch.end
            await turns(1)
            if position >= end or len(found) == enough:
                break
