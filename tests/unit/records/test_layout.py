"""The batch header: what is read, what is refused and what may be changed without a new checksum."""

from __future__ import annotations

import pytest

from goqueue.errors import CorruptBatch, UnsupportedFormat
from goqueue.records.builder import NewRecord, build_batch
from goqueue.records.compression import Codec
from goqueue.records.layout import (
    CRC_START,
    HEADER_BYTES,
    TimestampType,
    headers,
    patch,
    read_header,
    reseal,
    validate,
    write_header,
)

RECORDS = [NewRecord(1000, b"a", b"1"), NewRecord(3000, b"b", b"2"), NewRecord(2000, None, None)]


def changed(**fields: int) -> bytearray:
    batch = build_batch(RECORDS, producer_id=7, producer_epoch=1, base_sequence=5)
    write_header(batch, read_header(batch)._replace(**fields))
    return batch


def test_header_of_a_built_batch_says_what_went_in() -> None:
    batch = build_batch(
        RECORDS,
        codec=Codec.ZSTD,
        base_offset=40,
        leader_epoch=3,
        producer_id=7,
        producer_epoch=1,
        base_sequence=5,
        is_transactional=True,
    )
    header = validate(batch)
    assert header.size_bytes == len(batch)
    assert (header.base_offset, header.last_offset, header.next_offset) == (40, 42, 43)
    assert (header.base_timestamp, header.max_timestamp) == (1000, 3000)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 1, 5)
    assert (header.last_sequence, header.record_count, header.leader_epoch) == (7, 3, 3)
    assert (header.codec, header.timestamp_type) == (Codec.ZSTD, TimestampType.CREATE_TIME)
    assert header.is_transactional
    assert header.is_idempotent
    assert not header.is_control
    assert not header.has_delete_horizon


def test_sequence_goes_on_with_zero_after_its_greatest_value() -> None:
    assert validate(changed(base_sequence=2**31 - 2)).last_sequence == 0
    assert validate(changed(base_sequence=2**31 - 3)).last_sequence == 2**31 - 1


def test_batch_without_sequence_has_no_last_sequence() -> None:
    assert validate(build_batch(RECORDS)).last_sequence == -1


def test_patch_sets_offset_and_epoch_and_leaves_the_checksum_right() -> None:
    buffer = bytearray(b"before") + build_batch(RECORDS)
    before = read_header(buffer, 6)
    patch(memoryview(buffer), base_offset=2**40, leader_epoch=9, position=6)
    assert validate(buffer, 6) == before._replace(base_offset=2**40, leader_epoch=9)


def test_reseal_makes_an_edited_batch_valid() -> None:
    batch = build_batch(RECORDS)
    batch[CRC_START + 1] |= 0x08
    batch += b"more"
    with pytest.raises(CorruptBatch, match="crc"):
        validate(batch)
    reseal(batch)
    header = validate(batch)
    assert header.size_bytes == len(batch)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME


def test_headers_hop_over_whole_batches_and_stop_before_an_incomplete_one() -> None:
    first, second = build_batch(RECORDS), build_batch(RECORDS[:1], base_offset=3)
    whole = bytes(first + second)
    found = [(0, read_header(first)), (len(first), read_header(second))]
    assert list(headers(whole)) == found
    assert list(headers(memoryview(whole))) == found
    assert list(headers(whole, len(first))) == found[1:]
    for end in range(len(first), len(whole)):
        assert list(headers(whole[:end])) == found[:1]
        assert list(headers(whole, 0, end)) == found[:1]


def test_headers_refuse_bytes_that_are_no_batch() -> None:
    with pytest.raises(UnsupportedFormat):
        list(headers(bytes(HEADER_BYTES)))


def test_header_that_is_cut_off_is_corrupt() -> None:
    with pytest.raises(CorruptBatch, match="its header takes 61"):
        read_header(build_batch(RECORDS)[: HEADER_BYTES - 1])


@pytest.mark.parametrize("magic", [0, 1, 3])
def test_other_formats_are_unsupported(magic: int) -> None:
    with pytest.raises(UnsupportedFormat, match=f"format {magic}"):
        read_header(changed(magic=magic))


def test_length_shorter_than_a_header_is_corrupt() -> None:
    batch = build_batch(RECORDS)
    batch[8:12] = (48).to_bytes(4, "big")
    with pytest.raises(CorruptBatch, match="length is 48"):
        read_header(batch)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"base_offset": -1}, "base_offset is -1"),
        ({"last_offset_delta": -1}, "last_offset_delta is -1"),
        ({"record_count": -1}, "record_count is -1"),
        ({"record_count": 4}, "record_count is 4, last_offset_delta 2"),
        ({"attributes": 0x80}, "0x0080 have reserved bits"),
        ({"attributes": -0x8000}, "0x8000 have reserved bits"),
        ({"attributes": 0x34}, "both control and compressed"),
        ({"producer_epoch": -1}, "producer_epoch is -1 with producer_id 7"),
        ({"attributes": 0x10, "producer_id": -1}, "producer_id is -1 in a transactional batch"),
    ],
)
def test_header_that_contradicts_itself_is_corrupt(fields: dict[str, int], message: str) -> None:
    with pytest.raises(CorruptBatch, match=message):
        validate(changed(**fields))


def test_unknown_codec_is_unsupported() -> None:
    batch = changed(attributes=5)
    with pytest.raises(UnsupportedFormat, match="codec 5"):
        validate(batch)
    with pytest.raises(UnsupportedFormat, match="codec 5"):
        _ = read_header(batch).codec


def test_batch_with_gaps_or_without_records_is_valid() -> None:
    assert validate(changed(last_offset_delta=100)).last_offset == 100
    assert validate(changed(record_count=0)).record_count == 0
