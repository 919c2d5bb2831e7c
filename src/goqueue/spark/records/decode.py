"""From the record batches of a fetch reply to rows in Arrow.

    bytes -> batches   verified and decompressed batches
          -> bounds    starts of their records
          -> fields    checked fields of many records at once
          -> columns   the requested columns

Owns how much goes through these steps at a time. Small batches are gathered until they are worth the fixed cost of
working on columns, large ones are cut: what is yielded has at most `rows_max` rows made of `bytes_max` bytes (one
larger record comes alone). Nothing is kept of the buffer that was passed in, so it may be filled again after the last
rows. Malformed bytes raise `CorruptBatch` with topic, partition and offset, or `TooLarge` if a batch decompresses to
more than allowed. Columns are built with one gather each, without a Python object per record; headers are parsed only
if a requested column needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence

import numpy as np
import pyarrow as pa

from goqueue.errors import CorruptBatch, TooLarge
from goqueue.records.checksum import Buffer
from goqueue.records.layout import BatchHeader
from goqueue.spark.records.batches import WantedOffsets, located, opened_batches
from goqueue.spark.records.binaries import gathered
from goqueue.spark.records.bounds import record_bounds
from goqueue.spark.records.fields import BatchSlice, RecordFields, read_fields
from goqueue.spark.records.headers import RecordHeaders, read_headers
from goqueue.spark.records.varints import Numbers
from goqueue.spark.source.columns import FROM_HEADERS, SCHEMA, schema_of

ROWS_MAX = 16_384
BYTES_MAX = 8 * 1024 * 1024
# A batch that a producer has compressed well is opened as a whole; a broker takes some that open to far more than this.
OPENED_BYTES_MAX = 256 * 1024 * 1024

# Arrow's binaries have positions of 32 bits.
_BYTES_END = 2**31

_MICROSECONDS = 1000
_NO_TIMESTAMP = -1
_TIMESTAMP_MAX = (2**63 - 1) // _MICROSECONDS


def decode(
    batches: Buffer,
    wanted: WantedOffsets,
    columns: Sequence[str] = tuple(SCHEMA.names),
    *,
    aborted: Iterable[tuple[int, int]] = (),
    rows_max: int = ROWS_MAX,
    bytes_max: int = BYTES_MAX,
    opened_bytes_max: int = OPENED_BYTES_MAX,
) -> Generator[pa.RecordBatch, None, int]:
    """Yield the wanted records as rows of the named columns; return the offset to fetch next.

    `next_offset = yield from decode(...)` is the way to go on. That offset lies beyond gaps and hidden batches as well;
    it is the wanted start if the bytes do not hold one whole batch. `aborted` are producer id and first offset of the
    aborted transactions that came with the reply; without them, all transactions' records are rows.
    """
    group = _Group(wanted, schema_of(columns), rows_max, min(bytes_max, _BYTES_END // 2))
    next_offset = wanted.start
    for header, payload in opened_batches(
        memoryview(batches), wanted, aborted=aborted, opened_bytes_max=min(opened_bytes_max, _BYTES_END // 2)
    ):
        if payload is not None:
            yield from group.add(header, payload)
        next_offset = max(next_offset, min(header.next_offset, wanted.end))
    yield from group.flush()
    return next_offset


class _Group:
    """Pieces of batches that will be rows together."""

    __slots__ = ("_bytes", "_bytes_max", "_last_offset", "_pieces", "_rows", "_rows_max", "_schema", "_wanted")

    def __init__(self, wanted: WantedOffsets, schema: pa.Schema, rows_max: int, bytes_max: int) -> None:
        self._wanted = wanted
        self._schema = schema
        self._rows_max = rows_max
        self._bytes_max = bytes_max
        self._pieces: list[BatchSlice] = []
        self._last_offset = -1
        self._rows = 0
        self._bytes = 0

    def add(self, header: BatchHeader, payload: bytes) -> Generator[pa.RecordBatch, None, None]:
        """Take the records of a batch, and yield rows whenever there are enough."""
        try:
            bounds = record_bounds(payload, header.record_count)
        except CorruptBatch as error:
            raise located(error, self._wanted, header.base_offset) from None
        first = 0
        while first < header.record_count:
            stop = self._fitting(bounds, first)
            if stop == first:
                yield from self.flush()
                stop = max(self._fitting(bounds, first), first + 1)
            records = memoryview(payload)[bounds[first] : bounds[stop]]
            self._pieces.append(BatchSlice(records, bounds[first : stop + 1], header))
            self._rows += stop - first
            self._bytes += len(records)
            first = stop

    def flush(self) -> Generator[pa.RecordBatch, None, None]:
        """Yield the rows of all that was taken."""
        if self._pieces:
            rows = self._decoded()
            self._pieces = []
            self._rows = self._bytes = 0
            if rows.num_rows:
                yield rows

    def _fitting(self, bounds: Numbers, first: int) -> int:
        """Return which record is the first that does not fit any more."""
        count = len(bounds) - 1
        room = int(bounds[first]) + self._bytes_max - self._bytes
        if bounds[count] <= room and count - first <= self._rows_max - self._rows:
            return count
        stop = int(np.searchsorted(bounds, room, side="right")) - 1
        return max(first, min(stop, first + self._rows_max - self._rows))

    def _decoded(self) -> pa.RecordBatch:
        try:
            return self._rows_of(self._pieces)
        except (CorruptBatch, TooLarge):
            # # Find the damaged batch for the error message.
            for piece in self._pieces:
                try:
                    self._rows_of([piece])
                except (CorruptBatch, TooLarge) as error:
                    raise located(error, self._wanted, piece.header.base_offset) from None
            raise

    def _rows_of(self, pieces: Sequence[BatchSlice]) -> pa.RecordBatch:
        wanted = self._wanted
        read = read_fields(pieces)
        # Inside of the pieces offsets increase; a batch may have been cut between two groups.
        if read.offsets[0] <= self._last_offset:
            raise CorruptBatch(f"offset {read.offsets[0]} comes after offset {self._last_offset}")
        rows = rows_of(
            read.within(wanted.start, wanted.end), self._schema, topic=wanted.topic, partition=wanted.partition
        )
        self._last_offset = int(read.offsets[-1])
        return rows


def rows_of(read: RecordFields, schema: pa.Schema, *, topic: str, partition: int) -> pa.RecordBatch:
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


def _timestamps(read: RecordFields) -> pa.Array:
    stamps = read.timestamps
    # # Producers can write any number: one record with an invalid time must not stop the read.
    is_missing = (stamps == _NO_TIMESTAMP) | (stamps > _TIMESTAMP_MAX) | (stamps < -_TIMESTAMP_MAX)
    return pa.array(
        (np.where(is_missing, 0, stamps) * _MICROSECONDS).view("datetime64[us]"),
        type=pa.timestamp("us", tz="UTC"),
        mask=is_missing if is_missing.any() else None,
    )


_COLUMNS: dict[str, Callable[[RecordFields], pa.Array]] = {
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
