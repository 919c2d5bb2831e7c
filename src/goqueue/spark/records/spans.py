"""Spans of bytes as an Arrow array: the trick behind every column of binaries.

An array of binaries may point into any bytes as long as its offsets go up. So the wanted spans and the gaps between
them make one array over the bytes as they are, and Arrow's own `take` copies every other element out of it: one
gather in compiled code, and no Python object per span.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

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
