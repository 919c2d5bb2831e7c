"""Rewrites a batch for compaction: drops records, and stores when its tombstones may go.

Owns the rewriting of one batch; which records stay is the caller's decision. Invariants: a retained record
keeps its offset, timestamp, key, value and headers; the batch keeps its offsets, producer fields, leader
epoch, codec and all attributes but the delete horizon. With the base timestamp unchanged, a retained record
keeps its very bytes.

The delete horizon is the time after which tombstones and markers may be removed. It has no field of its
own: an attribute bit says that the base timestamp is the horizon, and the records' timestamp deltas count
from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress as select

from goqueue.errors import Invalid
from goqueue.records.builder import assemble
from goqueue.records.checksum import Buffer
from goqueue.records.layout import DELETE_HORIZON_BIT, BatchHeader, TimestampType
from goqueue.records.payload import Columns, encode
from goqueue.records.reader import DECOMPRESSED_BYTES_MAX, Batch, read_columns, verified
from goqueue.records.scan import spans


def delete_horizon_ms(header: BatchHeader) -> int | None:
    """Return the batch's delete horizon, in milliseconds since 1970; None if it has none."""
    return header.base_timestamp if header.has_delete_horizon else None


def retain(
    batch: Batch | Buffer,
    kept: Sequence[bool],
    *,
    delete_horizon_ms: int | None = None,
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX,
) -> bytearray | None:
    """Return the batch with only the records whose flag is true; None if that leaves none.

    With all records kept and no horizon to set, the result is the batch byte for byte. CorruptBatch if the batch is
    damaged: it must not get a new checksum.
    """
    sound = batch if isinstance(batch, Batch) else verified(batch)
    header = sound.header
    if len(kept) != header.record_count:
        raise Invalid(f"{len(kept)} flags were given for {header.record_count} records")
    if not any(kept):
        return None
    payload = sound.payload(decompressed_bytes_max)
    columns = read_columns(header, payload)
    if delete_horizon_ms is None and all(kept):
        return bytearray(sound.data)

    survivors = _survivors(columns, kept)
    header = header._replace(record_count=len(survivors.offset_deltas), max_timestamp=_max_timestamp(header, survivors))
    if delete_horizon_ms is None:
        slices = select(spans(payload, len(kept)), kept)
        return assemble(header, b"".join([payload[part] for part in slices]))
    return assemble(*_with_horizon(header, survivors, delete_horizon_ms))


def _survivors(columns: Columns, kept: Sequence[bool]) -> Columns:
    return Columns(
        list(select(columns.offset_deltas, kept)),
        list(select(columns.timestamp_deltas, kept)),
        list(select(columns.keys, kept)),
        list(select(columns.values, kept)),
        list(select(columns.headers, kept)),
    )


def _max_timestamp(header: BatchHeader, survivors: Columns) -> int:
    # Of batches stamped by the broker, the maximum is every record's timestamp.
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        return header.max_timestamp
    return header.base_timestamp + max(survivors.timestamp_deltas)


def _with_horizon(header: BatchHeader, survivors: Columns, horizon_ms: int) -> tuple[BatchHeader, Buffer]:
    shift = header.base_timestamp - horizon_ms
    deltas = [delta + shift for delta in survivors.timestamp_deltas]
    header = header._replace(attributes=header.attributes | DELETE_HORIZON_BIT, base_timestamp=horizon_ms)
    return header, encode(survivors._replace(timestamp_deltas=deltas))
