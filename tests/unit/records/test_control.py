"""Transaction markers, byte for byte as Kafka writes them."""

from __future__ import annotations

import pytest

from goqueue.errors import CorruptBatch, UnsupportedFormat
from goqueue.records.builder import NewRecord, build_batch
from goqueue.records.control import ControlType, Marker, build_marker, read_marker
from goqueue.records.layout import (
    CONTROL_BIT,
    HEADER_BYTES,
    TRANSACTIONAL_BIT,
    read_header,
    validate,
    write_header,
)


def control_batch(*records: NewRecord) -> bytearray:
    batch = build_batch(records, producer_id=1, producer_epoch=0)
    write_header(batch, read_header(batch)._replace(attributes=CONTROL_BIT | TRANSACTIONAL_BIT))
    return batch


@pytest.mark.parametrize("control_type", ControlType)
def test_marker_reads_back_as_it_was_built(control_type: ControlType) -> None:
    batch = build_marker(
        control_type,
        producer_id=5,
        producer_epoch=3,
        timestamp=1000,
        coordinator_epoch=12,
        base_offset=77,
        leader_epoch=2,
    )
    header = validate(batch)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 3, -1)
    assert (header.base_offset, header.last_offset, header.leader_epoch) == (77, 77, 2)
    assert (header.base_timestamp, header.max_timestamp) == (1000, 1000)
    assert read_marker(batch) == Marker(control_type, 12)


def test_commit_marker_has_kafkas_bytes() -> None:
    batch = build_marker(ControlType.COMMIT, producer_id=5, producer_epoch=3, timestamp=0, coordinator_epoch=1)
    # length 16, attributes, deltas; key: version 0, type 1; value: version 0, coordinator epoch 1; no headers
    assert batch[HEADER_BYTES:].hex(" ") == "20 00 00 00 08 00 00 00 01 0c 00 00 00 00 00 01 00"


def test_data_batch_is_no_marker() -> None:
    with pytest.raises(CorruptBatch, match="no control batch"):
        read_marker(build_batch([NewRecord(0, bytes(4), bytes(6))]))


def test_marker_of_a_later_version_is_read_as_far_as_it_is_known() -> None:
    record = NewRecord(0, b"\0\1\0\1more", b"\0\1\0\0\0\7more")
    assert read_marker(control_batch(record)) == Marker(ControlType.COMMIT, 7)


def test_unknown_control_type_is_unsupported() -> None:
    with pytest.raises(UnsupportedFormat, match="type 2"):
        read_marker(control_batch(NewRecord(0, b"\0\0\0\2", bytes(6))))


@pytest.mark.parametrize(
    "records",
    [
        [NewRecord(0, bytes(3), bytes(6))],
        [NewRecord(0, bytes(4), bytes(5))],
        [NewRecord(0, None, bytes(6))],
        [NewRecord(0, bytes(4), None)],
        [NewRecord(0, b"\xff\xff\0\1", bytes(6))],
        [NewRecord(0, bytes(4), bytes(6))] * 2,
    ],
)
def test_malformed_marker_is_corrupt(records: list[NewRecord]) -> None:
    with pytest.raises(CorruptBatch):
        read_marker(control_batch(*records))
