"""Decompressed batches: one budget for all who read, and readers that go on when there is no room."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from goqueue.errors import UnreadableBatch
from goqueue.model.topic import TopicPartition
from goqueue.records.builder import NewRecord, build_batch
from goqueue.records.compression import Codec
from goqueue.records.layout import read_header
from goqueue.records.reader import SLICE_RECORDS, OpenedBatch, Record
from goqueue.runtime.opened_batches import OpenedBatches

RECORDS = 4 * SLICE_RECORDS
READERS = 8


def _batch(number: int) -> bytes:
    """Return a batch of a few kilobytes that opens to about 2 MiB."""
    return bytes(build_batch([NewRecord(1, b"%d" % number, bytes(512))] * RECORDS, codec=Codec.ZSTD))


def _alive_bytes() -> int:
    return sum(each.size_bytes for each in gc.get_objects() if isinstance(each, OpenedBatch))


def test_readers_that_wait_in_the_middle_of_large_batches_hold_no_more_than_the_budget_together() -> None:
    batches = [_batch(number) for number in range(READERS)]
    opened = OpenedBatches(bytes_max=5 << 20)
    readers: list[Iterator[list[Record]]] = []
    for number, batch in enumerate(batches):
        readers.append(opened.open(TopicPartition("t", number), batch, 0, read_header(batch)).slices())
    seen: list[list[int]] = [[] for _ in readers]
    # Brokers of other tests may hold some.
    before = _alive_bytes()
    for _ in range(RECORDS // SLICE_RECORDS):
        for offsets, reader in zip(seen, readers, strict=True):
            offsets += [record.offset for record in next(reader)]
            assert _alive_bytes() - before <= 5 << 20
    assert seen == [list(range(RECORDS))] * READERS


def test_what_is_kept_is_verified_again_after_there_was_no_room_for_it() -> None:
    batch = bytearray(_batch(1))
    opened = OpenedBatches(bytes_max=1)
    reader = opened.open(TopicPartition("t", 0), memoryview(batch), 0, read_header(batch)).slices()
    assert len(next(reader)) == SLICE_RECORDS
    batch[-1] ^= 1
    with pytest.raises(UnreadableBatch, match="crc"):
        next(reader)
