"""Which partition each row goes to, and the rows of each partition apart.

Owns the choice for whole columns of keys; it is the one of `model.partitioners` (what Kafka's Java client does), so a
key meets its earlier messages wherever they came from. Keys are hashed in step: the first word of all of them, then
the second words of those that have one, and so on. Rows without a key take one turn together (the sticky way).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from goqueue.errors import Invalid
from goqueue.model.partitioners import RoundRobin, murmur2
from goqueue.spark.records.encode_headers import binaries, lengths_of
from goqueue.spark.records.varints import Numbers, Octets

Hashes = NDArray[np.uint32]

# Longer keys are rare, and would make all others wait for their many words: they are hashed one by one.
_KEY_BYTES_MAX = 128
_WORD_BYTES = 4
_SEED = np.uint32(0x9747B28C)
_M = np.uint32(0x5BD1E995)
_POSITIVE = np.uint32(0x7FFFFFFF)
_TAIL_MASKS = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF], np.uint32)


def partition_ids(keys: pa.Array, partitions: int, *, turn: RoundRobin) -> NDArray[np.int32]:
    """Return the partition of each row by its key; rows without a key go together to whose turn it is."""
    if partitions < 1:
        raise Invalid(f"a topic of {partitions} partitions can take no rows")
    keys = binaries(keys, "the column key")
    ids = ((murmur2_hashes(keys) & _POSITIVE) % np.uint32(partitions)).astype(np.int32)
    if keys.null_count:
        ids[keys.is_null().to_numpy(zero_copy_only=False)] = turn.next_partition(partitions)
    return ids


def split_by_partition(rows: pa.RecordBatch, ids: NDArray[np.int32]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield each partition that gets rows, in order of its number, with its rows in the order in which they came."""
    if len(ids) != rows.num_rows:
        raise Invalid(f"{len(ids)} partitions were chosen for {rows.num_rows} rows")
    if not len(ids):
        return
    if (ids == ids[0]).all():
        yield int(ids[0]), rows
        return
    order = np.argsort(ids, kind="stable")
    ordered = rows.take(pa.array(order))
    found, starts, counts = np.unique(ids[order], return_index=True, return_counts=True)
    for partition, start, count in zip(found.tolist(), starts.tolist(), counts.tolist(), strict=True):
        yield partition, ordered.slice(start, count)


def murmur2_hashes(keys: pa.BinaryArray) -> Hashes:
    """Return the 32-bit MurmurHash2 of each key, with Kafka's seed; that of a null means nothing."""
    lengths = lengths_of(keys)
    if not len(lengths):
        return np.empty(0, np.uint32)
    octets, starts = _contents(keys)
    is_long = lengths > _KEY_BYTES_MAX
    hashes = _hashes(octets, starts, np.where(is_long, 0, np.maximum(lengths, 0)))
    for row in np.flatnonzero(is_long).tolist():
        hashes[row] = murmur2(octets[starts[row] : starts[row] + lengths[row]].tobytes())
    return hashes


def _contents(keys: pa.BinaryArray) -> tuple[Octets, Numbers]:
    """Return the bytes of all keys, with a word's worth behind them, and where each begins."""
    _, bounds_buffer, data = keys.buffers()
    bounds = np.frombuffer(bounds_buffer, np.int32, len(keys) + 1, keys.offset * 4).astype(np.int64)
    first, end = int(bounds[0]), int(bounds[-1])
    octets = np.zeros(end - first + _WORD_BYTES, np.uint8)
    if end > first:
        octets[: end - first] = np.frombuffer(data, np.uint8, end - first, first)
    return octets, bounds[:-1] - first


def _hashes(octets: Octets, starts: Numbers, lengths: Numbers) -> Hashes:
    words = np.ndarray((len(octets) - _WORD_BYTES + 1,), "<u4", octets, strides=(1,))
    hashes = _SEED ^ lengths.astype(np.uint32)
    whole = lengths // _WORD_BYTES
    for index in range(int(whole.max())):
        rows = np.flatnonzero(whole > index)
        mixed = words[starts[rows] + index * _WORD_BYTES] * _M
        mixed ^= mixed >> np.uint32(24)
        hashes[rows] = hashes[rows] * _M ^ mixed * _M
    rows = np.flatnonzero(lengths % _WORD_BYTES)
    if len(rows):
        tail = words[starts[rows] + whole[rows] * _WORD_BYTES] & _TAIL_MASKS[lengths[rows] % _WORD_BYTES]
        hashes[rows] = (hashes[rows] ^ tail) * _M
    hashes ^= hashes >> np.uint32(13)
    hashes *= _M
    hashes ^= hashes >> np.uint32(15)
    return hashes
