"""Record batches out of rows: byte for byte what building them record by record gives."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha512
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.errors import Invalid, TooLarge
from goqueue.records.builder import NewRecord, build_batch
from goqueue.records.compression import Codec
from goqueue.records.layout import read_header, validate
from goqueue.records.reader import read_records
from goqueue.spark.records.encode import ProducerState, bytes_alone, encode
from goqueue.spark.source.columns import SCHEMA
from tests.unit.spark.codec_kit import RECORD, RECORDS, arrow_batches

NOW = 1_700_000_000_000


def rows_of(records: Sequence[NewRecord]) -> pa.RecordBatch:
    headers = [
        [{"key": key, "value": value} for key, value in record.headers] if record.headers else None
        for record in records
    ]
    stamps = [record.timestamp * 1000 for record in records]
    return pa.RecordBatch.from_arrays(
        [
            pa.array([record.key for record in records], pa.binary()),
            pa.array([record.value for record in records], pa.binary()),
            pa.array(headers, SCHEMA.field("headers").type),
            pa.array(stamps, pa.int64()).cast(pa.timestamp("us", tz="UTC")),
        ],
        names=["key", "value", "headers", "timestamp"],
    )


def encoded(rows: pa.RecordBatch, **settings: Any) -> list[bytearray]:
    return list(encode(rows, now_ms=NOW, **settings))


def records_of(batches: Sequence[bytearray]) -> list[NewRecord]:
    return [NewRecord(*record[1:]) for batch in batches for record in read_records(batch)]


@settings(deadline=None)
@given(RECORDS, st.sampled_from(Codec), st.booleans())
def test_bytes_equal_those_of_records_built_one_by_one(
    records: list[NewRecord], codec: Codec, is_transactional: bool
) -> None:
    producer = ProducerState(7, 2, 41, is_transactional=is_transactional)
    assert encoded(rows_of(records), codec=codec, producer=producer) == [
        build_batch(
            records,
            codec=codec,
            producer_id=7,
            producer_epoch=2,
            base_sequence=41,
            is_transactional=is_transactional,
        )
    ]


@pytest.mark.parametrize("size", [0, 63, 64, 8_190, 70_000])
def test_long_contents_give_the_same_bytes(size: int) -> None:
    records = [
        NewRecord(NOW + index, bytes(size), bytes(size + index), [("h" * 70, bytes(size))]) for index in range(3)
    ]
    assert encoded(rows_of(records)) == [build_batch(records)]


def test_many_records_give_the_same_bytes() -> None:
    records = [NewRecord(NOW - index * 37, b"%d" % index, b"v") for index in range(9_000)]
    assert encoded(rows_of(records)) == [build_batch(records)]


@settings(deadline=None, max_examples=50)
@given(st.lists(RECORD, max_size=40), st.integers(1_400, 4_000), st.sampled_from(Codec))
def test_batches_stay_below_the_limit_and_keep_all_records_in_order(
    records: list[NewRecord], batch_bytes_max: int, codec: Codec
) -> None:
    batches = encoded(rows_of(records), batch_bytes_max=batch_bytes_max, codec=codec, producer=ProducerState(1, 0, 5))
    assert records_of(batches) == records
    sequence = 5
    for batch in batches:
        header = validate(batch)
        assert len(batch) <= batch_bytes_max
        assert header.base_sequence == sequence
        sequence += header.record_count


def test_far_apart_timestamps_are_counted_into_the_limit() -> None:
    records = [NewRecord(index % 2 << 50, None, None, []) for index in range(500)]
    batches = encoded(rows_of(records), batch_bytes_max=1_000)
    assert max(map(len, batches)) <= 1_000
    assert records_of(batches) == records


@pytest.mark.parametrize("codec", Codec)
def test_contents_that_do_not_get_smaller_stay_below_the_limit(codec: Codec) -> None:
    noise = b"".join(sha512(b"%d" % index).digest() for index in range(320))
    # Two of them fill a batch to within some bytes of the limit, less than any codec adds.
    records = [NewRecord(NOW, None, noise[index : index + 19_955]) for index in range(4)]
    assert max(map(len, encoded(rows_of(records), batch_bytes_max=40_000, codec=codec))) <= 40_000


def test_batches_are_filled() -> None:
    records = [NewRecord(NOW, None, bytes(100))] * 10_000
    assert all(len(batch) > 90_000 for batch in encoded(rows_of(records), batch_bytes_max=100_000)[:-1])


def test_sequence_goes_on_from_0_behind_its_end() -> None:
    last = ProducerState(1, 0, 2**31 - 1)
    first, second = encoded(rows_of([NewRecord(NOW, None, bytes(500))] * 2), batch_bytes_max=700, producer=last)
    assert (read_header(first).base_sequence, read_header(second).base_sequence) == (2**31 - 1, 0)
    assert last.after(3) == ProducerState(1, 0, 2)


def test_producer_without_a_sequence_has_none_afterwards() -> None:
    assert ProducerState().after(3) == ProducerState()


def test_no_rows_give_no_batch() -> None:
    assert encoded(rows_of([])) == []


def test_missing_columns_are_null_and_the_time_is_now() -> None:
    assert records_of(encoded(pa.record_batch({"value": [b"v"]}))) == [NewRecord(NOW, None, b"v", [])]
    assert records_of(encoded(pa.record_batch({"key": [b"k"]}))) == [NewRecord(NOW, b"k", None, [])]


def test_record_without_a_timestamp_gets_the_time_of_the_call() -> None:
    rows = pa.record_batch({"timestamp": pa.array([5_999, None, -1], pa.timestamp("us"))})
    assert [record.timestamp for record in records_of(encoded(rows))] == [5, NOW, -1]


@pytest.mark.parametrize(("unit", "ticks"), [("s", 5), ("ms", 5_000), ("us", 5_000_999), ("ns", 5_000_999_999)])
def test_timestamps_of_any_unit_are_milliseconds(unit: str, ticks: int) -> None:
    (record,) = records_of(encoded(pa.record_batch({"timestamp": pa.array([ticks], pa.timestamp(unit))})))
    assert record.timestamp == 5_000


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.large_binary()])
def test_strings_are_written_as_utf8(kind: pa.DataType) -> None:
    rows = pa.record_batch({"key": pa.array(["ä", None], pa.string()).cast(kind), "value": ["", "ö"]})
    assert [record[1:3] for record in records_of(encoded(rows))] == [("ä".encode(), b""), (None, "ö".encode())]


def test_other_columns_are_left_alone() -> None:
    assert len(encoded(pa.record_batch({"value": [b"v"], "partition": [3], "colour": ["red"]}))) == 1


def test_part_of_rows_gives_its_records_only() -> None:
    records = [NewRecord(index, b"%d" % index, None, [("h", b"%d" % index)] * (index % 3)) for index in range(30)]
    assert records_of(encoded(rows_of(records).slice(7, 11))) == records[7:18]


def test_contents_behind_a_null_are_not_written() -> None:
    pairs = pa.array(
        [{"key": "a", "value": b"1"}, {"key": "b", "value": b"2"}], SCHEMA.field("headers").type.value_type
    )
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), pairs, mask=pa.array([True, False]))
    values = pa.Array.from_buffers(
        pa.binary(),
        2,
        [pa.py_buffer(b"\x02"), pa.py_buffer(bytes.fromhex("00000000 01000000 02000000")), pa.py_buffer(b"xy")],
    )
    rows = pa.RecordBatch.from_arrays([values, lists], names=["value", "headers"])
    assert [record[2:] for record in records_of(encoded(rows))] == [(None, []), (b"y", [("b", b"2")])]


@pytest.mark.parametrize("codec", Codec)
def test_single_record_beyond_the_limit_is_too_large(codec: Codec) -> None:
    noise = b"".join(sha512(bytes([number])).digest() for number in range(20))
    rows = rows_of([NewRecord(NOW, None, b"v"), NewRecord(NOW, None, noise)])
    exact = len(build_batch([NewRecord(NOW, None, noise)]))
    assert len(encoded(rows, batch_bytes_max=exact, codec=codec)) == 2
    with pytest.raises(TooLarge, match="row 1"):
        encoded(rows, batch_bytes_max=exact - 1, codec=codec)


def test_a_record_that_is_larger_than_batches_should_be_goes_alone_and_is_compressed_only_if_it_must_be() -> None:
    small, large = NewRecord(NOW, None, b"v"), NewRecord(NOW, None, bytes(1_000))
    exact = len(build_batch([large]))
    rows = rows_of([small, large, small])

    sent = encoded(rows, batch_bytes_max=200, record_bytes_max=exact)
    assert sent == [build_batch([small]), build_batch([large]), build_batch([small])]
    assert len(bytes_alone(rows, NOW)) == 3
    assert bytes_alone(rows, NOW).tolist() == [len(batch) for batch in sent]

    packed = encoded(rows, batch_bytes_max=200, record_bytes_max=exact - 1)
    assert [read_header(batch).codec for batch in packed] == [Codec.NONE, Codec.GZIP, Codec.NONE]
    assert [record.value for record in records_of(packed)] == [b"v", bytes(1_000), b"v"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"key": [1]}, "the column key is of type int64"),
        ({"value": [1.5]}, "the column value is of type double"),
        ({"timestamp": [1]}, "the column timestamp is of type int64"),
        ({"timestamp": pa.array([2**62], pa.timestamp("ms"))}, "2\\^62"),
        ({"timestamp": pa.array([2**62], pa.timestamp("s"))}, "2\\^62"),
        ({"headers": [1]}, "the column headers is of type int64"),
        ({"headers": [["h"]]}, "pairs of key and value"),
        ({"headers": [[{"key": "h"}]]}, "pairs of key and value"),
        ({"headers": [[{"key": None, "value": b""}]]}, "a header is null or has no key"),
        ({"headers": [[None, {"key": "h", "value": b""}]]}, "a header is null or has no key"),
        ({"headers": [[{"key": "h", "value": 5}]]}, "the value of a header is of type int64"),
    ],
)
def test_rows_that_are_no_records_are_invalid(rows: dict[str, Any], message: str) -> None:
    with pytest.raises(Invalid, match=message):
        encoded(pa.record_batch(rows))


def test_column_that_comes_twice_is_invalid() -> None:
    rows = pa.RecordBatch.from_arrays([pa.array([b"a"]), pa.array([b"b"])], names=["key", "key"])
    with pytest.raises(Invalid, match="more than one column key"):
        encoded(rows)


@settings(deadline=None, max_examples=50)
@given(RECORDS, st.sampled_from(Codec))
def test_rows_that_were_read_are_written_as_they_were(records: list[NewRecord], codec: Codec) -> None:
    stamped = [record._replace(timestamp=NOW if record.timestamp == -1 else record.timestamp) for record in records]
    batch = build_batch(stamped, codec=codec)
    found, _ = arrow_batches(batch)
    assert [each for rows in found for each in encoded(rows, codec=codec)] == [batch]
