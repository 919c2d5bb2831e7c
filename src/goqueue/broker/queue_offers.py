"""What of a partition can be delivered to a queue group, with the messages themselves."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from hashlib import blake2b
from itertools import islice
from typing import NamedTuple

from goqueue.broker.fetch import Fetched, aborted_in
from goqueue.broker.reading import Reading, opened
from goqueue.machines.delivery_commands import Offer
from goqueue.machines.delivery_window import Window
from goqueue.machines.group_values import TopicPartition
from goqueue.records.layout import read_header
from goqueue.records.reader import Record, read_records
from goqueue.runtime.partition import Partition

_READ_BYTES = 1024 * 1024
# About what a message takes; whoever wants one need not read a thousand.
_MESSAGE_BYTES = 1024
# How many reads one look takes at most: there may be much that nobody gets.
_READS_MAX = 16
_KEY_BYTES_MAX = 16
_KEPT_BATCHES = 32
_KEPT_BYTES = 256 * 1024


class Look(NamedTuple):
    """What is offered to a group, and the messages by their offsets."""

    offer: Offer
    records: Mapping[int, Record]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to be decided about."""
        offer = self.offer
        return not (offer.fresh or offer.again or offer.gone) and not self.has_moved

    @property
    def size_bytes(self) -> int:
        """How many bytes of keys and values the messages have."""
        return sum([_size(record) for record in self.records.values()])

    @property
    def has_moved(self) -> bool:
        """Whether there is nothing where the group looks next, and more behind that."""
        return self.offer.end > self.offer.looked_from or self.offer.start > self.offer.looked_from


class OpenBatches:
    """Batches that were opened lately: consumers who take few messages at a time come back to the same one."""

    def __init__(self) -> None:
        self._batches: dict[tuple[Partition, int], list[Record]] = {}

    def read(self, partition: Partition, batch: memoryview) -> list[Record]:
        """Return the records of a batch of a partition."""
        header = read_header(batch)
        key = (partition, header.base_offset)
        records = self._batches.pop(key, None)
        if records is None:
            records = read_records(batch)
            if header.size_bytes > _KEPT_BYTES:
                return records
        # At the end, so that the one that nobody has come back to for the longest time is the first.
        self._batches[key] = records
        if len(self._batches) > _KEPT_BATCHES:
            del self._batches[next(iter(self._batches))]
        return records


def look(
    partition: Partition, window: Window, batches: OpenBatches, limit: int, bytes_max: int, *, is_ordered: bool
) -> Look:
    """Look for messages that a group may get: those that are ready again first, then those behind its cursor."""
    start = partition.log.start_offset
    records: dict[int, Record] = {}
    again, gone = _find_again(partition, window, limit, records)
    bytes_left = bytes_max - sum(_size(record) for record in records.values())
    fresh, end = _find_fresh(partition, max(window.cursor, start), batches, limit - len(again), bytes_left)
    offsets = [record.offset for record in fresh]
    records.update(zip(offsets, fresh, strict=True))
    keys = {record.offset: _short(record.key) for record in fresh if record.key is not None} if is_ordered else None
    where = TopicPartition(partition.topic, partition.index)
    return Look(Offer(where, offsets, end, again, gone, start, keys, window.cursor), records)


def _find_fresh(
    partition: Partition, end: int, batches: OpenBatches, limit: int, bytes_left: int
) -> tuple[list[Record], int]:
    """Return messages from an offset on, and how far was looked."""
    found: list[Record] = []
    read = partial(batches.read, partition)
    for _ in range(_READS_MAX):
        wanted = limit - len(found)
        if wanted <= 0 or bytes_left <= 0 or end >= partition.last_stable_offset:
            break
        bytes_max = min(bytes_left, wanted * _MESSAGE_BYTES, _READ_BYTES)
        data = partition.read(end, bytes_max=bytes_max, is_committed_only=True)
        if not data:
            break
        fetched = Fetched(data, aborted=aborted_in(partition, end, data))
        records, end = opened(fetched, end, Reading(limit=wanted, bytes_max=bytes_left), read)
        found += records
        bytes_left -= sum([_size(record) for record in records])
    return found, end


def _find_again(
    partition: Partition, window: Window, limit: int, records: dict[int, Record]
) -> tuple[list[int], list[int]]:
    """Return which messages are ready again and still there, and which are gone; the former are put to the records."""
    again: list[int] = []
    gone: list[int] = []
    batch: Mapping[int, Record] = {}
    for offset in islice(window.ready, limit):
        if offset not in batch:
            # Neighbours often lie in the same batch.
            batch = {record.offset: record for record in _batch(partition, offset)}
        record = batch.get(offset)
        if record is None:
            gone.append(offset)
        else:
            again.append(offset)
            records[offset] = record
    return again, gone


def find(partition: Partition, offset: int) -> Record | None:
    """Return the message at an offset; None if it is not there any more."""
    return next((record for record in _batch(partition, offset) if record.offset == offset), None)


def _batch(partition: Partition, offset: int) -> list[Record]:
    if offset < partition.log.start_offset:
        return []
    data = partition.read(offset, bytes_max=1)
    records, _ = opened(Fetched(data), offset, Reading(limit=2**31, bytes_max=2**31)) if data else ([], 0)
    return records


def _short(key: bytes) -> bytes:
    # It is stored with each message in flight. Two keys of the same digest would only wait for each other.
    return key if len(key) <= _KEY_BYTES_MAX else blake2b(key, digest_size=_KEY_BYTES_MAX).digest()


def _size(record: Record) -> int:
    return len(record.key or b"") + len(record.value or b"")
