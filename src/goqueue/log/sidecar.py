"""The index file of a segment: its state, so that the segment itself need not be read.

It describes the first `covered` bytes of the segment, which were durable before it was written. For a sealed
segment that is all of it; for the one being written it is a checkpoint: what follows must be read and checked
after a crash. The file is written whole under another name and renamed, so it is either all there or not.

    head   magic u32 | version u16 | flags u16 | covered u64 | base offset i64 | next offset i64
           | first timestamp i64 | max timestamp i64 | chain u32 | epochs u32 | damages u32 | rows u32 | aborted u32
           | producers at the start u32 (bytes) | producers u32 (bytes) | checksum of the body u32
           then the epochs (epoch i32, start offset i64) and damages (4 x i64, kind u8), then the head's checksum u32
    body   the columns of the sparse index | aborted transactions (4 x i64)
           | the producer table where the segment starts | the producer table at `covered`

All of it is in the machine's byte order: a file from another kind of machine fails at the magic number and is rebuilt,
like any file that fails a checksum. Opening a log reads heads only.
"""

from __future__ import annotations

import struct
from pathlib import PurePath
from typing import NamedTuple

from goqueue.errors import Corrupt
from goqueue.log import names
from goqueue.log.index import ROW_BYTES, SparseIndex
from goqueue.log.segment import Damage, DamageKind, Details, EpochStart, Segment
from goqueue.machines.producer import AbortedRange, ProducerTable
from goqueue.records.checksum import crc32c
from goqueue.seams.disk import Disk

_MAGIC = 0x58495147  # "GQIX" on a little-endian machine
_VERSION = 1
_IS_COMPACTED = 1
_HAS_GAPS = 2

_HEAD = struct.Struct("=IHHQqqqqIIIIIIII")
_EPOCH = struct.Struct("=iq")
_DAMAGE = struct.Struct("=qqqqB")
_ABORTED = struct.Struct("=qqqq")
_CHECKSUM = struct.Struct("=I")
# Long enough for the head of nearly every segment: 300 epochs.
_HEAD_READ_BYTES = 4096


class _Head(NamedTuple):
    magic: int
    version: int
    flags: int
    covered: int
    base_offset: int
    next_offset: int
    first_timestamp: int
    max_timestamp: int
    chain: int
    epochs: int
    damages: int
    rows: int
    aborted: int
    start_bytes: int
    producers_bytes: int
    body_checksum: int

    @property
    def size_bytes(self) -> int:
        return _HEAD.size + self.epochs * _EPOCH.size + self.damages * _DAMAGE.size + _CHECKSUM.size

    @property
    def body_bytes(self) -> int:
        return self.rows * ROW_BYTES + self.aborted * _ABORTED.size + self.start_bytes + self.producers_bytes


class Body(NamedTuple):
    """The bulky part of an index file, and how many bytes of the segment it describes."""

    covered: int
    details: Details
    producers: ProducerTable


def encode(segment: Segment, producers: ProducerTable) -> bytes:
    """Return the index file of a segment as it is now, with the producers as they are at its end."""
    assert segment.details is not None
    index, aborted, at_start = segment.details.index, segment.details.aborted, segment.details.producers_at_start
    table = producers.encode()
    body = b"".join((index.encode(), *(_ABORTED.pack(*entry) for entry in aborted), at_start, table))
    head = _Head(
        _MAGIC,
        _VERSION,
        (_IS_COMPACTED if segment.is_compacted else 0) | (_HAS_GAPS if segment.has_gaps else 0),
        segment.size,
        segment.base_offset,
        segment.next_offset,
        segment.first_timestamp,
        segment.max_timestamp,
        segment.chain,
        len(segment.epochs),
        len(segment.damages),
        len(index),
        len(aborted),
        len(at_start),
        len(table),
        crc32c(body),
    )
    start = b"".join(
        (
            _HEAD.pack(*head),
            *(_EPOCH.pack(*entry) for entry in segment.epochs),
            *(_DAMAGE.pack(*entry) for entry in segment.damages),
        )
    )
    return b"".join((start, _CHECKSUM.pack(crc32c(start)), body))


