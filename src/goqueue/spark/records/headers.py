"""The headers of records, and the columns that are made of them.

Owns the bytes of headers:

    header = key_length:varint key:utf-8 value_length:varint value, where a value's length of -1 stands for null

They are read in step: the first header of all records that have one, then the second ones, and so on. Only the last
few records, with more headers than all others, are read one by one. Where a name comes twice in a record, the last one
counts, as in Kafka's clients.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from goqueue.errors import CorruptBatch, TooLarge
from goqueue.spark.records import varints
from goqueue.spark.records.binaries import gathered
from goqueue.spark.records.fields import RecordFields, content_ends
from goqueue.spark.records.varints import Numbers
from goqueue.spark.source.columns import (
    HEADER_TYPE,
    PRIORITY_DEFAULT,
    PRIORITY_HEADER,
    SCHEMA,
    SCHEMA_ID_HEADER,
    TRACE_HEADER,
)

# Five numbers are kept of each, whatever its two bytes at least; only one giant record can have more.
_HEADERS_MAX = 4 * 1024 * 1024
# With fewer records than this it is cheaper to go from header to header.
_IN_STEP_MIN = 96

_NUMBER = "^[0-9]{1,10}$"
_NUMBER_MAX = 2**31 - 1
# version - trace id - parent id - flags, and whatever later versions add
_TRACEPARENT = "^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-|$)"
_TRACE_ID = slice(3, 35)
_NO_TRACE = b"0" * 32


@dataclass(frozen=True, slots=True)
class RecordHeaders:
    """All headers of some records, in order; `rows` says whose each is, `counts` how many each record has."""

    counts: Numbers
    rows: Numbers
    keys: pa.StringArray
    values: pa.BinaryArray

    def as_lists(self) -> pa.Array:
        """Return the headers per record, null if it has none."""
        if not len(self.keys):
            return pa.nulls(len(self.counts), SCHEMA.field("headers").type)
        bounds = np.zeros(len(self.counts) + 1, np.int32)
        np.cumsum(self.counts, out=bounds[1:])
        pairs = pa.StructArray.from_arrays([self.keys, self.values], fields=list(HEADER_TYPE))
        return pa.ListArray.from_arrays(
            pa.array(bounds), pairs, type=SCHEMA.field("headers").type, mask=pa.array(self.counts == 0)
        )

    def priorities(self) -> pa.Array:
        """Return the priority per record, the middle one if its headers name none."""
        numbers, _ = self._numbers(PRIORITY_HEADER, PRIORITY_DEFAULT)
        return pa.array(numbers)

    def schema_ids(self) -> pa.Array:
        """Return the schema's id per record, null if its headers name none."""
        numbers, is_given = self._numbers(SCHEMA_ID_HEADER, 0)
        return pa.array(numbers, mask=~is_given)

    def trace_ids(self) -> pa.Array:
        """Return the trace's id per record, null if its headers name none that is well formed."""
        rows, values = self._last_of(TRACE_HEADER)
        if not len(rows):
            return pa.nulls(len(self.counts), pa.string())
        is_right = _true_at(pc.match_substring_regex(values, _TRACEPARENT))
        ids = pc.binary_slice(values.take(pa.array(is_right)), _TRACE_ID.start, _TRACE_ID.stop)
        chosen = np.full(len(self.counts), -1, np.int64)
        chosen[rows[is_right]] = np.arange(len(is_right))
        chosen[rows[is_right[_true_at(pc.equal(ids, _NO_TRACE))]]] = -1
        return ids.cast(pa.string()).take(pa.array(chosen, mask=chosen < 0))

    def _numbers(self, name: str, default: int) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        """Return the number in the named header per record, and which records have one."""
        numbers = np.full(len(self.counts), default, np.int32)
        is_given = np.zeros(len(self.counts), np.bool_)
        rows, values = self._last_of(name)
        if not len(rows):
            return numbers, is_given
        is_right = _true_at(pc.match_substring_regex(values, _NUMBER))
        given = values.take(pa.array(is_right)).cast(pa.string()).cast(pa.int64()).to_numpy()
        fits = given <= _NUMBER_MAX
        numbers[rows[is_right[fits]]] = given[fits]
        is_given[rows[is_right[fits]]] = True
        return numbers, is_given

    def _last_of(self, name: str) -> tuple[Numbers, pa.BinaryArray]:
        """Return which records have the named header, and the value of the last one in each."""
        found = _true_at(pc.equal(self.keys, name))
        rows = self.rows[found]
        is_last = np.ones(len(rows), np.bool_)
        is_last[:-1] = rows[1:] != rows[:-1]
        return rows[is_last], self.values.take(pa.array(found[is_last]))


