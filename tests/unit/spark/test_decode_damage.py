"""Bytes from anyone: whatever is wrong with them is said with its place, and nothing else ever happens."""

from __future__ import annotations

import re
import tracemalloc
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.errors import CorruptBatch, TooLarge
from goqueue.records.builder import NewRecord, assemble, build_batch
from goqueue.records.compression import Codec
from goqueue.records.layout import HEADER_BYTES, BatchHeader, read_header
from goqueue.records.reader import read_records
from tests.unit.spark.codec_kit import RECORDS, TIMESTAMP_MAX, Row, decoded, naive_row

PLACE = re.escape("topic t, partition 3, offset 0: ")

# length, attributes, timestamp delta, offset delta, key "k", value "v", one header "h": null
GOOD = bytes.fromhex("16 00 00 00 02 6b 02 76 02 02 68 01")
HEADER = read_header(build_batch([NewRecord(1000, b"k", b"v")]))


def small_batch(codec: Codec = Codec.NONE) -> bytes:
    records = [NewRecord(1000, b"k", b"value"), NewRecord(1001, None, b"", [("h", b"x")]), NewRecord(900, b"", None)]
    return bytes(build_batch(records, codec=codec, base_offset=5))


def outcome(batch: bytes | bytearray) -> tuple[list[Row], int] | str:
    """Return rows and next offset, or what is wrong."""
    try:
        return decoded(batch)
    except CorruptBatch as error:
        return error.message


@pytest.mark.parametrize("codec", Codec)
def test_flipped_byte_is_corrupt_or_changes_nothing(codec: Codec) -> None:
    batch = small_batch(codec)
    rows, next_offset = decoded(batch)
    # The base offset is not covered by the checksum: it is the broker's to set.
    for position in range(8, len(batch)):
        for bit in (0x01, 0x80):
            damaged = bytearray(batch)
            damaged[position] ^= bit
            found = outcome(damaged)
            if isinstance(found, str):
                assert found.startswith("topic t, partition 3, offset 0: ")
                continue
            # A length that grew is a batch that is cut off: nothing of it is read, and reading does not go on.
            assert found in ((rows, next_offset), ([], 0)) if 8 <= position < 12 else found == (rows, next_offset)


def test_negative_base_offset_is_corrupt() -> None:
    damaged = bytearray(small_batch())
    damaged[0] ^= 0x80
    with pytest.raises(CorruptBatch, match="comes after offset -1"):
        decoded(damaged)


def test_damage_is_named_by_the_offset_of_its_batch() -> None:
    damaged = bytearray(build_batch([NewRecord(0, None, b"v")], base_offset=8))
    damaged[-1] ^= 1
    with pytest.raises(CorruptBatch, match=r"topic t, partition 3, offset 8: .*crc"):
        decoded(small_batch() + damaged)
    malformed = assemble(HEADER._replace(base_offset=11), b"\x16\x01" + GOOD[2:])
    with pytest.raises(CorruptBatch, match="topic t, partition 3, offset 11: the attributes"):
        decoded(small_batch() + malformed)


def test_batches_out_of_order_are_corrupt() -> None:
    with pytest.raises(CorruptBatch, match="offset 5 comes after offset 7"):
        decoded(small_batch() * 2)


@pytest.mark.parametrize("repeats", [1, 40])
@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ("16 00 00 00 02 6b 02 76 02 02 68", "cannot hold|beyond|end at byte"),
        ("16 00 00 00 02 6b 02 76 02 02 68 01 00", "beyond|end at byte"),
        ("01 00 00 00 02 6b 02 76 02 02 68 01", "end at byte|beyond"),
        ("17 00 00 00 02 6b 02 76 02 02 68 01", "negative"),
        ("00 00 00 00 00 00 00 00 00 00 00 00", "end at byte"),
        ("16 01 00 00 02 6b 02 76 02 02 68 01", "attributes"),
        ("16 80 00 00 02 6b 02 76 02 02 68 01", "attributes"),
        ("16 00 00 00 03 6b 02 76 02 02 68 01", "record's key"),
        ("16 00 00 00 30 6b 02 76 02 02 68 01", "record's key"),
        ("16 00 00 00 02 6b 05 76 02 02 68 01", "record's value"),
        ("16 00 00 00 02 6b 30 76 02 02 68 01", "record's value"),
        ("16 00 00 00 02 6b 02 76 01 02 68 01", "header count"),
        ("16 00 00 00 02 6b 02 76 04 02 68 01", "header count|header"),
        ("16 00 00 00 02 6b 02 76 00 02 68 01", "do not end|header count"),
        ("16 00 00 00 02 6b 02 76 02 01 68 01", "header"),
        ("18 00 00 00 02 6b 02 76 02 02 68 01 00", "headers of a record do not end"),
        ("16 00 00 00 02 6b 02 76 02 02 ff 01", "UTF-8"),
        ("16 00 00 00 02 6b 02 76 02 02 68 03", "header"),
        ("16 00 00 00 02 6b 02 76 02 02 68 81", "header"),
        ("16 00 ff ff ff ff ff ff ff ff ff ff", "64 bits"),
        ("16 00 ff ff ff ff ff ff ff ff ff 7f", "64 bits"),
        ("16 00 00 ff ff ff ff 7f 02 76 00 00", "32 bits"),
        ("16 00 00 00 fe ff ff ff 0f 76 02 02", "record's key"),
        ("16 00 00 00 01 fe ff ff ff 0f 02 02", "record's value"),
        ("16 00 00 00 02 6b 01 fe ff ff ff 0f", "header count"),
        ("16 00 00 00 02 6b 01 ff ff ff ff ff", "32 bits"),
        ("16 00 00 01 02 6b 02 76 02 02 68 01", "offsets"),
    ],
)
def test_malformed_record_is_corrupt(payload: str, message: str, repeats: int) -> None:
    header = HEADER._replace(record_count=repeats, last_offset_delta=repeats - 1)
    records = [bytes([*GOOD[:3], 2 * index, *GOOD[4:]]) for index in range(repeats - 1)]
    malformed = bytearray.fromhex(payload)
    malformed[3] = malformed[3] or 2 * (repeats - 1)
    with pytest.raises(CorruptBatch, match=PLACE + f".*({message})"):
        decoded(assemble(header, b"".join(records) + malformed))


