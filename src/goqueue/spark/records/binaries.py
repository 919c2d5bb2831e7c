"""Spans of bytes as an Arrow array: the trick behind every column of binaries.

An array of binaries may point into any bytes as long as its offsets go up. So the wanted spans and the gaps between
them make one array over the bytes as they are, and Arrow's own `take` copies every other element out of it: one
gather in compiled code, and no Python object per span.

The headers of many records as bytes, without a Python object per header.

Owns the bytes of headers (their diagram is in `decode_headers`) on the way out. All headers of all records are written
one behind the other; those of one record are a span of that, so nothing is copied again per record.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from goqueue.errors import Invalid
from goqueue.spark.records import varints
from goqueue.spark.records.varints import Numbers, Octets


def gathered(octets: Octets, starts: Numbers, lengths: Numbers) -> pa.Array:
    """Return a copy of the spans as an array of binaries; a negative length is null.

    The spans must lie in the order of the bytes, without overlap, within the first 2 GiB.
    """
    count = len(starts)
    is_null = lengths < 0
    has_nulls = bool(is_null.any())
    if not count or (has_nulls and is_null.all()):
        return pa.nulls(count, pa.binary())
    bounds = np.empty(2 * count, np.int32)
    bounds[0::2] = starts
    bounds[1::2] = starts + np.maximum(lengths, 0) if has_nulls else starts + lengths
    spans_and_gaps = pa.BinaryArray.from_buffers(
        pa.binary(), 2 * count - 1, [None, pa.py_buffer(bounds), pa.py_buffer(octets)]
    )
    wanted = np.arange(0, 2 * count, 2, dtype=np.int32)
    return spans_and_gaps.take(pa.array(wanted, mask=is_null if has_nulls else None))


class WrittenHeaders(NamedTuple):
    """Per record: how many headers there are, and their bytes."""

    counts: Numbers
    contents: pa.BinaryArray

    def slice(self, start: int, stop: int) -> WrittenHeaders:
        """Return the headers of the records from `start` on and before `stop`."""
        return WrittenHeaders(self.counts[start:stop], self.contents.slice(start, stop - start))


def write_headers(headers: pa.ListArray) -> WrittenHeaders:
    """Return the headers per record; Invalid if a header is null, has no key, or is no pair of key and value."""
    counts = pc.list_value_length(headers).fill_null(0).to_numpy().astype(np.int64)
    pairs = headers.flatten()
    if not pa.types.is_struct(pairs.type) or {field.name for field in pairs.type} != {"key", "value"}:
        raise Invalid(f"the column headers holds {pairs.type}, not pairs of key and value")
    keys = binaries(pairs.field("key"), "the key of a header")
    values = binaries(pairs.field("value"), "the value of a header")
    if pairs.null_count or keys.null_count:
        raise Invalid("a header is null or has no key", hint="its value may be null")
    written = joined(varint_array(lengths_of(keys)), keys, varint_array(lengths_of(values)), values)
    header_bounds = np.frombuffer(written.buffers()[1], np.int32, len(written) + 1, written.offset * 4)
    bounds = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=bounds[1:])
    contents = pa.BinaryArray.from_buffers(
        pa.binary(), len(counts), [None, pa.py_buffer(header_bounds[bounds]), written.buffers()[2]]
    )
    return WrittenHeaders(counts, contents)


def binaries(column: pa.Array, name: str) -> pa.BinaryArray:
    """Return a column of binaries or strings as binaries; Invalid if it is of another type."""
    kind = column.type
    if pa.types.is_binary(kind):
        return column
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return column.cast(pa.binary())
    if pa.types.is_null(kind):
        return pa.nulls(len(column), pa.binary())
    raise Invalid(f"{name} is of type {kind}, not binary or string", hint="cast it, or encode it with to_json")


def lengths_of(column: pa.BinaryArray) -> Numbers:
    """Return the length of each binary, -1 for null."""
    lengths: Numbers = pc.binary_length(column).fill_null(-1).to_numpy().astype(np.int64)
    return lengths


def joined(*columns: pa.Array | pa.Scalar) -> pa.BinaryArray:
    """Return per row what the columns hold, one behind the other; null counts as nothing."""
    return pc.binary_join_element_wise(*columns, b"", null_handling="replace", null_replacement=b"")


def varint_array(numbers: Numbers) -> pa.BinaryArray:
    """Return each number as a varint in its shortest form."""
    zigzag = varints.zigzag_of(numbers)
    sizes = varints.sizes_of(zigzag)
    bounds = np.zeros(len(numbers) + 1, np.int32)
    np.cumsum(sizes, out=bounds[1:])
    octets = np.empty(int(bounds[-1]), np.uint8)
    varints.write(octets, bounds[:-1].astype(np.int64), zigzag, sizes)
    return pa.BinaryArray.from_buffers(pa.binary(), len(numbers), [None, pa.py_buffer(bounds), pa.py_buffer(octets)])