def read_headers(read: RecordFields) -> RecordHeaders:
    """Return the headers of the records; CorruptBatch if they are malformed, TooLarge if they are too many."""
    total = int(read.header_counts.sum())
    if total > _HEADERS_MAX:
        raise TooLarge(f"{total} headers in {len(read)} records exceed the limit of {_HEADERS_MAX}")
    steps = list(_steps(read)) if total else []
    if not steps:
        return RecordHeaders(
            read.header_counts, np.empty(0, np.int64), pa.nulls(0, pa.string()), pa.nulls(0, pa.binary())
        )
    rows, key_starts, key_lengths, value_starts, value_lengths = np.concatenate(steps, axis=1)
    if len(steps) > 1:
        # Headers lie in the bytes in their order, record after record.
        order = np.argsort(key_starts, kind="stable")
        rows, key_starts, key_lengths = rows[order], key_starts[order], key_lengths[order]
        value_starts, value_lengths = value_starts[order], value_lengths[order]
    try:
        keys = gathered(read.octets, key_starts, key_lengths).cast(pa.string())
    except pa.ArrowInvalid:
        raise CorruptBatch("a header key is not UTF-8") from None
    return RecordHeaders(read.header_counts, rows, keys, gathered(read.octets, value_starts, value_lengths))


def _steps(read: RecordFields) -> Iterator[Numbers]:
    """Yield headers as five lines: record, start and length of the key, start and length of the value."""
    rows = np.flatnonzero(read.header_counts)
    left, position, ends = read.header_counts[rows], read.header_starts[rows], read.ends[rows]
    while len(rows) >= _IN_STEP_MIN:
        key_lengths, key_starts = varints.read(read.octets, position)
        if key_lengths.min() < 0:
            raise CorruptBatch("a header key is null")
        position = content_ends(key_starts, key_lengths, ends, "header key")
        value_lengths, value_starts = varints.read(read.octets, position)
        position = content_ends(value_starts, value_lengths, ends, "header value")
        yield np.stack((rows, key_starts, key_lengths, value_starts, value_lengths))
        left = left - 1
        is_done = left == 0
        if (position != ends)[is_done].any():
            raise CorruptBatch("the headers of a record do not end with it")
        if is_done.any():
            goes_on = ~is_done
            rows, left, position, ends = rows[goes_on], left[goes_on], position[goes_on], ends[goes_on]
    for row, count, start, end in zip(*(column.tolist() for column in (rows, left, position, ends)), strict=True):
        yield _one_by_one(read.octets.data, row, count, start, end)


def _one_by_one(octets: memoryview, row: int, count: int, position: int, end: int) -> Numbers:
    found = array("q")
    for _ in range(count):
        key_length, key_start = _varint(octets, position)
        value_length, value_start = _varint(octets, min(key_start + max(key_length, 0), end))
        position = value_start + max(value_length, 0)
        if key_length < 0 or value_length < -1 or key_start + key_length > end or position > end:
            raise CorruptBatch("a header of a record has no key, or goes beyond the record's end")
        found.extend((row, key_start, key_length, value_start, value_length))
    if position != end:
        raise CorruptBatch("the headers of a record do not end with it")
    return np.frombuffer(found, np.int64).reshape(-1, 5).T


def _varint(octets: memoryview, position: int) -> tuple[int, int]:
    byte = octets[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    (number,), (end,) = varints.read(np.frombuffer(octets, np.uint8), np.array([position]))
    return int(number), int(end)


def _true_at(mask: pa.Array) -> Numbers:
    """Return where the mask is true; null is not."""
    return np.flatnonzero(mask.fill_null(fill_value=False).to_numpy(zero_copy_only=False))
