"""What the tests of the Arrow codec share: records to try, and the slow and sure way from batches to rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from goqueue.records.builder import NewRecord
from goqueue.records.layout import headers, read_header
from goqueue.records.reader import Record, read_records
from goqueue.spark.records.batches import WantedOffsets
from goqueue.spark.records.decode import decode
from goqueue.spark.source.columns import SCHEMA

END = 2**62
TIMESTAMP_MAX = (2**63 - 1) // 1000
PLAIN = ("key", "value", "headers", "offset", "timestamp")

Row = dict[str, Any]

_contents = st.none() | st.binary(max_size=6) | st.integers(60, 300).map(bytes)
_headers = st.lists(st.tuples(st.text(max_size=4), st.none() | st.binary(max_size=70)), max_size=3)
_stamps = st.integers(-1, 300) | st.integers(-(2**50), 2**50)

RECORD = st.builds(NewRecord, _stamps, _contents, _contents, st.just([]) | _headers)
ALIKE = st.builds(lambda record, count: [record] * count, RECORD, st.integers(1, 200))
RECORDS = st.lists(RECORD, min_size=1, max_size=12) | ALIKE


def wanted(start: int = 0, end: int = END) -> WantedOffsets:
    return WantedOffsets("t", 3, start, end)


def decoded(
    batches: bytes | bytearray | memoryview,
    start: int = 0,
    end: int = END,
    columns: Sequence[str] = PLAIN,
    **limits: Any,
) -> tuple[list[Row], int]:
    """Return the rows, and the offset to go on with."""
    found, next_offset = arrow_batches(batches, start, end, columns, **limits)
    return [row for batch in found for row in rows_of(batch)], next_offset


def arrow_batches(
    batches: bytes | bytearray | memoryview,
    start: int = 0,
    end: int = END,
    columns: Sequence[str] = tuple(SCHEMA.names),
    **limits: Any,
) -> tuple[list[pa.RecordBatch], int]:
    """Return the batches of rows, each found to be sound by Arrow itself, and the offset to go on with."""
    found: list[pa.RecordBatch] = []
    walk = decode(batches, wanted(start, end), columns, **limits)
    while True:
        try:
            batch = next(walk)
        except StopIteration as stop:
            return found, stop.value
        batch.validate(full=True)
        assert batch.num_rows
        found.append(batch)


def rows_of(batch: pa.RecordBatch) -> list[Row]:
    """Return the rows with timestamps as microseconds: Python knows no years beyond 9999."""
    index = batch.schema.get_field_index("timestamp")
    if index >= 0:
        batch = batch.set_column(index, "timestamp", batch.column(index).cast(pa.int64()))
    rows: list[Row] = batch.to_pylist()
    return rows


def naive_rows(batches: bytes, start: int = 0, end: int = END) -> list[Row]:
    """Return the plain columns of the records in the range, read one by one."""
    return [naive_row(record) for record in _naive_records(batches) if start <= record.offset < end]


def naive_row(record: Record) -> Row:
    has_time = record.timestamp != -1 and abs(record.timestamp) <= TIMESTAMP_MAX
    return {
        "key": record.key,
        "value": record.value,
        "headers": [{"key": key, "value": value} for key, value in record.headers] or None,
        "offset": record.offset,
        "timestamp": record.timestamp * 1000 if has_time else None,
    }


def _naive_records(batches: bytes) -> Iterator[Record]:
    for position, header in headers(batches):
        if not header.is_control:
            yield from read_records(memoryview(batches)[position : position + header.size_bytes])


def values_of(rows: Iterable[Row]) -> list[bytes | None]:
    return [row["value"] for row in rows]


def next_offset_of(batch: bytes | bytearray) -> int:
    return read_header(batch).next_offset
