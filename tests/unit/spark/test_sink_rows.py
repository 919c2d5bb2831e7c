"""Where rows of a write go, and what their columns become."""

from __future__ import annotations

import pyarrow as pa
import pytest

from goqueue.client.kafka import TopicPartition
from goqueue.errors import Invalid, UnknownPartition
from goqueue.model.partitioners import murmur2_partition
from goqueue.spark.sink.rows import Router, with_priorities
from goqueue.spark.source.columns import HEADER_TYPE

PARTITIONS = {"a": 4, "b": 1}
HEADERS = pa.list_(HEADER_TYPE)


def placed(rows: pa.RecordBatch, topic: str | None = "a", first_turn: int = 0) -> dict[TopicPartition, list[object]]:
    """Return the values that go to each partition."""
    router = Router(topic, PARTITIONS.__getitem__, first_turn)
    return {place: part.column("value").to_pylist() for place, part in router.placed(rows)}


def test_rows_go_by_their_keys_as_kafkas_java_client_sends_them_and_keep_their_order() -> None:
    keys = [f"key {number % 20}" for number in range(200)]
    rows = pa.RecordBatch.from_pydict({"key": keys, "value": [str(number) for number in range(200)]})
    wanted: dict[TopicPartition, list[object]] = {}
    for number, key in enumerate(keys):
        wanted.setdefault(TopicPartition("a", murmur2_partition(key.encode(), 4)), []).append(str(number))
    assert placed(rows) == wanted


def test_the_partition_that_a_row_names_counts_more_than_its_key() -> None:
    partition = murmur2_partition(b"k", 4)
    other = (partition + 1) % 4
    rows = pa.RecordBatch.from_pydict(
        {"key": ["k", "k"], "value": ["named", "by key"], "partition": pa.array([other, None], pa.int64())}
    )
    assert placed(rows) == {TopicPartition("a", other): ["named"], TopicPartition("a", partition): ["by key"]}


@pytest.mark.parametrize("partition", [-1, 4])
def test_a_partition_that_the_topic_does_not_have_is_refused(partition: int) -> None:
    rows = pa.RecordBatch.from_pydict({"value": ["v"], "partition": pa.array([partition], pa.int32())})
    with pytest.raises(UnknownPartition, match=f"no partition {partition}, it has 4"):
        placed(rows)


def test_rows_without_a_key_take_turns_which_begin_elsewhere_in_each_task() -> None:
    rows = pa.RecordBatch.from_pydict({"value": ["v"]})
    assert [list(placed(rows, first_turn=task)) for task in range(6)] == [
        [TopicPartition("a", partition)] for partition in (0, 1, 2, 3, 0, 1)
    ]
    router = Router("a", PARTITIONS.__getitem__, 2)
    turns = [place.partition for _ in range(5) for place, _ in router.placed(rows)]
    assert turns == [2, 3, 0, 1, 2]


def test_rows_go_to_the_topic_that_they_name_unless_there_is_one_for_all() -> None:
    rows = pa.RecordBatch.from_pydict({"topic": ["b", "a", "b"], "value": ["1", "2", "3"], "partition": [0, 3, 0]})
    assert placed(rows, topic=None) == {TopicPartition("b", 0): ["1", "3"], TopicPartition("a", 3): ["2"]}
    assert placed(rows) == {TopicPartition("a", 0): ["1", "3"], TopicPartition("a", 3): ["2"]}
    nameless = pa.RecordBatch.from_pydict({"topic": pa.array(["a", None]), "value": ["1", "2"]})
    with pytest.raises(Invalid, match="a row has no topic"):
        placed(nameless, topic=None)


def test_a_priority_is_the_last_header_of_its_row() -> None:
    first, second = {"key": "h", "value": b"1"}, {"key": "i", "value": None}
    headers = pa.array([[first, second], None, [], [first], None], HEADERS)
    priorities = pa.array([4, 0, None, None, None], pa.int32())

    def priority(text: bytes) -> dict[str, object]:
        return {"key": "goqueue-priority", "value": text}

    assert with_priorities(headers, priorities).to_pylist() == [
        [first, second, priority(b"4")],
        [priority(b"0")],
        [],
        [first],
        [],
    ]
    assert with_priorities(headers.slice(3), priorities.slice(0, 2)).to_pylist() == [
        [first, priority(b"4")],
        [priority(b"0")],
    ]
    assert with_priorities(None, priorities).to_pylist() == [[priority(b"4")], [priority(b"0")], [], [], []]


@pytest.mark.parametrize("wrong", [-1, 5])
def test_a_priority_outside_of_the_lanes_is_refused(wrong: int) -> None:
    with pytest.raises(Invalid, match=f"{wrong} is no priority"):
        with_priorities(None, pa.array([None, wrong], pa.int32()))
