"""Splits the rows of a write by partition, as `encode` takes them. Pure.

The partition is the one in the row, else that of its key, else round-robin; a priority becomes a header. Rows keep
their order within a partition.

Keys are hashed as in `model.partitioners` (murmur2, as in Kafka's Java client), so messages of a key share a partition.
Whole columns are hashed in step: the first word of all keys, then the second words, and so on. Rows of a batch without
a key go to one partition together (sticky partitioning).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from goqueue.client.kafka import TopicPartition
from goqueue.errors import Invalid, UnknownPartition
from goqueue.model.partitioners import RoundRobin, murmur2
from goqueue.spark.records.binaries import binaries, lengths_of
from goqueue.spark.records.varints import Numbers, Octets
from goqueue.spark.source.columns import HEADER_TYPE, PRIORITY_HEADER

PRIORITY_MAX = 4

_RECORD_COLUMNS = ("key", "value", "headers", "timestamp")

Hashes = NDArray[np.uint32]

# # Longer keys are rare and have many words, so they are hashed one by one.
_KEY_BYTES_MAX = 128
_WORD_BYTES = 4
_SEED = np.uint32(0x9747B28C)
_M = np.uint32(0x5BD1E995)
_POSITIVE = np.uint32(0x7FFFFFFF)
_TAIL_MASKS = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF], np.uint32)


class PlacedRows(NamedTuple):
    """Rows of one partition, in the order in which they came."""

    place: TopicPartition
    rows: pa.RecordBatch


class Router:
    """Assigns rows to partitions; `partitions_of` returns the partition count of a topic.

    Rows without a key are assigned round-robin, one partition per batch. Tasks start at different partitions, so that
    many tasks with few rows do not all write to the first one.
    """

    def __init__(self, topic: str | None, partitions_of: Callable[[str], int], first_turn: int) -> None:
        self._topic = topic
        self._partitions_of = partitions_of
        self._first_turn = first_turn
        self._turns: dict[str, RoundRobin] = {}

    def placed(self, rows: pa.RecordBatch) -> Iterator[PlacedRows]:
        """Yield the rows of each partition; Invalid or UnknownPartition for invalid columns."""
        for topic, of_topic in self._by_topic(rows):
            ids = self._partition_ids(topic, of_topic)
            for partition, placed in split_by_partition(_records_of(of_topic), ids):
                yield PlacedRows(TopicPartition(topic, partition), placed)

    def _by_topic(self, rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        if self._topic is not None:
            yield self._topic, rows
            return
        column = rows.column("topic")
        if column.null_count:
            raise Invalid("a row has no topic", hint="fill the column topic, or set the option topic")
        numbers = column.dictionary_encode()
        for index, part in split_by_partition(rows, numbers.indices.to_numpy().astype(np.int32)):
            yield numbers.dictionary[index].as_py(), part

    def _partition_ids(self, topic: str, rows: pa.RecordBatch) -> NDArray[np.int32]:
        count = self._partitions_of(topic)
        named = rows.column("partition") if "partition" in rows.schema.names else None
        if named is not None and not named.null_count:
            return _named_ids(named, topic, count)
        keys = rows.column("key") if "key" in rows.schema.names else pa.nulls(rows.num_rows)
        ids = partition_ids(keys, count, turn=self._turn(topic, count))
        if named is not None and named.null_count < len(named):
            is_named = named.is_valid().to_numpy(zero_copy_only=False)
            ids[is_named] = _named_ids(named.drop_null(), topic, count)
        return ids

    def _turn(self, topic: str, count: int) -> RoundRobin:
        turn = self._turns.get(topic)
        if turn is None:
            turn = self._turns[topic] = RoundRobin()
            for _ in range(self._first_turn % count):
                turn.next_partition(count)
        return turn


def _named_ids(named: pa.Array, topic: str, count: int) -> NDArray[np.int32]:
    ids: NDArray[np.int64] = named.cast(pa.int64()).to_numpy()
    wrong = ids[(ids < 0) | (ids >= count)]
    if len(wrong):
        raise UnknownPartition(f"topic {topic!r} has no partition {wrong[0]}, it has {count}")
    return ids.astype(np.int32)


def _records_of(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the columns of the records, with each priority as the last header of its row."""
    columns = {name: rows.column(name) for name in _RECORD_COLUMNS if name in rows.schema.names}
    if "priority" in rows.schema.names and rows.column("priority").null_count < rows.num_rows:
        columns["headers"] = with_priorities(columns.get("headers"), rows.column("priority"))
    return pa.RecordBatch.from_pydict(columns)


def with_priorities(headers: pa.ListArray | None, priorities: pa.Array) -> pa.ListArray:
    """Append the priority of each row to its headers, where it overrides earlier ones; null if a row has neither."""
    wrong = pc.filter(priorities, pc.or_(pc.less(priorities, 0), pc.greater(priorities, PRIORITY_MAX)))
    if len(wrong.drop_null()):
        raise Invalid(f"{wrong.drop_null()[0].as_py()} is no priority", hint=f"they go from 0 to {PRIORITY_MAX}")
    has_priority = priorities.is_valid().to_numpy(zero_copy_only=False)
    added = pa.StructArray.from_arrays(
        [
            pa.repeat(pa.scalar(PRIORITY_HEADER, pa.string()), int(has_priority.sum())),
            priorities.drop_null().cast(pa.string()).cast(pa.binary()),
        ],
        fields=list(HEADER_TYPE),
    )
    counts = np.zeros(len(priorities), np.int64)
    pairs = pa.array([], HEADER_TYPE)
    if headers is not None:
        counts = pc.list_value_length(headers).fill_null(0).to_numpy().astype(np.int64)
        pairs = _as_pairs(headers.flatten())
    bounds = np.zeros(len(priorities) + 1, np.int64)
    np.cumsum(counts + has_priority, out=bounds[1:])
    # # The position of each pair: the priority is the last of its row, after the others in order.
    is_added = np.zeros(int(bounds[-1]), np.bool_)
    is_added[bounds[1:][has_priority] - 1] = True
    chosen = np.empty(len(is_added), np.int64)
    chosen[~is_added] = np.arange(len(pairs))
    chosen[is_added] = len(pairs) + np.arange(len(added))
    return pa.ListArray.from_arrays(
        pa.array(bounds.astype(np.int32)), pa.concat_arrays([pairs, added]).take(pa.array(chosen))
    )


def _as_pairs(pairs: pa.StructArray) -> pa.StructArray:
    """Return headers as the one type of pairs; a null one, which is refused later, stays null."""
    return pa.StructArray.from_arrays(
        [pairs.field("key").cast(pa.string()), pairs.field("value").cast(pa.binary())],
        fields=list(HEADER_TYPE),
        mask=pairs.is_null(),
    )


def partition_ids(keys: pa.Array, partitions: int, *, turn: RoundRobin) -> NDArray[np.int32]:
    """Return the partition of each row by its key; rows without a key go to the next partition in turn."""
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
    """Return the 32-bit MurmurHash2 of each key, with Kafka's seed; undefined for null."""
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
    """Return the bytes of all keys, padded by one word, and where each key begins."""
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
