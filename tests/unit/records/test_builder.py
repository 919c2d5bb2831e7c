"""Batches made here: from records, and without any."""

from __future__ import annotations

import pytest

from goqueue.errors import Invalid
from goqueue.records.builder import NewRecord, build_batch, empty_batch
from goqueue.records.compression import Codec
from goqueue.records.layout import HEADER_BYTES, read_header, validate


def test_batch_of_no_records_is_invalid() -> None:
    with pytest.raises(Invalid, match="at least one record"):
        build_batch([])


def test_max_timestamp_is_the_greatest_and_base_timestamp_the_first() -> None:
    header = validate(build_batch([NewRecord(5, None, b"") for _ in range(2)] + [NewRecord(2, None, b"")]))
    assert (header.base_timestamp, header.max_timestamp) == (5, 5)
    header = validate(build_batch([NewRecord(-1, None, b""), NewRecord(8, None, b"")]))
    assert (header.base_timestamp, header.max_timestamp) == (-1, 8)


def test_empty_batch_keeps_offsets_and_producer_of_the_one_it_replaces() -> None:
    original = build_batch(
        [NewRecord(50, b"k", b"v"), NewRecord(60, b"k", b"v")],
        codec=Codec.GZIP,
        base_offset=10,
        leader_epoch=4,
        producer_id=9,
        producer_epoch=2,
        base_sequence=33,
        is_transactional=True,
    )
    batch = empty_batch(read_header(original))
    header = validate(batch)
    assert len(batch) == HEADER_BYTES
    assert (header.base_offset, header.last_offset, header.record_count) == (10, 11, 0)
    assert (header.producer_id, header.producer_epoch, header.last_sequence) == (9, 2, 34)
    assert (header.leader_epoch, header.max_timestamp, header.codec) == (4, 60, Codec.NONE)
    assert header.is_transactional
