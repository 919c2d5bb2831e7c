"""Builds batches from records, and empty batches that keep only a header.

Owns the header that goes with new records. The same records give the same bytes as librdkafka's
uncompressed batches: deltas from the first record, numbers in their shortest form.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from goqueue.errors import Invalid
from goqueue.records.checksum import Buffer
from goqueue.records.compression import Codec, compress
from goqueue.records.layout import (
    CODEC_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    MAGIC,
    TRANSACTIONAL_BIT,
    BatchHeader,
    write_header,
)
from goqueue.records.payload import Columns, encode

_NO_TIMESTAMP = -1


class NewRecord(NamedTuple):
    """A record that has no offset yet. `timestamp` is in milliseconds since 1970, -1 for none."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()


def build_batch(
    records: Sequence[NewRecord],
    *,
    codec: Codec = Codec.NONE,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
    is_control: bool = False,
) -> bytearray:
    """Return one batch with the records at consecutive offsets; Invalid if there are none."""
    if not records:
        raise Invalid("a batch needs at least one record")
    timestamps, keys, values, headers = zip(*records, strict=True)
    base_timestamp = timestamps[0]
    columns = Columns(
        range(len(records)),
        [timestamp - base_timestamp for timestamp in timestamps],
        keys,
        values,
        list(map(list, headers)),
    )
    header = BatchHeader(
        base_offset=base_offset,
        length=0,
        leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=codec | (TRANSACTIONAL_BIT if is_transactional else 0) | (CONTROL_BIT if is_control else 0),
        last_offset_delta=len(records) - 1,
        base_timestamp=base_timestamp,
        max_timestamp=max(timestamps),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(records),
    )
    return assemble(header, encode(columns))


def assemble(header: BatchHeader, payload: Buffer) -> bytearray:
    """Return a batch of the header and the opened payload, compressed as the header says."""
    batch = bytearray(HEADER_BYTES)
    batch += compress(header.codec, payload) if header.attributes & CODEC_MASK else payload
    write_header(batch, header)
    return batch


def empty_batch(like: BatchHeader) -> bytearray:
    """Return a batch without records that keeps the offsets and the producer's state of `like`.

    Compaction leaves it of a producer's last batch, so that its sequence outlives its records. It has no
    payload to compress and no tombstone to wait for, so neither codec nor delete horizon.
    """
    header = like._replace(
        attributes=like.attributes & ~(CODEC_MASK | DELETE_HORIZON_BIT),
        base_timestamp=_NO_TIMESTAMP,
        record_count=0,
    )
    return assemble(header, b"")
