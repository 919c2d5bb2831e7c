"""From the rows of a write to the rows of each partition, as `encode` takes them. Pure.

Owns what a row says about where it goes and what the columns beside the record mean: the partition is the one that the
row names, else that of its key, else whose turn it is; a priority is a header. Rows keep their order in a partition.
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
from goqueue.model.partitioners import RoundRobin
from goqueue.spark.sink.partitioning import partition_ids, split_by_partition
from goqueue.spark.source.columns import HEADER_TYPE, PRIORITY_HEADER

PRIORITY_MAX = 4

_RECORD_COLUMNS = ("key", "value", "headers", "timestamp")


class PlacedRows(NamedTuple):
    """Rows of one partition, in the order in which they came."""

    place: TopicPartition
    rows: pa.RecordBatch


class Router:
    """Decides where rows go; `partitions_of` tells how many partitions a topic has.

    Rows without a key take turns in each topic, all that come together the same one. Tasks begin with different turns,
    so that many tasks with few rows do not all write to the first partition.
    """

    def __init__(self, topic: str | None, partitions_of: Callable[[str], int], first_turn: int) -> None:
        self._topic = topic
        self._partitions_of = partitions_of
        self._first_turn = first_turn
        self._turns: dict[str, RoundRobin] = {}

    def placed(self, rows: pa.RecordBatch) -> Iterator[PlacedRows]:
        """Yield the rows of each partition; Invalid or UnknownPartition if a row says what cannot be."""
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
    """Return what becomes part of the records, with each priority as the last header of its row."""
    columns = {name: rows.column(name) for name in _RECORD_COLUMNS if name in rows.schema.names}
    if "priority" in rows.schema.names and rows.column("priority").null_count < rows.num_rows:
        columns["headers"] = with_priorities(columns.get("headers"), rows.column("priority"))
    return pa.RecordBatch.from_pydict(columns)


def with_priorities(headers: pa.ListArray | None, priorities: pa.Array) -> pa.ListArray:
    """Return the headers of each row with its priority behind them, so that it counts; none if it has neither."""
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
    # Where each pair ends up: the priority is the last of its row, all others lie in front of it in their order.
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
