"""From rows in Arrow to record batches for one partition.

Owns which rows share a batch, and how the fields of many records become bytes at once: numbers are written as columns
of varints, and Arrow joins them with keys, values and headers row by row. The bytes are those that `records.builder`
makes of the same records, which are those of the common clients.

Columns are taken by name: `key` and `value` (binary or string), `headers` (list of key and value), `timestamp`. Each
may be missing or null; a record without a timestamp gets the time of the call. Other columns are left alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from goqueue.errors import Invalid, TooLarge
from goqueue.records.builder import assemble
from goqueue.records.compression import Codec
from goqueue.records.layout import HEADER_BYTES, MAGIC, TRANSACTIONAL_BIT, BatchHeader
from goqueue.spark.records import varints
from goqueue.spark.records.binaries import (
    binaries,
    joined,
    lengths_of,
    varint_array,
)
from goqueue.spark.records.varints import Numbers

BATCH_BYTES_MAX = 1_000_000

_BYTES_MAX = 2**31 - 1
_SEQUENCE_END = 2**31
_TIMESTAMP_END = 2**62
_LENGTH_BYTES_MAX = 5
_NO_HEADERS = pa.scalar(b"\x00", pa.binary())
# # A codec may add a frame, and some bytes per block of at least 16 KiB, to incompressible bytes.
_FRAME_BYTES = 64
_BLOCKS_SHIFT = 9
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_MILLISECONDS = 1_000


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


class ProducerState(NamedTuple):
    """The id, epoch and next sequence number of an idempotent or transactional producer."""

    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    is_transactional: bool = False

    def after(self, record_count: int) -> ProducerState:
        """Return the producer with the sequence number that follows so many records."""
        if self.base_sequence < 0:
            return self
        return self._replace(base_sequence=(self.base_sequence + record_count) % _SEQUENCE_END)


NO_PRODUCER = ProducerState()


def encode(
    rows: pa.RecordBatch,
    *,
    now_ms: int,
    codec: Codec = Codec.NONE,
    producer: ProducerState = NO_PRODUCER,
    batch_bytes_max: int = BATCH_BYTES_MAX,
    record_bytes_max: int | None = None,
) -> Iterator[bytearray]:
    """Yield record batches with the rows in order, each of at most `batch_bytes_max` bytes before compression.

    A record that is larger is alone in its batch, which takes at most `record_bytes_max` bytes as it is sent, the same
    limit if there is none; one that does not fit is compressed, whatever the codec says. Sequence numbers go on from
    batch to batch; `producer.after(rows.num_rows)` is who writes the next rows. Invalid if a column is of the wrong
    type, TooLarge if a single record exceeds the limit; the rows before it are yielded.
    """
    columns = _columns_of(rows, now_ms)
    sizes = _content_sizes(columns)
    alone_max = min(batch_bytes_max if record_bytes_max is None else record_bytes_max, _BYTES_MAX)
    for start, stop in _batch_bounds(sizes, columns.timestamps, min(batch_bytes_max, alone_max), codec):
        batch = _batch(columns.slice(start, stop), sizes[start:stop], codec, producer)
        if len(batch) > alone_max:
            batch = _packed(columns.slice(start, stop), sizes[start:stop], producer, alone_max, row=start)
        yield batch
        producer = producer.after(stop - start)


def bytes_alone(rows: pa.RecordBatch, now_ms: int) -> Numbers:
    """Return how many bytes a batch takes with each record alone, and not compressed."""
    # Alone in its batch, a record has deltas of 0.
    alone = _content_sizes(_columns_of(rows, now_ms)) + 2
    return alone + varints.sizes_of(varints.zigzag_of(alone)) + HEADER_BYTES


class _Columns(NamedTuple):
    timestamps: Numbers
    keys: pa.BinaryArray
    key_lengths: Numbers
    values: pa.BinaryArray
    value_lengths: Numbers
    headers: WrittenHeaders | None

    def slice(self, start: int, stop: int) -> _Columns:
        return _Columns(
            self.timestamps[start:stop],
            self.keys.slice(start, stop - start),
            self.key_lengths[start:stop],
            self.values.slice(start, stop - start),
            self.value_lengths[start:stop],
            self.headers and self.headers.slice(start, stop),
        )


def _columns_of(rows: pa.RecordBatch, now_ms: int) -> _Columns:
    names = rows.schema.names
    twice = {name for name in ("key", "value", "headers", "timestamp") if names.count(name) > 1}
    if twice:
        raise Invalid(f"the rows have more than one column {', '.join(sorted(twice))}")
    nothing = pa.nulls(rows.num_rows)
    keys = binaries(rows.column("key") if "key" in names else nothing, "the column key")
    values = binaries(rows.column("value") if "value" in names else nothing, "the column value")
    headers = None
    if "headers" in names and rows.column("headers").null_count < rows.num_rows:
        if not pa.types.is_list(rows.column("headers").type):
            raise Invalid(f"the column headers is of type {rows.column('headers').type}, not a list of key and value")
        headers = write_headers(rows.column("headers"))
    timestamps = _milliseconds(rows.column("timestamp") if "timestamp" in names else nothing, now_ms)
    return _Columns(timestamps, keys, lengths_of(keys), values, lengths_of(values), headers)


def _milliseconds(column: pa.Array, now_ms: int) -> Numbers:
    if pa.types.is_null(column.type):
        return np.full(len(column), now_ms, np.int64)
    if not pa.types.is_timestamp(column.type):
        raise Invalid(f"the column timestamp is of type {column.type}", hint="cast it to timestamp")
    ticks = column.cast(pa.int64()).fill_null(0).to_numpy()
    per_second = _PER_SECOND[column.type.unit]
    stamps: Numbers
    if per_second < _MILLISECONDS:
        if len(ticks) and max(-int(ticks.min()), int(ticks.max())) >= _TIMESTAMP_END // _MILLISECONDS:
            raise Invalid("a timestamp exceeds 2^62 ms")
        stamps = ticks * _MILLISECONDS
    else:
        stamps = ticks // (per_second // _MILLISECONDS)
    if column.null_count:
        stamps = np.where(column.is_null().to_numpy(zero_copy_only=False), now_ms, stamps)
    if len(stamps) and (stamps.min() < -_TIMESTAMP_END or stamps.max() >= _TIMESTAMP_END):
        raise Invalid("a timestamp exceeds 2^62 ms")
    return stamps


def _content_sizes(columns: _Columns) -> Numbers:
    """Return the bytes of each record that do not depend on the batch that it is in: all but its deltas and length."""
    sizes = np.ones(len(columns.timestamps), np.int64)
    for lengths in (columns.key_lengths, columns.value_lengths):
        sizes += varints.sizes_of(varints.zigzag_of(lengths)) + np.maximum(lengths, 0)
    if columns.headers is None:
        return sizes + 1
    counts, contents = columns.headers
    return sizes + varints.sizes_of(varints.zigzag_of(counts)) + lengths_of(contents)


def _batch_bounds(sizes: Numbers, timestamps: Numbers, bytes_max: int, codec: Codec) -> Iterator[tuple[int, int]]:
    """Yield first and end of the rows that go into a batch each."""
    count = len(sizes)
    if not count:
        return
    span = int(timestamps.max()) - int(timestamps.min())
    deltas_max = varints.sizes_of(varints.zigzag_of(np.array([-span, span, count - 1], np.int64)))
    ends = np.cumsum(sizes + (_LENGTH_BYTES_MAX + int(deltas_max[:2].max()) + int(deltas_max[2])))
    room = bytes_max - HEADER_BYTES - (_FRAME_BYTES + (bytes_max >> _BLOCKS_SHIFT) if codec else 0)
    start = 0
    while start < count:
        before = int(ends[start - 1]) if start else 0
        stop = max(int(np.searchsorted(ends, before + room, side="right")), start + 1)
        yield start, stop
        start = stop


def _batch(columns: _Columns, content_sizes: Numbers, codec: Codec, producer: ProducerState) -> bytearray:
    count = len(content_sizes)
    base_timestamp = int(columns.timestamps[0])
    header = BatchHeader(
        base_offset=0,
        length=0,
        leader_epoch=-1,
        magic=MAGIC,
        crc=0,
        attributes=codec | (TRANSACTIONAL_BIT if producer.is_transactional else 0),
        last_offset_delta=count - 1,
        base_timestamp=base_timestamp,
        max_timestamp=int(columns.timestamps.max()),
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=producer.base_sequence,
        record_count=count,
    )
    heads = _record_heads(columns.timestamps - base_timestamp, columns.key_lengths, content_sizes)
    tail = (
        [_NO_HEADERS] if columns.headers is None else [varint_array(columns.headers.counts), columns.headers.contents]
    )
    records = joined(heads, columns.keys, varint_array(columns.value_lengths), columns.values, *tail)
    (end,) = np.frombuffer(records.buffers()[1], np.int32, 1, 4 * count)
    return assemble(header, memoryview(records.buffers()[2])[: int(end)])


def _packed(columns: _Columns, content_sizes: Numbers, producer: ProducerState, bytes_max: int, row: int) -> bytearray:
    """Return a record in a batch that is small enough, if there is one: a codec may also add to its size."""
    # # All clients know gzip, the first codec after none.
    packed = min((_batch(columns, content_sizes, codec, producer) for codec in (Codec.NONE, Codec.GZIP)), key=len)
    if len(packed) > bytes_max:
        raise TooLarge(
            f"the record of row {row} takes a batch of {len(packed)} bytes, also if it is compressed, and {bytes_max} "
            "are allowed"
        )
    return packed


def _record_heads(timestamp_deltas: Numbers, key_lengths: Numbers, content_sizes: Numbers) -> pa.BinaryArray:
    """Return each record up to its key: length, attributes, timestamp, offset, length of the key."""
    count = len(content_sizes)
    numbers = [varints.zigzag_of(column) for column in (timestamp_deltas, np.arange(count), key_lengths)]
    sizes = [varints.sizes_of(column) for column in numbers]
    lengths = varints.zigzag_of(content_sizes + sizes[0] + sizes[1])
    length_sizes = varints.sizes_of(lengths)
    bounds = np.zeros(count + 1, np.int32)
    np.cumsum(length_sizes + 1 + sizes[0] + sizes[1] + sizes[2], out=bounds[1:])
    octets = np.zeros(int(bounds[-1]), np.uint8)
    position = bounds[:-1].astype(np.int64)
    varints.write(octets, position, lengths, length_sizes)
    # The attributes are the zero that is there already.
    position += length_sizes + 1
    for column, column_sizes in zip(numbers, sizes, strict=True):
        varints.write(octets, position, column, column_sizes)
        position += column_sizes
    return pa.BinaryArray.from_buffers(pa.binary(), count, [None, pa.py_buffer(bounds), pa.py_buffer(octets)])
