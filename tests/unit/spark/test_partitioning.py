"""Rows to partitions: the same choice as for single keys, and nothing lost on the way."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.errors import Invalid
from goqueue.model.partitioners import RoundRobin, murmur2, murmur2_partition
from goqueue.spark.sink.rows import murmur2_hashes, partition_ids, split_by_partition

KEYS = st.lists(st.none() | st.binary(max_size=20) | st.binary(min_size=120, max_size=300), max_size=40)


@settings(deadline=None)
@given(KEYS, st.integers(0, 5))
def test_hashes_equal_those_of_single_keys(keys: list[bytes | None], skipped: int) -> None:
    found = murmur2_hashes(pa.array(keys, pa.binary()).slice(skipped)).tolist()
    for key, hashed in zip(keys[skipped:], found, strict=True):
        assert key is None or hashed == murmur2(key)


@settings(deadline=None)
@given(KEYS, st.integers(1, 1_000))
def test_keys_go_where_every_other_client_sends_them(keys: list[bytes | None], partitions: int) -> None:
    ids = partition_ids(pa.array(keys, pa.binary()), partitions, turn=RoundRobin())
    assert ids.dtype == np.int32
    assert ids.tolist() == [0 if key is None else murmur2_partition(key, partitions) for key in keys]


def test_strings_are_keys_too() -> None:
    assert partition_ids(pa.array(["ä"]), 100, turn=RoundRobin()).tolist() == [murmur2_partition("ä".encode(), 100)]


def test_rows_without_a_key_take_one_turn_together() -> None:
    turn = RoundRobin()
    keys = pa.array([None, b"k", None], pa.binary())
    taken = [partition_ids(keys, 3, turn=turn).tolist()[::2] for _ in range(4)]
    assert taken == [[0, 0], [1, 1], [2, 2], [0, 0]]


def test_rows_with_keys_take_no_turn() -> None:
    turn = RoundRobin()
    partition_ids(pa.array([b"k"]), 3, turn=turn)
    assert turn.next_partition(3) == 0


def test_column_of_nulls_is_rows_without_keys() -> None:
    assert partition_ids(pa.nulls(2), 3, turn=RoundRobin()).tolist() == [0, 0]


@pytest.mark.parametrize("partitions", [0, -1])
def test_topic_without_partitions_is_invalid(partitions: int) -> None:
    with pytest.raises(Invalid):
        partition_ids(pa.array([b"k"]), partitions, turn=RoundRobin())


@given(st.lists(st.integers(0, 5), max_size=60))
def test_rows_of_each_partition_keep_their_order(chosen: list[int]) -> None:
    rows = pa.record_batch({"row": pa.array(range(len(chosen)), pa.int64())})
    found = {
        partition: part.column("row").to_pylist()
        for partition, part in split_by_partition(rows, np.array(chosen, np.int32))
    }
    expected: dict[int, list[int]] = {}
    for row, partition in enumerate(chosen):
        expected.setdefault(partition, []).append(row)
    assert found == expected
    assert list(found) == sorted(expected)


def test_choice_for_another_number_of_rows_is_invalid() -> None:
    with pytest.raises(Invalid):
        list(split_by_partition(pa.record_batch({"row": [1, 2]}), np.array([0], np.int32)))
