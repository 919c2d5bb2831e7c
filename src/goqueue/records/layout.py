"""The header of a record batch: its layout, and whether its fields are consistent.

Owns the 61 bytes in front of the records and the checksum; never looks inside the records (`reader` does).

     0        8        12       16    17     21           23
    +--------+--------+--------+-----+------+------------+-------------------+
    | base   | length | leader |magic| crc  | attributes | last offset delta |
    | offset |        | epoch  | = 2 |      |            |                   |
    +--------+--------+--------+-----+------+------------+-------------------+
     27               35              43            51         53         57         61
    +----------------+---------------+-------------+----------+----------+----------+---------
    | base timestamp | max timestamp | producer id | producer | base     | record   | records
    |                |               |             | epoch    | sequence | count    | ...
    +----------------+---------------+-------------+----------+----------+----------+---------

Numbers are big-endian and signed, the crc alone unsigned. `length` counts from byte 12; `crc` is the
CRC-32C of everything from byte 21. So the broker sets base offset and leader epoch without a new checksum.
Attributes:

    bits 0-2  codec                           bit 5  control batch (transaction markers)
    bit 3     timestamps are of the append    bit 6  base timestamp is the delete horizon
    bit 4     transactional                   others reserved, zero

Invariants of a batch that passed `validate`: all its bytes are there and match the checksum; its records
lie in offsets `base_offset` to `last_offset`, possibly fewer than these (compaction leaves gaps, or no
record at all).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from goqueue.errors import CorruptBatch, TooLarge, UnsupportedFormat
from goqueue.records.checksum import Buffer, crc32c
from goqueue.records.compression import CODEC_MAX, Codec

HEADER_BYTES = 61
PREFIX_BYTES = 12
CRC_START = 21
MAGIC = 2

CODEC_MASK = 0x07
LOG_APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

_RESERVED_BITS = ~0x7F
_LENGTH_MIN = HEADER_BYTES - PREFIX_BYTES
_LENGTH_MAX = 2**31 - 1
_SEQUENCE_END = 2**31

HEADER = struct.Struct(">qiibIhiqqqhii")
_BASE_OFFSET = struct.Struct(">q")
_LENGTH = struct.Struct(">i")
_LEADER_EPOCH = struct.Struct(">i")
_LEADER_EPOCH_START = 12
_CRC = struct.Struct(">I")
_CRC_FIELD_START = 17


class TimestampType(IntEnum):
    """The source of timestamps: the producer, or the broker at the append."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


# By their code: calling the class goes through two Python functions, and there is one for each batch.
_CODECS = tuple(Codec)


class BatchHeader(NamedTuple):
    """The header's fields, in the order of their bytes."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    def assigned(self, base_offset: int, leader_epoch: int) -> BatchHeader:
        """Return the header with offset and epoch from the broker; cheaper than `_replace`."""
        return tuple.__new__(BatchHeader, (base_offset, self[1], leader_epoch, *self[3:]))

    @property
    def size_bytes(self) -> int:
        """The size of the whole batch."""
        return PREFIX_BYTES + self.length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The last record's sequence (0 follows after 2^31 - 1); -1 if the batch has no sequence."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) % _SEQUENCE_END

    @property
    def codec(self) -> Codec:
        """The payload's codec; UnsupportedFormat if it is none that we know."""
        code = self.attributes & CODEC_MASK
        if code > CODEC_MAX:
            raise _unknown_codec(code)
        return _CODECS[code]

    @property
    def timestamp_type(self) -> TimestampType:
        is_append_time = self.attributes & LOG_APPEND_TIME_BIT
        return TimestampType.LOG_APPEND_TIME if is_append_time else TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def is_idempotent(self) -> bool:
        return self.producer_id >= 0

    @property
    def has_delete_horizon(self) -> bool:
        return bool(self.attributes & DELETE_HORIZON_BIT)


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Read the header of the batch at `position`; checks no more than format and least length."""
    try:
        # What BatchHeader._make does, without the call of a Python function on every path there is.
        header = tuple.__new__(BatchHeader, HEADER.unpack_from(buffer, position))
    except struct.error:
        raise CorruptBatch(
            f"batch at byte {position} has {len(buffer) - position} bytes, its header takes {HEADER_BYTES}"
        ) from None
    if header.magic != MAGIC:
        raise UnsupportedFormat(
            f"batch at byte {position} is of format {header.magic}, only {MAGIC} is read",
            hint="use a client of Kafka 0.11 or later",
        )
    if header.length < _LENGTH_MIN:
        raise CorruptBatch(f"batch at byte {position}: length is {header.length}, at least {_LENGTH_MIN} is needed")
    return header


def validate(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Check the batch at `position`: it is whole, its checksum matches, its header is consistent."""
    header = read_header(buffer, position)
    end = position + PREFIX_BYTES + header.length
    if end > len(buffer):
        raise CorruptBatch(
            f"batch at byte {position} takes {header.size_bytes} bytes, {len(buffer) - position} are there"
        )
    crc = crc32c(buffer, position + CRC_START, end)
    if crc != header.crc:
        raise CorruptBatch(f"batch at byte {position}: crc is {header.crc:#010x}, its bytes give {crc:#010x}")
    attributes = header.attributes
    contradiction = _contradiction_in_counts(header)
    # Most batches have a codec at most and no producer id: nothing can contradict then.
    if not contradiction and (attributes & ~CODEC_MASK or header.producer_id >= 0):
        contradiction = _contradiction_in_attributes(header)
    if contradiction:
        raise CorruptBatch(f"batch at byte {position}: {contradiction}")
    if attributes & CODEC_MASK > CODEC_MAX:
        raise _unknown_codec(attributes & CODEC_MASK)
    return header


