"""Decodes batches into records.

Nothing here, and nothing outside of this package, opens bytes whose checksum was not verified: `verified` is the only
way to a `Batch`, and only a `Batch` has records. Owns the decision when records make sense: they lie inside of the
header's offsets, in order, with timestamps that exist. Opens payloads within bounds, whoever wrote them.

Records are decoded in slices of at most `SLICE_RECORDS`, on demand (`OpenedBatch`): a batch may hold a million records,
and a reader often wants one of them. Errors leave without their tracebacks, whose frames would keep the opened bytes in
memory for as long as the error is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from goqueue.errors import CorruptBatch, GoQueueError, TooLarge
from goqueue.model.order import is_increasing
from goqueue.records.checksum import Buffer
from goqueue.records.compression import decompress
from goqueue.records.layout import HEADER_BYTES, BatchHeader, TimestampType, validate
from goqueue.records.payload import Columns, Headers, decode
from goqueue.records.scan import skip

DECOMPRESSED_BYTES_MAX = 32 * 1024 * 1024
# A record of 7 bytes becomes objects of some 300 bytes, so their number is bounded as well.
RECORDS_MAX = 1_000_000
SLICE_RECORDS = 1_024
"""How many records are decoded at once: about a millisecond of work."""

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


class Batch:
    """A whole batch whose checksum and header were verified; only `verified` makes one."""

    __slots__ = ("_data", "header")

    def __init__(self, header: BatchHeader, data: memoryview) -> None:
        self.header = header
        self._data = data

    @property
    def data(self) -> memoryview:
        """The bytes of the batch, as they are stored."""
        return self._data

    def payload(self, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> bytes:
        """Return the bytes of the records, decompressed; TooLarge or CorruptBatch without a traceback."""
        try:
            return decompress(self.header.codec, self._data[HEADER_BYTES:], bytes_max=bytes_max)
        except GoQueueError as error:
            raise error.without_frames() from None

    def open(self, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> OpenedBatch:
        """Decompress the records, and decode none yet; TooLarge if there are too many of them."""
        header = self.header
        if header.record_count > RECORDS_MAX:
            raise TooLarge(f"a batch of {header.record_count} records exceeds the limit of {RECORDS_MAX}")
        return OpenedBatch(header, self.payload(bytes_max))


def slice_count(header: BatchHeader) -> int:
    """Return in how many slices the records of a batch are decoded."""
    # One without records has to be without bytes as well.
    return max(-(-header.record_count // SLICE_RECORDS), 1)


def verified(buffer: Buffer, position: int = 0) -> Batch:
    """Verify the checksum of the batch at a position; CorruptBatch if it is not what was written, or cut off."""
    header = validate(buffer, position)
    return Batch(header, memoryview(buffer)[position : position + header.size_bytes])


class OpenedBatch:
    """The records of a verified batch, decompressed, and decoded slice by slice when they are asked for.

    A batch of one slice is checked as a whole before any of its records is seen; in a larger one, what is malformed is
    found when its slice is decoded.
    """

    __slots__ = ("_payload", "_places", "header")

    def __init__(self, header: BatchHeader, payload: bytes) -> None:
        self.header = header
        self._payload = payload
        # Where the slices begin, as far as they were decoded.
        self._places = [0]

    @property
    def size_bytes(self) -> int:
        """How many bytes are kept."""
        return len(self._payload)

    def records(self) -> list[Record]:
        """Return all records, in offset order."""
        found: list[Record] = []
        for number in range(slice_count(self.header)):
            found += self._slice(number)
        return found

    def slices(self, offset: int = 0) -> Iterator[list[Record]]:
        """Yield the records from an offset on, in order, a slice at a time; each is decoded when it is asked for."""
        for number in range(self.slice_of(offset), slice_count(self.header)):
            if records := self.slice(number, offset):
                yield records

    def slice(self, number: int, offset: int = 0) -> list[Record]:
        """Return the records of one slice from an offset on."""
        records = self._slice(number)
        if records and records[0].offset < offset:
            return [record for record in records if record.offset >= offset]
        return records

    def columns(self) -> Iterator[Columns]:
        """Yield the columns of the records, a slice at a time."""
        return map(self._columns, range(slice_count(self.header)))

    def slice_of(self, offset: int) -> int:
        """Return the last slice that begins at or before an offset."""
        header = self.header
        # The record at an offset is not among the first ones by more than that.
        last = min(max(offset - header.base_offset, 0) // SLICE_RECORDS, slice_count(header) - 1)
        if header.record_count == header.last_offset_delta + 1:
            return last
        first = 0
        while first < last:
            middle = (first + last + 1) // 2
            if self._slice(middle)[0].offset <= offset:
                first = middle
            else:
                last = middle - 1
        return first

    def _slice(self, number: int) -> list[Record]:
        header = self.header
        columns = self._columns(number)
        base_offset, base_timestamp = header.base_offset, header.base_timestamp
        offsets = [base_offset + delta for delta in columns.offset_deltas]
        if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
            timestamps = [header.max_timestamp] * len(offsets)
        else:
            timestamps = [base_timestamp + delta for delta in columns.timestamp_deltas]
        return list(map(_record, zip(offsets, timestamps, columns.keys, columns.values, columns.headers, strict=True)))

    def _columns(self, number: int) -> Columns:
        try:
            if slice_count(self.header) == 1:
                return read_columns(self.header, self._payload)
            first = number * SLICE_RECORDS
            count = min(SLICE_RECORDS, self.header.record_count - first)
            part = self._payload[self._place(number) : self._place(number + 1)]
            return _checked(self.header, decode(part, count), first)
        except GoQueueError as error:
            raise error.without_frames() from None

    def _place(self, number: int) -> int:
        """Return where a slice begins in the payload; the end of the payload after the last one."""
        if number == slice_count(self.header):
            return len(self._payload)
        while len(self._places) <= number:
            self._places.append(skip(self._payload, self._places[-1], SLICE_RECORDS))
        return self._places[number]


def read_records(batch: Buffer, *, decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX) -> list[Record]:
    """Verify the batch that the buffer starts with, and return its records in offset order.

    CorruptBatch if anything in it is damaged or malformed, TooLarge if it opens to more than the limit or has more than
    `RECORDS_MAX` records.
    """
    return verified(batch).open(decompressed_bytes_max).records()


def read_pairs(
    batch: Buffer, *, decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX
) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Return keys and values of the records of a batch, read and checked as `read_records` does it."""
    for columns in verified(batch).open(decompressed_bytes_max).columns():
        yield from zip(columns.keys, columns.values, strict=True)


