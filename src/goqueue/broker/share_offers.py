"""What of a partition can be leased to a member of a share group, with the stored batches that hold it.

Members get whole batches as they are stored, and are told which of their messages they may have. A batch that cannot be
read is not given away, nor passed over: what lies before it comes, and then the partition has a fault.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from goqueue.broker.aborted import Aborted
from goqueue.broker.fetch import aborted_in
from goqueue.broker.message_finder import between, from_on
from goqueue.broker.opened_batches import OpenedBatches, open_batch
from goqueue.broker.queue_offers import short_key
from goqueue.errors import Corrupt, CorruptBatch
from goqueue.machines.delivery_commands import Offer
from goqueue.machines.delivery_steps import waits_in_vain, within_reach
from goqueue.machines.delivery_window import Window
from goqueue.records.layout import BatchHeader, headers
from goqueue.runtime.partition import Partition

_READ_BYTES = 1024 * 1024
# How many reads one look takes at most: there may be much that nobody gets.
_READS_MAX = 16


class StoredBatch(NamedTuple):
    """A batch as it is in the log, from its first to its last offset."""

    first: int
    last: int
    data: bytes


class Wanted(NamedTuple):
    """How much is looked for: `limit` messages, or up to the end of their last batch, but never above `limit_max`.

    One batch always comes; more only within `bytes_max`.
    """

    limit: int
    limit_max: int
    bytes_max: int
    is_ordered: bool = False


class Supply(NamedTuple):
    """What is offered to a group, and the batches that hold it."""

    offer: Offer
    batches: Mapping[int, StoredBatch]

    @property
    def messages(self) -> int:
        """How many messages are offered."""
        return len(self.offer.again) + len(self.offer.fresh)

    @property
    def size_bytes(self) -> int:
        """How large the batches are."""
        return sum([len(batch.data) for batch in self.batches.values()])

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to be decided about: no message, and nothing to be passed."""
        offer = self.offer
        return not (offer.fresh or offer.again or offer.gone) and max(offer.end, offer.start) <= offer.looked_from

    def holding(self, offsets: Sequence[int]) -> bytes:
        """Return the batches that hold these offsets, in order of theirs."""
        batches = sorted(self.batches.values())
        wanted = iter(sorted(offsets))
        offset = next(wanted, None)
        found = []
        for batch in batches:
            has_any = False
            while offset is not None and offset <= batch.last:
                has_any = has_any or offset >= batch.first
                offset = next(wanted, None)
            if has_any:
                found.append(batch.data)
        return b"".join(found)


class Search:
    """One look into a partition, for a group that knows it by a window."""

    def __init__(self, partition: Partition, window: Window, wanted: Wanted, opened: OpenedBatches) -> None:
        self._partition = partition
        self._window = window
        self._wanted = wanted
        self._opened = opened
        self._fault: Corrupt | None = None
        self._bytes_left = wanted.bytes_max
        self._batches: dict[int, StoredBatch] = {}
        self._keys: dict[int, bytes] = {}

    def run(self) -> Supply:
        """Look for what is ready again first, then for what is behind the cursor; CorruptBatch if none can be read."""
        partition, window = self._partition, self._window
        start = partition.log.start_offset
        again, gone = self._find_again()
        if waits_in_vain(window, start):
            gone.append(window.floor)
        fresh, end = self._find_fresh(max(window.cursor, start), len(again))
        keys = self._keys if self._wanted.is_ordered else None
        offer = Offer(partition.place, fresh, end, again, gone, start, keys, window.cursor, partition.leader_epoch)
        supply = Supply(offer, self._batches)
        # Before anything is left out: what waits for its key before the damage can be read.
        if self._fault is not None and supply.is_empty:
            raise self._fault
        return supply._replace(offer=within_reach(window, supply.offer))

    def _find_again(self) -> tuple[list[int], list[int]]:
        again: list[int] = []
        gone: list[int] = []
        ready = self._window.ready
        seen: set[int] = set()
        # The one that was ready first, and with it those that lie in its batch, which is sent as a whole.
        for oldest in ready:
            if len(again) + len(gone) >= min(self._wanted.limit, self._wanted.limit_max):
                break
            if oldest in seen:
                continue
            try:
                batch, there = self._batch_at(oldest)
            except Corrupt as error:
                self._fault = error
                continue
            row = between(ready.keys(), min(oldest, batch.first), batch.last + 1)
            seen.update(row)
            if there is None:
                continue
            left = there if isinstance(there, range) else frozenset(there)
            found = [offset for offset in from_on(row, oldest) if offset in left]
            gone += [offset for offset in row if offset not in left]
            if found and not self._fits(batch):
                break
            if found:
                self._keep(batch)
                again += sorted(found[: self._wanted.limit_max - len(again)])
        return again, gone

    def _batch_at(self, offset: int) -> tuple[StoredBatch, Sequence[int] | None]:
        """Return the batch at or behind an offset, and where there are messages in it: None if it cannot be read."""
        if offset >= self._partition.log.start_offset:
            data = self._partition.read(offset, bytes_max=1)
            for position, header in headers(data):
                batch = _stored(data, position, header)
                return batch, self._offsets_in(batch, header)
        return StoredBatch(offset, offset, b""), ()

    def _find_fresh(self, end: int, count: int) -> tuple[list[int], int]:
        """Return offsets of messages from an offset on, and how far was looked."""
        partition, wanted = self._partition, self._wanted
        fresh: list[int] = []
        for _ in range(_READS_MAX):
            if not self._has_room(count + len(fresh)) or end >= partition.last_stable_offset:
                break
            bytes_max = min(self._bytes_left, _READ_BYTES)
            data = partition.read(end, bytes_max=bytes_max, is_committed_only=True)
            if not data:
                break
            aborted = Aborted(aborted_in(partition, end, data))
            for position, header in headers(data):
                if header.is_control or aborted.hides(header):
                    end = max(end, header.next_offset)
                    continue
                batch = _stored(data, position, header)
                if not self._has_room(count + len(fresh)) or not self._fits(batch):
                    return fresh, end
                offsets = self._offsets_in(batch, header)
                if offsets is None:
                    return fresh, end
                self._keep(batch)
                offsets = offsets[bisect_left(offsets, end) :]
                room = wanted.limit_max - count - len(fresh)
                fresh += offsets[:room]
                if len(offsets) > room:
                    # The rest is for somebody else: nothing behind it may be passed.
                    return fresh, offsets[room]
                end = header.next_offset
        return fresh, end

    def _has_room(self, count: int) -> bool:
        return count < min(self._wanted.limit, self._wanted.limit_max) and self._bytes_left > 0

    def _fits(self, batch: StoredBatch) -> bool:
        return batch.first in self._batches or not self._batches or len(batch.data) <= self._bytes_left

    def _keep(self, batch: StoredBatch) -> None:
        if batch.first not in self._batches:
            self._batches[batch.first] = batch
            self._bytes_left -= len(batch.data)

    def _offsets_in(self, batch: StoredBatch, header: BatchHeader) -> Sequence[int] | None:
        try:
            if not self._wanted.is_ordered:
                return self._opened.offsets(self._partition, header, batch.data)
            records = open_batch(header, batch.data)
        except CorruptBatch as error:
            self._fault = error
            return None
        self._keys |= {record.offset: short_key(record.key) for record in records if record.key is not None}
        return [record.offset for record in records]


def _stored(data: bytes, position: int, header: BatchHeader) -> StoredBatch:
    return StoredBatch(header.base_offset, header.last_offset, data[position : position + header.size_bytes])