def headers(buffer: Buffer, start: int = 0, end: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
    """Yield position and header of each whole batch in `buffer[start:end]`; ends before an incomplete one.

    Checks no checksum. Raises like `read_header` where no batch begins.
    """
    if end is None:
        end = len(buffer)
    position = start
    while position + HEADER_BYTES <= end:
        header = read_header(buffer, position)
        batch_end = position + PREFIX_BYTES + header.length
        if batch_end > end:
            return
        yield position, header
        position = batch_end


def patch(buffer: bytearray | memoryview, *, base_offset: int, leader_epoch: int, position: int = 0) -> None:
    """Set offset and epoch in place; the checksum does not cover them."""
    _BASE_OFFSET.pack_into(buffer, position, base_offset)
    _LEADER_EPOCH.pack_into(buffer, position + _LEADER_EPOCH_START, leader_epoch)


def write_header(batch: bytearray | memoryview, header: BatchHeader) -> None:
    """Write the header over the first bytes of `batch`, with length and crc as the bytes demand."""
    HEADER.pack_into(batch, 0, *header)
    reseal(batch)


def reseal(batch: bytearray | memoryview) -> None:
    """Update length and checksum after an edit; `batch` must hold exactly one batch."""
    length = len(batch) - PREFIX_BYTES
    if length > _LENGTH_MAX:
        raise TooLarge(f"a batch of {len(batch)} bytes exceeds what its length field can say")
    _LENGTH.pack_into(batch, 8, length)
    _CRC.pack_into(batch, _CRC_FIELD_START, crc32c(batch, CRC_START))


def _unknown_codec(code: int) -> UnsupportedFormat:
    return UnsupportedFormat(f"codec {code} is unknown; known are 0 to {CODEC_MAX}")


def _contradiction_in_counts(header: BatchHeader) -> str:
    delta = header.last_offset_delta
    if 0 <= header.record_count <= delta + 1 and delta >= 0 and header.base_offset >= 0:
        return ""
    if header.base_offset < 0:
        return f"base_offset is {header.base_offset}"
    if delta < 0:
        return f"last_offset_delta is {delta}"
    return f"record_count is {header.record_count}, last_offset_delta {delta} leaves room for 0 to {delta + 1}"


def _contradiction_in_attributes(header: BatchHeader) -> str:
    attributes = header.attributes
    if attributes & _RESERVED_BITS:
        return f"attributes {attributes & 0xFFFF:#06x} have reserved bits set"
    if attributes & CONTROL_BIT and attributes & CODEC_MASK:
        return f"attributes {attributes:#06x} say both control and compressed"
    if header.producer_id >= 0 and header.producer_epoch < 0:
        return f"producer_epoch is {header.producer_epoch} with producer_id {header.producer_id}"
    if attributes & TRANSACTIONAL_BIT and header.producer_id < 0:
        return f"producer_id is {header.producer_id} in a transactional batch"
    return ""