def read_columns(header: BatchHeader, payload: bytes) -> Columns:
    """Return the records of an opened payload as columns, checked against the header."""
    if header.record_count > RECORDS_MAX:
        raise TooLarge(f"a batch of {header.record_count} records exceeds the limit of {RECORDS_MAX}")
    return _checked(header, decode(payload, header.record_count))


def _checked(header: BatchHeader, columns: Columns, first: int = 0) -> Columns:
    """Return columns of records from the one of number `first` on, if the header leaves room for them."""
    if columns.offset_deltas:
        _check_offsets(header, columns, first)
        _check_timestamps(header, columns)
    return columns


def _check_offsets(header: BatchHeader, columns: Columns, first: int) -> None:
    deltas = columns.offset_deltas
    # Records before and after these have offsets of their own.
    most = header.last_offset_delta - (header.record_count - first - len(deltas))
    if deltas[0] < first or deltas[-1] > most or not is_increasing(deltas):
        raise CorruptBatch(
            f"the records' offset deltas go from {deltas[0]} to {deltas[-1]}; they have to increase "
            f"from {first} to {most} at most"
        )


def _check_timestamps(header: BatchHeader, columns: Columns) -> None:
    first = header.base_timestamp + min(columns.timestamp_deltas)
    last = header.base_timestamp + max(columns.timestamp_deltas)
    if first < -_TIMESTAMP_END or last >= _TIMESTAMP_END:
        raise CorruptBatch(f"the records' timestamps, {first} to {last}, exceed 2^62")
