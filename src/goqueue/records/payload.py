"""The records of a batch as columns, through the compiled codec of aiokafka; nothing else here imports that.

The codec is fast and not strict. This module makes it safe on bytes from anyone:

- It reads numbers up to 10 bytes past the end of what it was given, before it notices. So it is given a
  view of a buffer that goes on with zeros for longer than that: zeros end every number, and the check that
  follows fails.
- It takes any negative length for null, numbers of any size, and a reserved byte for a number. So what it
  has read is encoded again: equal bytes prove that the payload is well formed (but for the range of offset
  deltas, which `reader` checks), and any other payload is walked by `scan`, which accepts the unusual and
  names the wrong. That costs half as much as decoding.
- It has no timestamp -1. So it only ever sees timestamps as deltas, and its None is turned back.

Offsets and timestamps are deltas here, as in the bytes; `reader` and `builder` add and subtract the
header's bases.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from goqueue.errors import CorruptBatch
from goqueue.records.layout import HEADER, HEADER_BYTES, MAGIC
from goqueue.records.scan import check

Headers = list[tuple[str, bytes | None]]

_PADDING = bytes(16)
_BATCH_BYTES_UNBOUNDED = 1 << 62

# An empty record with timestamp 0 in front makes the encoder take 0 as the base of all timestamps.
_PRIMER_BYTES = 7

_offset_delta = attrgetter("offset")
_timestamp_delta = attrgetter("timestamp")
_key = attrgetter("key")
_value = attrgetter("value")
_headers = attrgetter("headers")


class Columns(NamedTuple):
    """The records of one batch, field by field; all columns are of the same length."""

    offset_deltas: Sequence[int]
    timestamp_deltas: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Sequence[Headers]


def decode(payload: bytes, record_count: int) -> Columns:
    """Read `record_count` records; CorruptBatch if the payload is anything else, however malformed."""
    header = HEADER.pack(0, 0, -1, MAGIC, 0, 0, 0, 0, 0, -1, -1, -1, record_count)
    padded = b"".join((header, payload, _PADDING))
    try:
        rows = list(DefaultRecordBatch(memoryview(padded)[: HEADER_BYTES + len(payload)]))
    except (CorruptRecordException, UnicodeDecodeError, OverflowError, MemoryError) as error:
        # Lengths near 2^63 come as the last two. `check` says what is wrong in better words.
        check(payload, record_count)
        if isinstance(error, MemoryError):
            raise
        raise CorruptBatch(f"the records cannot be read: {error}") from None
    timestamp_deltas = list(map(_timestamp_delta, rows))
    if None in timestamp_deltas:
        timestamp_deltas = [-1 if delta is None else delta for delta in timestamp_deltas]
    columns = Columns(
        list(map(_offset_delta, rows)),
        timestamp_deltas,
        list(map(_key, rows)),
        list(map(_value, rows)),
        list(map(_headers, rows)),
    )
    if encode(columns) != payload:
        check(payload, record_count)
    return columns


def encode(columns: Columns) -> bytearray:
    """Return the records as bytes, in the shortest form, which is the one that all common clients write."""
    builder = DefaultRecordBatchBuilder(MAGIC, 0, 0, -1, -1, -1, _BATCH_BYTES_UNBOUNDED)
    builder.append(0, 0, None, None, [])
    deque(map(builder.append, *columns), maxlen=0)
    encoded: bytearray = builder.build()
    del encoded[: HEADER_BYTES + _PRIMER_BYTES]
    return encoded
