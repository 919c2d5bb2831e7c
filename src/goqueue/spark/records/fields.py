"""The fields of many records at once: offsets, timestamps, and where keys, values and headers lie.

Owns the grammar of a record as arithmetic on whole columns:

    record = length:varint attributes:int8=0 timestamp_delta:varlong offset_delta:varint
             key:bytes? value:bytes? header_count:varint header*

Every number is checked before it is used as a position: a field ends inside of its record, and the last one exactly
with it. Knows nothing of Arrow, and looks into no key, value or header.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from goqueue.errors import CorruptBatch
from goqueue.records.layout import BatchHeader, TimestampType
from goqueue.spark.records import varints
from goqueue.spark.records.varints import Numbers, Octets

# Half of what 64 bits hold: the same bound as for records that are read one by one.
_TIMESTAMP_END = 2**62
# The small numbers of one record, each as long as it can be, lie within this many bytes of the record's end.
_PADDING = bytes(64)
# A header is at least the lengths of its key and of its value.
_HEADER_BYTES_MIN = 2


class BatchSlice(NamedTuple):
    """Consecutive records of one batch: their bytes, where each begins and the last ends, and the batch's header."""

    records: memoryview
    bounds: Numbers
    header: BatchHeader


@dataclass(frozen=True, slots=True)
class RecordFields:
    """The fields of records in the order of their offsets, one array each; positions are in `octets`.

    A length of -1 stands for null. Timestamps are in milliseconds; -1 if the producer set none.
    """

    octets: Octets
    offsets: Numbers
    timestamps: Numbers
    timestamp_types: NDArray[np.int32]
    key_starts: Numbers
    key_lengths: Numbers
    value_starts: Numbers
    value_lengths: Numbers
    header_counts: Numbers
    header_starts: Numbers
    ends: Numbers

    def __len__(self) -> int:
        return len(self.offsets)

    def within(self, start: int, end: int) -> RecordFields:
        """Return the fields of the records with offsets from `start` on and before `end`."""
        first, stop = np.searchsorted(self.offsets, (start, end))
        if first == 0 and stop == len(self):
            return self
        rows = slice(int(first), int(stop))
        return RecordFields(self.octets, *(getattr(self, column.name)[rows] for column in fields(self)[1:]))


def read_fields(pieces: Sequence[BatchSlice]) -> RecordFields:
    """Return the fields of all records of the pieces; CorruptBatch if anything in them is malformed."""
    octets = np.frombuffer(b"".join([*(piece.records for piece in pieces), _PADDING]), np.uint8)
    starts, ends = _joined_bounds(pieces)
    lengths, position = varints.read(octets, starts)
    if (position + lengths != ends).any():
        raise CorruptBatch("the length of a record is negative")
    # A record of no bytes at all begins with what belongs to the next one; its fields go beyond its end, then.
    if octets[position].any():
        raise CorruptBatch("the attributes of a record are not 0, all bits are reserved")
    timestamp_deltas, position = varints.read(octets, position + 1, bits=varints.VARLONG_BITS)
    offset_deltas, position = varints.read(octets, position)
    key_lengths, key_starts = varints.read(octets, position)
    position = content_ends(key_starts, key_lengths, ends, "key")
    value_lengths, value_starts = varints.read(octets, position)
    position = content_ends(value_starts, value_lengths, ends, "value")
    header_counts, header_starts = varints.read(octets, position)
    _check_header_counts(header_counts, ends - header_starts)
    timestamps, timestamp_types = _timestamps(pieces, timestamp_deltas)
    return RecordFields(
        octets,
        _offsets(pieces, offset_deltas),
        timestamps,
        timestamp_types,
        key_starts,
        key_lengths,
        value_starts,
        value_lengths,
        header_counts,
        header_starts,
        ends,
    )


def _joined_bounds(pieces: Sequence[BatchSlice]) -> tuple[Numbers, Numbers]:
    """Return where the records begin and end in the joined bytes of all pieces."""
    starts, ends = [], []
    shift = 0
    for records, bounds, _ in pieces:
        # A piece of a larger batch has the positions that its records have there.
        moved = bounds + (shift - bounds[0])
        starts.append(moved[:-1])
        ends.append(moved[1:])
        shift += len(records)
    return np.concatenate(starts), np.concatenate(ends)


def content_ends(starts: Numbers, lengths: Numbers, ends: Numbers, name: str) -> Numbers:
    """Return where contents end that begin at `starts`; CorruptBatch if one goes beyond the end of its record."""
    stops = starts + lengths
    if (stops > ends).any() or lengths.min(initial=0) < -1:
        raise CorruptBatch(f"the length of a record's {name} is negative, or more than the bytes that are left")
    if lengths.min(initial=0) < 0:
        stops += lengths < 0
    return stops


def _check_header_counts(counts: Numbers, room: Numbers) -> None:
    if not counts.any():
        if room.any():
            raise CorruptBatch("the fields of a record do not end where its length says")
        return
    if counts.min() < 0 or (counts * _HEADER_BYTES_MIN > room).any() or room[counts == 0].any():
        raise CorruptBatch("the header count of a record does not fit the bytes that are left")


def _offsets(pieces: Sequence[BatchSlice], deltas: Numbers) -> Numbers:
    last_deltas = _spread(pieces, [piece.header.last_offset_delta for piece in pieces])
    offsets = _spread(pieces, [piece.header.base_offset for piece in pieces]) + deltas
    is_increasing = (offsets[1:] > offsets[:-1]).all()
    if not is_increasing or deltas.min(initial=0) < 0 or (deltas > last_deltas).any():
        raise CorruptBatch("the records' offsets do not increase, or lie outside of their batch")
    return offsets


def _timestamps(pieces: Sequence[BatchSlice], deltas: Numbers) -> tuple[Numbers, NDArray[np.int32]]:
    headers = [piece.header for piece in pieces]
    is_append_time = [header.timestamp_type is TimestampType.LOG_APPEND_TIME for header in headers]
    bases = _spread(pieces, [header.base_timestamp for header in headers])
    _check_timestamps(bases, deltas)
    timestamps = bases + deltas
    kinds = _spread(pieces, [int(kind) for kind in is_append_time]).astype(np.int32)
    if any(is_append_time):
        stamped = _spread(pieces, [header.max_timestamp for header in headers])
        timestamps = np.where(kinds == TimestampType.LOG_APPEND_TIME, stamped, timestamps)
    return timestamps, kinds


def _check_timestamps(bases: Numbers, deltas: Numbers) -> None:
    if not len(deltas):
        return
    # Python's numbers do not overflow. Nearly always the extremes alone tell that no sum can.
    first = int(bases.min()) + int(deltas.min())
    last = int(bases.max()) + int(deltas.max())
    if first >= -_TIMESTAMP_END and last < _TIMESTAMP_END:
        return
    sums = bases.astype(object) + deltas.astype(object)
    if sums.min() < -_TIMESTAMP_END or sums.max() >= _TIMESTAMP_END:
        raise CorruptBatch(f"the records' timestamps, {sums.min()} to {sums.max()}, exceed 2^62")


def _spread(pieces: Sequence[BatchSlice], numbers: Sequence[int]) -> Numbers:
    """Return each piece's number once per record."""
    return np.repeat(np.array(numbers, np.int64), [len(piece.bounds) - 1 for piece in pieces])
