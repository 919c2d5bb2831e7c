"""What of a partition can be leased to a member of a share group, with the stored batches that hold it.

Members get whole batches as they are stored, and are told which of their messages they may have. A batch that cannot be
read is given to no member: it becomes a dead letter, and the group goes on after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from goqueue.broker.messages.aborted import Aborted
from goqueue.broker.messages.fetch import aborted_in
from goqueue.broker.messages.finder import between, from_on
from goqueue.broker.messages.opened_batches import FullBatches
from goqueue.broker.queues.candidates import ERROR_CHARS_MAX, UNREADABLE_MAX, short_key, stretch_of
from goqueue.errors import CorruptLog, UnreadableBatch
from goqueue.machines.queues.commands import Offer, Unreadable
from goqueue.machines.queues.steps import is_blocked_by_removed_message, within_reach
from goqueue.machines.queues.window import QueueWindow
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


class SupplyRequest(NamedTuple):
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
        has_any = offer.fresh or offer.again or offer.gone or offer.unreadable
        return not has_any and max(offer.end, offer.start) <= offer.looked_from

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


class ShareSearch:
    """One look into a partition, for a group that knows it by a window."""

    def __init__(self, partition: Partition, window: QueueWindow, wanted: SupplyRequest, full: FullBatches) -> None:
        self._partition = partition
        self._window = window
        self._wanted = wanted
        self._full = full
        self._unreadable: list[Unreadable] = []
        self._bytes_left = wanted.bytes_max
        self._batches: dict[int, StoredBatch] = {}
        self._keys: dict[int, bytes] = {}

    def run(self) -> Supply:
        """Look for messages that are ready again first, then for those from the cursor on."""
        partition, window = self._partition, self._window
        start = partition.log.start_offset
        again, gone = self._find_again()
        if is_blocked_by_removed_message(window, start):
            gone.append(window.floor)
        fresh, end = self._find_fresh(max(window.cursor, start), len(again))
        keys = self._keys if self._wanted.is_ordered else None
        epoch = partition.leader_epoch
        offer = Offer(partition.place, fresh, end, again, gone, start, keys, window.cursor, epoch, self._unreadable)
        return Supply(within_reach(window, offer), self._batches)

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
            row = [oldest]
            try:
                batch, header = self._batch_at(oldest)
                row = between(ready.keys(), min(oldest, batch.first), batch.last + 1)
                there = () if header is None else self._offsets_in(batch, header, row[0], row[-1] - row[0] + 1)
            except (UnreadableBatch, CorruptLog) as error:
                self._unreadable += [Unreadable(each, error.message[:ERROR_CHARS_MAX]) for each in row]
                seen.update(row)
                if len(self._unreadable) >= UNREADABLE_MAX:
                    break
                continue
            seen.update(row)
            left = there if isinstance(there, range) else frozenset(there)
            found = [offset for offset in from_on(row, oldest) if offset in left]
            gone += [offset for offset in row if offset not in left]
            if found and not self._fits(batch):
                break
            if found:
                self._keep(batch)
                again += sorted(found[: self._wanted.limit_max - len(again)])
        return again, gone

    def _batch_at(self, offset: int) -> tuple[StoredBatch, BatchHeader | None]:
        """Return the batch at or after an offset, and its header: None if there is none any more."""
        if offset >= self._partition.log.start_offset:
            data = self._partition.read(offset, bytes_max=1)
            for position, header in headers(data):
                return _stored(data, position, header), header
        return StoredBatch(offset, offset, b""), None

    def _find_fresh(self, end: int, count: int) -> tuple[list[int], int]:
        """Return offsets of messages from an offset on, and how far was looked; what cannot be read is passed."""
        partition = self._partition
        fresh: list[int] = []
        for _ in range(_READS_MAX):
            if not self._has_room(count + len(fresh)) or end >= partition.last_stable_offset:
                break
            try:
                end, is_over = self._read_fresh(fresh, end, count)
            except (UnreadableBatch, CorruptLog) as error:
                begin, after = stretch_of(error, max(end, fresh[-1] + 1) if fresh else end)
                if after is None:
                    raise
                self._unreadable.append(Unreadable(begin, error.message[:ERROR_CHARS_MAX]))
                end, is_over = min(after, partition.last_stable_offset), False
            if is_over:
                break
        return fresh, end

    def _read_fresh(self, fresh: list[int], end: int, count: int) -> tuple[int, bool]:
        """Add messages of one read to the fresh ones; return how far was looked, and whether that was all."""
        partition, wanted = self._partition, self._wanted
        bytes_max = min(self._bytes_left, _READ_BYTES)
        data = partition.read(end, bytes_max=bytes_max, is_committed_only=True)
        if not data:
            return end, True
        aborted = Aborted(aborted_in(partition, end, data))
        for position, header in partition.batches(data):
            if header.is_control or aborted.hides(header):
                partition.verify_batch(data, position, header)
                end = max(end, header.next_offset)
                continue
            batch = _stored(data, position, header)
            if not self._has_room(count + len(fresh)) or not self._fits(batch):
                return end, True
            room = wanted.limit_max - count - len(fresh)
            offsets = self._offsets_in(batch, header, end, room)
            self._keep(batch)
            fresh += offsets[:room]
            if len(offsets) > room:
                # The rest is for somebody else: nothing behind it may be passed.
                return offsets[room], True
            end = header.next_offset
        return end, False

    def _has_room(self, count: int) -> bool:
        return count < min(self._wanted.limit, self._wanted.limit_max) and self._bytes_left > 0

    def _fits(self, batch: StoredBatch) -> bool:
        return batch.first in self._batches or not self._batches or len(batch.data) <= self._bytes_left

    def _keep(self, batch: StoredBatch) -> None:
        if batch.first not in self._batches:
            self._batches[batch.first] = batch
            self._bytes_left -= len(batch.data)

    def _offsets_in(self, batch: StoredBatch, header: BatchHeader, start: int, count: int) -> Sequence[int]:
        """Return where there are messages in a batch from an offset on: all, or more than `count` of them."""
        if not self._wanted.is_ordered:
            return self._full.offsets(self._partition, header, batch.data, start, count)
        offsets: list[int] = []
        for records in self._partition.open_batch(batch.data, 0, header).slices(start):
            self._keys |= {record.offset: short_key(record.key) for record in records if record.key is not None}
            offsets += [record.offset for record in records]
            if len(offsets) > count:
                break
        return offsets


def _stored(data: bytes, position: int, header: BatchHeader) -> StoredBatch:
    return StoredBatch(header.base_offset, header.last_offset, data[position : position + header.size_bytes])
