"""From a batch to its records.

Owns the decision when records make sense: they lie inside of the header's offsets, in order, with
timestamps that exist. Opens payloads within bounds, whoever wrote them. Checks no checksum: bytes from
outside or from a disk pass `layout.validate` first.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from goqueue.errors import CorruptBatch, TooLarge
from goqueue.model.order import is_increasing
from goqueue.records.checksum import Buffer
from goqueue.records.compression import decompress
from goqueue.records.layout import HEADER_BYTES, BatchHeader, TimestampType, read_header
from goqueue.records.payload import Columns, Headers, decode

DECOMPRESSED_BYTES_MAX = 32 * 1024 * 1024
# A record of 7 bytes becomes objects of some 300 bytes, so their number is bounded as well.
RECORDS_MAX = 1_000_000

# Half of what 64 bits hold, so that the distance of any two timestamps fits as well.
_TIMESTAMP_END = 2**62


class Record(NamedTuple):
    """One stored record. `timestamp` is in milliseconds since 1970, -1 if the producer set none."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers

    @property
    def size_bytes(self) -> int:
        """How many bytes its key, value and headers have."""
        size = len(self.key or b"") + len(self.value or b"")
        for name, value in self.headers:
            size += len(name) + len(value or b"")
        return size


# Calling the class goes through a Python function, which would take a quarter of the whole reading.
_record = partial(tuple.__new__, Record)


def read_records(batch: Buffer, *, decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX) -> list[Record]:
    """Return the records of the batch that the buffer starts with, in offset order.

    CorruptBatch if anything in it is malformed, TooLarge if it opens to more than the limit or has more than
    `RECORDS_MAX` records.
    """
    header = read_header(batch)
    columns = read_columns(header, decompressed_payload(batch, decompressed_bytes_max))
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    offsets = [base_offset + delta for delta in columns.offset_deltas]
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        timestamps = [header.max_timestamp] * len(offsets)
    else:
        timestamps = [base_timestamp + delta for delta in columns.timestamp_deltas]
    return list(map(_record, zip(offsets, timestamps, columns.keys, columns.values, columns.headers, strict=True)))


def read_pairs(
    batch: Buffer, *, decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX
) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Return keys and values of the records of a batch, read and checked as `read_records` does it."""
    columns = read_columns(read_header(batch), decompressed_payload(batch, decompressed_bytes_max))
    return zip(columns.keys, columns.values, strict=True)


def decompressed_payload(batch: Buffer, bytes_max: int) -> bytes:
    """Return the bytes of the records of the batch that the buffer starts with, opened."""
    header = read_header(batch)
    if header.size_bytes > len(batch):
        raise CorruptBatch(f"batch takes {header.size_bytes} bytes, only {len(batch)} are there")
    return decompress(header.codec, memoryview(batch)[HEADER_BYTES : header.size_bytes], bytes_max=bytes_max)


def read_columns(header: BatchHeader, payload: bytes) -> Columns:
    """Return the records of an opened payload as columns, checked against the header."""
    if header.record_count < 0:
        raise CorruptBatch(f"record_count is {header.record_count}")
    if header.record_count > RECORDS_MAX:
        raise TooLarge(f"a batch of {header.record_count} records exceeds the limit of {RECORDS_MAX}")
    columns = decode(payload, header.record_count)
    if header.record_count:
        _check_offsets(header, columns)
        _check_timestamps(header, columns)
    return columns


def _check_offsets(header: BatchHeader, columns: Columns) -> None:
    deltas = columns.offset_deltas
    if deltas[0] < 0 or deltas[-1] > header.last_offset_delta or not is_increasing(deltas):
        raise CorruptBatch(
            f"the records' offset deltas go from {deltas[0]} to {deltas[-1]}; they have to increase "
            f"from 0 to {header.last_offset_delta} at most"
        )


def _check_timestamps(header: BatchHeader, columns: Columns) -> None:
    first = header.base_timestamp + min(columns.timestamp_deltas)
    last = header.base_timestamp + max(columns.timestamp_deltas)
    if first < -_TIMESTAMP_END or last >= _TIMESTAMP_END:
        raise CorruptBatch(f"the records' timestamps, {first} to {last}, exceed 2^62")
