"""From the fields of records to Arrow arrays: one gather per column, and no Python object per record.

Owns which column is made of what; only the columns that are asked for are made, and headers are read only if one of
them needs them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from goqueue.spark.records.fields import Fields
from goqueue.spark.records.headers import RecordHeaders, read_headers
from goqueue.spark.records.spans import gathered
from goqueue.spark.source.columns import FROM_HEADERS

_MICROSECONDS = 1000
_NO_TIMESTAMP = -1
_TIMESTAMP_MAX = (2**63 - 1) // _MICROSECONDS


def rows_of(read: Fields, schema: pa.Schema, *, topic: str, partition: int) -> pa.RecordBatch:
    """Return the records as rows with the columns of the schema; CorruptBatch if one of them cannot be made."""
    count = len(read)
    headers = read_headers(read) if FROM_HEADERS.intersection(schema.names) else None
    arrays = []
    for name in schema.names:
        if name == "topic":
            arrays.append(pa.repeat(pa.scalar(topic, pa.string()), count))
        elif name == "partition":
            arrays.append(pa.array(np.full(count, partition, np.int32)))
        elif headers is not None and name in FROM_HEADERS:
            arrays.append(_HEADER_COLUMNS[name](headers))
        else:
            arrays.append(_COLUMNS[name](read))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _timestamps(read: Fields) -> pa.Array:
    stamps = read.timestamps
    # Whoever may write can write any number: one record with a strange time must not stop all that come after it.
    is_missing = (stamps == _NO_TIMESTAMP) | (stamps > _TIMESTAMP_MAX) | (stamps < -_TIMESTAMP_MAX)
    return pa.array(
        (np.where(is_missing, 0, stamps) * _MICROSECONDS).view("datetime64[us]"),
        type=pa.timestamp("us", tz="UTC"),
        mask=is_missing if is_missing.any() else None,
    )


_COLUMNS: dict[str, Callable[[Fields], pa.Array]] = {
    "key": lambda read: gathered(read.octets, read.key_starts, read.key_lengths),
    "value": lambda read: gathered(read.octets, read.value_starts, read.value_lengths),
    "offset": lambda read: pa.array(read.offsets),
    "timestamp": _timestamps,
    "timestampType": lambda read: pa.array(read.timestamp_types),
}
_HEADER_COLUMNS: dict[str, Callable[[RecordHeaders], pa.Array]] = {
    "headers": RecordHeaders.as_lists,
    "priority": RecordHeaders.priorities,
    "trace_id": RecordHeaders.trace_ids,
    "schema_id": RecordHeaders.schema_ids,
}
