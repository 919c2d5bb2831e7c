"""Transaction markers: the control batches that end a transaction in a partition.

Owns the bytes of the marker's one record, which are Kafka's:

    key   = version:int16=0 type:int16 (0 abort, 1 commit)
    value = version:int16=0 coordinator_epoch:int32

Later versions may only add bytes at the end, so a reader takes what it knows from the front. This module does not know
which transactions are open, or which epoch may end them.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from goqueue.errors import CorruptBatch, UnsupportedFormat
from goqueue.records.builder import NewRecord, build_batch
from goqueue.records.checksum import Buffer
from goqueue.records.layout import read_header
from goqueue.records.reader import read_records

_KEY = Struct(">hh")
_VALUE = Struct(">hi")
_VERSION = 0


class ControlType(IntEnum):
    """How a transaction ends; the value is the type in the marker's key."""

    ABORT = 0
    COMMIT = 1


class Marker(NamedTuple):
    """The end of a transaction; the batch's header names its producer."""

    control_type: ControlType
    coordinator_epoch: int


def build_marker(
    control_type: ControlType,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp: int,
    coordinator_epoch: int = 0,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytearray:
    """Return the control batch that ends the producer's transaction."""
    key = _KEY.pack(_VERSION, control_type)
    value = _VALUE.pack(_VERSION, coordinator_epoch)
    return build_batch(
        [NewRecord(timestamp, key, value)],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )


def read_marker(batch: Buffer) -> Marker:
    """Return the marker in a control batch; UnsupportedFormat if it has another type."""
    header = read_header(batch)
    if not header.is_control:
        raise CorruptBatch(f"the batch at offset {header.base_offset} is no control batch")
    records = read_records(batch)
    if len(records) != 1:
        raise CorruptBatch(f"the control batch at offset {header.base_offset} has {len(records)} records, not 1")
    key, value = records[0].key or b"", records[0].value or b""
    if len(key) < _KEY.size or len(value) < _VALUE.size:
        raise CorruptBatch(
            f"the control batch at offset {header.base_offset} has a key of {len(key)} bytes and a value of "
            f"{len(value)}; {_KEY.size} and {_VALUE.size} are needed"
        )
    key_version, code = _KEY.unpack_from(key)
    value_version, coordinator_epoch = _VALUE.unpack_from(value)
    if key_version < _VERSION or value_version < _VERSION:
        raise CorruptBatch(f"the control batch at offset {header.base_offset} has a negative version")
    if code not in ControlType.__members__.values():
        raise UnsupportedFormat(f"the control batch at offset {header.base_offset} is of unknown type {code}")
    return Marker(ControlType(code), coordinator_epoch)
