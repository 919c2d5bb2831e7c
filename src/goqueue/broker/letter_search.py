"""Looks for dead letters that were perhaps written: before the start, or since.

Those from before the start lie before the end that their partition had when it was opened, and were written after the
last delivery of their message; since the clock may have been set back in between, the very last ones are looked at in
any case. Those that were sent since lie behind the end that their partition had then. So none is hidden by others,
however many these are.

The undertaker writes letters outside of transactions. So those of others are passed over, and one that is open hides
nothing: else a letter would be written again and again until it ends.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from contextlib import suppress

from goqueue.broker.letters import open_batches
from goqueue.errors import LogOffline
from goqueue.model.dead_letters import Cause, cause_of
from goqueue.runtime.partition import Partition
from goqueue.runtime.waiters import turns

_LAST_LETTERS = 2_000
_PIECE_LETTERS = 2_000


class FormerLetters:
    """Letters of a partition from before the start that `is_wanted`; what was looked at is not looked at again."""

    def __init__(self, partition: Partition, is_wanted: Callable[[Cause], bool]) -> None:
        self._partition = partition
        self._is_wanted = is_wanted
        # Where those begin that were looked at.
        self._start = partition.opened_end
        self._causes: set[Cause] = set()

    async def since(self, time_ms: int) -> AbstractSet[Cause]:
        """Return what those say that were written since then, and perhaps older ones."""
        first = self._partition.offset_for_time(time_ms)
        end = self._partition.opened_end
        start = min(end - _LAST_LETTERS, end if first is None else first.offset)
        while start < self._start:
            # Some at a time: if they cannot be read now, what was looked at before need not be again.
            piece_start = max(start, self._start - _PIECE_LETTERS)
            self._causes |= await _find(self._partition, piece_start, self._start, self._is_wanted)
            self._start = piece_start
        return self._causes


async def find_sent(partition: Partition, start: int, causes: AbstractSet[Cause]) -> AbstractSet[Cause]:
    """Return those causes of which a letter lies in a partition, from an offset on."""
    end = partition.high_watermark
    # What a power loss could take back does not count as written.
    with suppress(LogOffline):
        await partition.flusher.durable(end)
    end = min(end, partition.log.durable_end)
    return await _find(partition, start, end, causes.__contains__, enough=len(causes))


async def _find(
    partition: Partition, start: int, end: int, is_wanted: Callable[[Cause], bool], *, enough: int | None = None
) -> set[Cause]:
    """Return what letters say that lie between two offsets, as far as that is wanted, until there are enough."""
    found: set[Cause] = set()
    position = max(start, partition.log.start_offset)
    before = -1
    while before < position < end and len(found) != enough:
        before = position
        for batch in open_batches(partition, position, end, leaves_out_transactions=True):
            found |= {cause for record in batch.records if is_wanted(cause := cause_of(record.headers))}
            position = batch.end
            await turns(1)
            if position >= end or len(found) == enough:
                break
    return found
