"""Columns of binaries in Arrow: cut out of bytes, made of varints, and joined row by row, in compiled code.

An array of binaries may point into any bytes as long as its offsets go up. So the wanted spans and the gaps between
them make one array over the bytes as they are, and Arrow's `take` copies every other element out of it (`gathered`).
"""

from __future__ import annotations

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
    """Return per row what the columns hold, concatenated; null counts as empty."""
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
