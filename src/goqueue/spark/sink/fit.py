"""Messages that their topic does not take: what is left out of them so that it does. Pure.

For whoever would rather write less of a message than nothing more at all, as dead letters are. What was added to a
message (`goqueue-dlq-...`) goes first, its largest header before the others: the message itself then stays as it was.
If that is not enough, the value goes, and at last key and headers; where the message is from is told by what was added.
The header `goqueue-dlq-cut` names what was left out, if there is room for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from goqueue.errors import TooLarge
from goqueue.spark.records.encode import bytes_alone, encode
from goqueue.spark.source.columns import HEADER_TYPE

ADDED_PREFIX: Final = "goqueue-dlq-"
CUT_HEADER: Final = "goqueue-dlq-cut"

Row = dict[str, Any]


def fitted(rows: pa.RecordBatch, *, now_ms: int, bytes_max: int) -> pa.RecordBatch:
    """Return the rows so that none takes a batch of more than `bytes_max` bytes as it is sent, if that can be."""
    if not rows.num_rows or bytes_alone(rows, now_ms).max() <= bytes_max:
        return rows
    if "headers" not in rows.schema.names:
        rows = rows.append_column("headers", pa.nulls(rows.num_rows, pa.list_(HEADER_TYPE)))
    kept, start = [], 0
    for number in (bytes_alone(rows, now_ms) > bytes_max).nonzero()[0].tolist():
        kept += [rows.slice(start, number - start), _cut(rows.slice(number, 1), now_ms, bytes_max)]
        start = number + 1
    kept.append(rows.slice(start))
    (whole,) = pa.Table.from_batches(kept).combine_chunks().to_batches()
    return whole


def _cut(row: pa.RecordBatch, now_ms: int, bytes_max: int) -> pa.RecordBatch:
    if _fits(row, now_ms, bytes_max):
        return row
    (written,) = row.to_pylist()
    smaller = (pa.RecordBatch.from_pylist([each], schema=row.schema) for each in _smaller(written))
    # Whoever cannot be made small enough is refused when it is sent.
    return next((each for each in smaller if _fits(each, now_ms, bytes_max)), row)


def _fits(row: pa.RecordBatch, now_ms: int, bytes_max: int) -> bool:
    try:
        list(encode(row, now_ms=now_ms, batch_bytes_max=bytes_max))
    except TooLarge:
        return False
    return True


def _smaller(row: Row) -> Iterator[Row]:
    """Yield a message with less and less of it."""
    headers: list[Row] = row["headers"] or []
    added = [each for each in headers if each["key"].startswith(ADDED_PREFIX)]
    own = [each for each in headers if not each["key"].startswith(ADDED_PREFIX)]
    by_size = sorted(added, key=lambda each: len(each["value"] or b""), reverse=True)
    for count in range(1, len(by_size) + 1):
        gone, kept = by_size[:count], by_size[count:]
        names = ", ".join(each["key"] for each in gone)
        yield row | {"headers": [*own, *(each for each in added if each in kept), _cut_header(names)]}
    if added:
        yield row | {"headers": own or None}
    value = f"the value, {len(row['value'] or b''):,} bytes"
    yield row | {"value": None, "headers": [*headers, _cut_header(value)]}
    yield row | {"key": None, "value": None, "headers": [*added, _cut_header(f"the key, the headers, {value}")]}
    yield row | {"key": None, "value": None, "headers": [*by_size[1:], _cut_header(f"the key, the headers, {value}")]}


def _cut_header(what: str) -> Row:
    return {"key": CUT_HEADER, "value": what.encode()}