def write(disk: Disk, path: PurePath, data: bytes) -> None:
    """Put an index file in its place, durably and whole."""
    temporary = path.with_name(path.name + names.TEMPORARY)
    file = disk.open(temporary, create=True)
    try:
        file.truncate(0)
        file.write_at(0, data)
        file.sync()
    finally:
        file.close()
    disk.rename(temporary, path)
    disk.sync_directory(path.parent)


def read_head(disk: Disk, segment_path: PurePath) -> Segment:
    """Return the segment as its index file describes it, without details.

    FileNotFoundError if there is no index file, Corrupt if it cannot be used.
    """
    file = disk.open(names.index_path(segment_path), writable=False)
    try:
        data = file.read_at(0, _HEAD_READ_BYTES)
        head = _parse_head(data)
        _check_size(head, file.size())
        if head.size_bytes > len(data):
            data = file.read_at(0, head.size_bytes)
        _check_head(data, head)
    finally:
        file.close()
    return _describe(segment_path, head, data)


def read_body(disk: Disk, segment_path: PurePath) -> Body:
    """Return the details of a segment from its index file; Corrupt if it cannot be used."""
    file = disk.open(names.index_path(segment_path), writable=False)
    try:
        data = file.read_at(0, file.size())
    finally:
        file.close()
    head = _parse_head(data)
    _check_size(head, len(data))
    _check_head(data, head)
    body = memoryview(data)[head.size_bytes :]
    if crc32c(body) != head.body_checksum:
        raise Corrupt("the index fails its checksum")
    rows_end = head.rows * ROW_BYTES
    aborted_end = rows_end + head.aborted * _ABORTED.size
    aborted = [AbortedRange(*entry) for entry in _ABORTED.iter_unpack(body[rows_end:aborted_end])]
    start_end = aborted_end + head.start_bytes
    details = Details(
        SparseIndex.decode(head.base_offset, body[:rows_end]), aborted, bytes(body[aborted_end:start_end])
    )
    producers = ProducerTable.decode(bytes(body[start_end:]))
    details.seal(producers, head.next_offset)
    return Body(head.covered, details, producers)


def _parse_head(data: bytes) -> _Head:
    if len(data) < _HEAD.size:
        raise Corrupt(f"the index has only {len(data)} bytes")
    head = _Head(*_HEAD.unpack_from(data))
    if head.magic != _MAGIC or head.version != _VERSION:
        raise Corrupt("the index is of another format")
    return head


def _check_size(head: _Head, file_bytes: int) -> None:
    expected = head.size_bytes + head.body_bytes
    if file_bytes != expected:
        raise Corrupt(f"the index has {file_bytes} bytes instead of {expected}")


def _check_head(data: bytes, head: _Head) -> None:
    end = head.size_bytes
    (checksum,) = _CHECKSUM.unpack_from(data, end - _CHECKSUM.size)
    if crc32c(memoryview(data)[: end - _CHECKSUM.size]) != checksum:
        raise Corrupt("the index fails its checksum")


def _describe(path: PurePath, head: _Head, data: bytes) -> Segment:
    epochs_end = _HEAD.size + head.epochs * _EPOCH.size
    damages_end = epochs_end + head.damages * _DAMAGE.size
    return Segment(
        base_offset=head.base_offset,
        path=path,
        next_offset=head.next_offset,
        size=head.covered,
        first_timestamp=head.first_timestamp,
        max_timestamp=head.max_timestamp,
        chain=head.chain,
        covered=head.covered,
        is_compacted=bool(head.flags & _IS_COMPACTED),
        has_gaps=bool(head.flags & _HAS_GAPS),
        epochs=[EpochStart(*entry) for entry in _EPOCH.iter_unpack(data[_HEAD.size : epochs_end])],
        damages=[
            Damage(position, end, first, last, DamageKind(kind))
            for position, end, first, last, kind in _DAMAGE.iter_unpack(data[epochs_end:damages_end])
        ],
    )
