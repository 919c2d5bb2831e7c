"""What of a partition can be delivered to a queue group, with the messages themselves."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import NamedTuple

from goqueue.broker.fetch import Fetched, aborted_in
from goqueue.broker.reading import Reading, opened
from goqueue.machines.delivery_commands import Offer
from goqueue.machines.delivery_window import Window
from goqueue.machines.group_values import TopicPartition
from goqueue.records.reader import Record
from goqueue.runtime.partition import Partition

_READ_BYTES = 1024 * 1024


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


def look(partition: Partition, window: Window, limit: int, bytes_max: int, *, is_ordered: bool) -> Look:
    """Look for messages that a group may get: those that are ready again first, then those behind its cursor."""
    start = partition.log.start_offset
    records: dict[int, Record] = {}
    again, gone = _find_again(partition, window, limit, records)
    bytes_left = bytes_max - sum(_size(record) for record in records.values())
    cursor = end = max(window.cursor, start)
    fresh: list[Record] = []
    if len(again) < limit and bytes_left > 0 and cursor < partition.last_stable_offset:
        data = partition.read(cursor, bytes_max=min(bytes_left, _READ_BYTES), is_committed_only=True)
        if data:
            fetched = Fetched(data, aborted=aborted_in(partition, cursor, data))
            fresh, end = opened(fetched, cursor, Reading(limit=limit - len(again), bytes_max=bytes_left))
    offsets = [record.offset for record in fresh]
    records.update(zip(offsets, fresh, strict=True))
    keys = {record.offset: record.key for record in fresh if record.key is not None} if is_ordered else None
    where = TopicPartition(partition.topic, partition.index)
    return Look(Offer(where, offsets, end, again, gone, start, keys, window.cursor), records)


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


def _size(record: Record) -> int:
    return len(record.key or b"") + len(record.value or b"")
