"""Rows out of record batches: the same as reading record by record, whatever the batches look like."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from goqueue.errors import Invalid
from goqueue.records.builder import NewRecord, assemble, build_batch, empty_batch
from goqueue.records.compression import Codec
from goqueue.records.layout import LOG_APPEND_TIME_BIT, read_header, write_header
from goqueue.records.payload import Columns, encode
from goqueue.spark.source.columns import SCHEMA
from tests.unit.spark.codec_kit import (
    END,
    RECORDS,
    arrow_batches,
    decoded,
    naive_rows,
    next_offset_of,
    rows_of,
    values_of,
)

GOLDEN = sorted((Path(__file__).parent.parent.parent / "golden").glob("*.bin"))
HEADER = StructType().add("key", StringType()).add("value", BinaryType())
SPARK_SCHEMA = (
    StructType()
    .add("key", BinaryType())
    .add("value", BinaryType())
    .add("headers", ArrayType(HEADER))
    .add("topic", StringType())
    .add("partition", IntegerType())
    .add("offset", LongType())
    .add("timestamp", TimestampType())
    .add("timestampType", IntegerType())
    .add("priority", IntegerType())
    .add("trace_id", StringType())
    .add("schema_id", IntegerType())
)


def some_batch(count: int, base_offset: int = 0, codec: Codec = Codec.NONE) -> bytes:
    records = [NewRecord(1000 + offset, b"k", b"%d" % offset) for offset in range(base_offset, base_offset + count)]
    return bytes(build_batch(records, base_offset=base_offset, codec=codec))


def with_offsets(batch: bytes, deltas: list[int], last_delta: int) -> bytes:
    """Return a batch of so many records, with gaps between them as compaction leaves them."""
    count = len(deltas)
    payload = encode(Columns(deltas, [0] * count, [None] * count, [b"%d" % delta for delta in deltas], [[]] * count))
    header = read_header(batch)._replace(record_count=count, last_offset_delta=last_delta)
    return bytes(assemble(header, payload))


def test_schema_equals_what_pyspark_expects() -> None:
    expected = to_arrow_schema(SPARK_SCHEMA, timezone="UTC")
    assert expected == SCHEMA
    (rows,), _ = arrow_batches(some_batch(2))
    assert rows.schema.equals(expected, check_metadata=True)


def test_columns_come_as_they_are_asked_for() -> None:
    (rows,), _ = arrow_batches(some_batch(2, 7), columns=["offset", "partition", "topic", "value"])
    assert rows.schema.names == ["offset", "partition", "topic", "value"]
    assert rows.to_pylist() == [
        {"offset": 7, "partition": 3, "topic": "t", "value": b"7"},
        {"offset": 8, "partition": 3, "topic": "t", "value": b"8"},
    ]


def test_no_columns_at_all_still_count_rows() -> None:
    assert arrow_batches(b"", columns=[]) == ([], 0)


def test_unknown_column_is_invalid() -> None:
    with pytest.raises(Invalid, match="no column 'colour'"):
        arrow_batches(some_batch(1), columns=["key", "colour"])


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_batches_of_real_clients_give_the_records_that_they_hold(path: Path) -> None:
    batch = path.read_bytes()
    assert decoded(batch) == (naive_rows(batch), next_offset_of(batch))


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(RECORDS, st.sampled_from(Codec), st.integers(0, 3)), max_size=5),
    st.integers(0, 40),
    st.integers(0, 400),
    st.sampled_from([9, 100, 16_384]),
    st.sampled_from([300, 10_000_000]),
)
def test_rows_equal_records_read_one_by_one(
    content: list[tuple[list[NewRecord], Codec, int]], start: int, count: int, rows_max: int, bytes_max: int
) -> None:
    buffer = bytearray()
    offset = 0
    for records, codec, gap in content:
        offset += gap
        buffer += build_batch(records, codec=codec, base_offset=offset)
        offset += len(records)
    end = start + count
    rows, next_offset = decoded(buffer, start, end, rows_max=rows_max, bytes_max=bytes_max)
    assert rows == naive_rows(bytes(buffer), start, end)
    assert next_offset == max(start, min(offset, end))


@pytest.mark.parametrize("size", [0, 40, 5_000, 9_000, 70_000])
@pytest.mark.parametrize("is_alike", [True, False])
def test_records_of_any_size_are_found(size: int, is_alike: bool) -> None:
    records = [NewRecord(index * 7, None, bytes(size + (0 if is_alike else index % 5))) for index in range(150)]
    batch = bytes(build_batch(records))
    assert decoded(batch)[0] == naive_rows(batch)


def test_runs_of_equal_records_end_where_offsets_grow_longer() -> None:
    batch = some_batch(9_000)
    assert decoded(batch)[0] == naive_rows(batch)


def test_rows_are_bounded_in_number_and_bytes() -> None:
    buffer = b"".join(some_batch(100, base) for base in range(0, 1000, 100))
    by_rows, _ = arrow_batches(buffer, rows_max=64)
    assert [batch.num_rows for batch in by_rows] == [64] * 15 + [40]
    by_bytes, _ = arrow_batches(buffer, bytes_max=500)
    assert max(batch.num_rows for batch in by_bytes) < 60
    assert sum(batch.num_rows for batch in by_bytes) == 1000


def test_record_larger_than_the_bound_comes_alone() -> None:
    values = [b"a", bytes(5_000), b"b", b"c"]
    batch = build_batch([NewRecord(0, None, value) for value in values])
    found, _ = arrow_batches(batch, columns=["value"], bytes_max=1_000)
    assert [values_of(rows_of(rows)) for rows in found] == [[b"a"], [bytes(5_000)], [b"b", b"c"]]


@pytest.mark.parametrize("codec", Codec)
def test_rows_stay_when_the_buffer_is_filled_again(codec: Codec) -> None:
    buffer = bytearray(some_batch(50, codec=codec))
    expected = naive_rows(bytes(buffer))
    found, _ = arrow_batches(memoryview(buffer), columns=("key", "value", "headers", "offset", "timestamp"))
    buffer[:] = b"\xff" * len(buffer)
    assert [row for batch in found for row in rows_of(batch)] == expected


def test_cut_tail_is_left_for_the_next_fetch() -> None:
    first, second = some_batch(2), some_batch(2, 2)
    buffer = first + second
    for size in range(len(buffer) + 1):
        rows, next_offset = decoded(buffer[:size])
        whole = 4 if size == len(buffer) else 2 if size >= len(first) else 0
        assert (len(rows), next_offset) == (whole, whole)


def test_batches_before_and_behind_the_range_give_no_rows() -> None:
    buffer = b"".join(some_batch(10, base) for base in (0, 10, 20, 30))
    rows, next_offset = decoded(buffer, 12, 25)
    assert [row["offset"] for row in rows] == list(range(12, 25))
    assert next_offset == 25
    assert decoded(buffer, 50, 60) == ([], 50)


def test_empty_range_gives_no_rows() -> None:
    assert decoded(some_batch(10), 5, 5) == ([], 5)


def test_gaps_are_passed() -> None:
    gappy = with_offsets(some_batch(1), [1, 4, 7], 9)
    rows, next_offset = decoded(gappy)
    assert [row["offset"] for row in rows] == [1, 4, 7]
    assert next_offset == 10
    assert decoded(gappy, 8, 9) == ([], 9)


def test_batch_without_records_moves_on() -> None:
    assert decoded(empty_batch(read_header(some_batch(5)))) == ([], 5)


def test_gap_up_to_a_batch_behind_the_range_is_passed() -> None:
    assert decoded(some_batch(3) + some_batch(3, 100), 0, 50)[1] == 50


@pytest.mark.parametrize("count", [1, 40])
def test_broker_s_timestamp_counts_where_the_broker_stamped(count: int) -> None:
    stamped = bytearray(some_batch(count))
    header = read_header(stamped)
    write_header(stamped, header._replace(attributes=LOG_APPEND_TIME_BIT, max_timestamp=9_999))
    buffer = bytes(stamped) + some_batch(1, count)
    rows, _ = decoded(buffer, columns=("timestamp", "timestampType"))
    assert rows == [{"timestamp": 9_999_000, "timestampType": 1}] * count + [
        {"timestamp": (1000 + count) * 1000, "timestampType": 0}
    ]


def test_missing_timestamp_is_null() -> None:
    batch = build_batch([NewRecord(-1, None, None), NewRecord(5, None, None), NewRecord(-2, None, None)])
    rows, _ = decoded(batch, columns=["timestamp"])
    assert [row["timestamp"] for row in rows] == [None, 5_000, -2_000]


def test_last_possible_offset_is_read() -> None:
    batch = build_batch([NewRecord(0, None, b"v")], base_offset=END - 2)
    rows, next_offset = decoded(batch, END - 2, END)
    assert ([row["offset"] for row in rows], next_offset) == ([END - 2], END - 1)


def test_codec_needs_no_spark() -> None:
    modules = "goqueue.spark.records.decode, goqueue.spark.records.encode, goqueue.spark.sink.rows"
    check = f"import sys, {modules}; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
