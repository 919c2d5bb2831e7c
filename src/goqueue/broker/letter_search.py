"""Looks for dead letters that were perhaps written, among the last ones of the partitions where they may lie.

The undertaker writes letters outside of transactions. So those of others are passed over, and one that is open hides
nothing: else a letter would be written again and again until it ends.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from contextlib import suppress

from goqueue.broker.letters import open_batches
from goqueue.errors import GoQueueError, LogOffline
from goqueue.model.dead_letters import Cause, cause_of
from goqueue.runtime.partition import Partition
from goqueue.runtime.waiters import turns

_LAST_LETTERS = 2_000
# Most often it is the very last ones.
_FIRST_PIECE = 16
_PIECE_GROWTH = 4


async def find_written(
    places: Iterable[Partition | GoQueueError], causes: AbstractSet[Cause]
) -> tuple[set[Cause], GoQueueError | None]:
    """Return those causes of which a letter is among the last ones of a partition, and why there may be more of them.

    That is what has kept it from looking at a place, if it has not found all. Two letters of the same message say the
    same only if they are of the same death.
    """
    found: set[Cause] = set()
    obstacle: GoQueueError | None = None
    for place in places:
        if len(found) == len(causes):
            break
        try:
            if isinstance(place, Partition):
                await _look_in(place, causes, found)
            else:
                obstacle = obstacle or place
        except GoQueueError as error:
            obstacle = obstacle or error
    return found, None if len(found) == len(causes) else obstacle


async def _look_in(partition: Partition, causes: AbstractSet[Cause], found: set[Cause]) -> None:
    end = partition.high_watermark
    # What a power loss could take back does not count as written. In a log that is offline, that was sent since the
    # start, and whoever has sent it knows.
    with suppress(LogOffline):
        await partition.flusher.durable(end)
    end = min(end, partition.log.durable_end)
    start = max(end - _LAST_LETTERS, partition.log.start_offset)
    piece = _FIRST_PIECE
    while start < end and len(found) < len(causes):
        low = max(end - piece, start)
        end = await _look_between(partition, low, end, causes, found)
        piece *= _PIECE_GROWTH


async def _look_between(
    partition: Partition, start: int, end: int, causes: AbstractSet[Cause], found: set[Cause]
) -> int:
    """Look at letters between two offsets, and at others of their batches; return where the first of these begins."""
    position, first = start, start
    while position < end:
        reached = position
        for batch in open_batches(partition, position, end, leaves_out_transactions=True):
            found |= {cause_of(record.headers) for record in batch.records} & causes
            reached, first = batch.end, min(first, batch.start)
            await turns(1)
            if reached >= end:
                break
        if reached == position:
            break
        position = reached
    return first