@pytest.mark.parametrize("deltas", [(0, 0), (1, 0), (0, 5)])
def test_offsets_out_of_order_or_out_of_the_batch_are_corrupt(deltas: tuple[int, int]) -> None:
    payload = b"".join(GOOD[:3] + bytes([2 * delta]) + GOOD[4:] for delta in deltas)
    with pytest.raises(CorruptBatch, match=PLACE + "the records' offsets"):
        decoded(assemble(HEADER._replace(record_count=2, last_offset_delta=4), payload))


def test_offsets_out_of_order_are_seen_where_rows_are_cut() -> None:
    payload = b"".join(GOOD[:3] + bytes([2 * delta]) + GOOD[4:] for delta in (0, 3, 2))
    with pytest.raises(CorruptBatch, match=PLACE + "offset 2 comes after offset 3"):
        decoded(assemble(HEADER._replace(record_count=3, last_offset_delta=4), payload), rows_max=2)


@pytest.mark.parametrize("base_timestamp", [2**62, 2**63 - 1, -(2**63)])
def test_timestamps_beyond_reason_are_corrupt(base_timestamp: int) -> None:
    with pytest.raises(CorruptBatch, match=PLACE + ".*timestamps"):
        decoded(assemble(HEADER._replace(base_timestamp=base_timestamp), GOOD))


@pytest.mark.parametrize("timestamp", [2**60, -(2**60), TIMESTAMP_MAX + 1, -TIMESTAMP_MAX - 1])
def test_a_timestamp_that_microseconds_cannot_say_is_null_and_no_other(timestamp: int) -> None:
    stamps = (-TIMESTAMP_MAX, timestamp, TIMESTAMP_MAX)
    rows = [decoded(build_batch([NewRecord(each, None, b"v")]), columns=["timestamp"])[0][0] for each in stamps]

    assert [row["timestamp"] for row in rows] == [-TIMESTAMP_MAX * 1000, None, TIMESTAMP_MAX * 1000]


def test_timestamps_whose_sum_alone_fits_are_read() -> None:
    delta = bytes.fromhex("ff ff ff ff ff ff ff ff ff 01")  # -2^63
    payload = bytes([2 * 15, 0]) + delta + bytes.fromhex("00 01 01 00")
    payload = bytes([2 * (len(payload) - 1)]) + payload[1:]
    batch = assemble(HEADER._replace(base_timestamp=2**63 - 1), payload)
    assert read_records(batch)[0].timestamp == -1
    assert decoded(batch, columns=["timestamp"])[0] == [{"timestamp": None}]


@pytest.mark.parametrize("count", [0, 2, 1000, 2**31 - 1])
def test_wrong_record_count_is_corrupt_and_costs_no_memory(count: int) -> None:
    header = HEADER._replace(record_count=count, last_offset_delta=max(count - 1, 0))
    batch = assemble(header, GOOD)
    tracemalloc.start()
    try:
        if count:
            with pytest.raises(CorruptBatch, match=PLACE):
                decoded(batch)
        else:
            assert decoded(batch) == ([], 1)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_batch_that_opens_to_more_than_allowed_is_too_large(codec: Codec) -> None:
    batch = build_batch([NewRecord(0, None, bytes(1_000_000))], codec=codec)
    with pytest.raises(TooLarge, match=PLACE) as caught:
        decoded(batch, opened_bytes_max=100_000)
    assert caught.value.hint == "raise the option goqueue.max.decompressed.bytes, up to 1GiB"


@settings(deadline=None, max_examples=300)
@given(RECORDS, st.data())
def test_mutated_records_are_judged_as_one_by_one(records: list[NewRecord], data: st.DataObject) -> None:
    batch = build_batch(records)
    payload = bytearray(batch[HEADER_BYTES:])
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(0, len(payload) - 1))
        payload[position] = data.draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF]) | st.integers(0, 255))
    assert_same_verdict(read_header(batch), bytes(payload))


@settings(deadline=None, max_examples=200)
@given(st.binary(min_size=7, max_size=200), st.integers(1, 8))
def test_rubbish_is_judged_as_one_by_one(payload: bytes, count: int) -> None:
    assert_same_verdict(HEADER._replace(record_count=count, last_offset_delta=100), payload)


def assert_same_verdict(header: BatchHeader, payload: bytes) -> None:
    batch = assemble(header, payload)
    expected: list[Row] | None = None
    with suppress(CorruptBatch):
        expected = [naive_row(record) for record in read_records(batch)]
    if expected is None:
        with pytest.raises(CorruptBatch):
            decoded(batch)
    else:
        assert decoded(batch)[0] == expected
