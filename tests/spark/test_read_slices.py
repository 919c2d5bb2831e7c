"""What a task does when the topic has changed since it was planned; no Spark is needed to see it."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition

from goqueue.client import Client, topics
from goqueue.spark.source.lookup import Bounds, connect, look
from goqueue.spark.source.losses import DataLost
from goqueue.spark.source.options import ReadKind, ReadOptions, parse_options
from goqueue.spark.source.reader import GoQueueReader
from goqueue.testing.broker import Broker
from tests.spark.read_kit import delete_topic, new_topic, publish, remove_records


@pytest.fixture(scope="module")
def broker(goqueue_session_broker: Broker) -> Broker:
    return goqueue_session_broker


def options(broker: Broker, topic: str, **more: str) -> ReadOptions:
    needed = {"kafka.bootstrap.servers": broker.bootstrap, "topic": topic}
    return parse_options({**needed, **more}, ReadKind.BATCH)


def read(reader: GoQueueReader, tasks: list[InputPartition]) -> list[Any]:
    return [value for task in tasks for batch in reader.read(task) for value in batch.column("value").to_pylist()]


@pytest.mark.parametrize("is_strict", [True, False])
def test_records_removed_after_planning(broker: Broker, is_strict: bool) -> None:
    topic = new_topic(broker)
    publish(broker.bootstrap, topic, ["0", "1", "2", "3"])
    reader = GoQueueReader(options(broker, topic, failOnDataLoss=str(is_strict)), ["value"])
    tasks = reader.partitions()
    remove_records(broker.bootstrap, topic, before=3)

    if is_strict:
        with pytest.raises(DataLost, match="offsets 0 to 2 of partition 0"):
            read(reader, tasks)
    else:
        assert read(reader, tasks) == [b"3"]


@pytest.mark.parametrize("is_made_again", [True, False])
def test_a_topic_deleted_after_planning_is_never_taken_for_another(broker: Broker, is_made_again: bool) -> None:
    topic = new_topic(broker)
    publish(broker.bootstrap, topic, ["old"])
    strict = GoQueueReader(options(broker, topic), ["value"])
    lax = GoQueueReader(options(broker, topic, failOnDataLoss="false"), ["value"])
    tasks = strict.partitions()
    delete_topic(broker, topic)
    if is_made_again:
        new_topic(broker, name=topic)
        publish(broker.bootstrap, topic, ["new"])

    with pytest.raises(DataLost, match="was deleted"):
        read(strict, tasks)
    assert read(lax, tasks) == []


def test_small_fetches_and_cut_batches_give_the_same_rows(broker: Broker) -> None:
    topic = new_topic(broker)
    wanted = [f"{number:04}" * 50 for number in range(500)]
    publish(broker.bootstrap, topic, wanted, codec="zstd")
    small = {"kafka.max.partition.fetch.bytes": "1000", "maxRecordsPerPartition": "37"}
    reader = GoQueueReader(options(broker, topic, **small), ["value"])

    tasks = reader.partitions()

    assert len(tasks) == -(-500 // 37)
    assert [value.decode() for value in read(reader, tasks)] == wanted


def test_spark_may_run_a_task_without_a_slice(broker: Broker) -> None:
    reader = GoQueueReader(options(broker, new_topic(broker)), ["value"])

    assert reader.partitions() == []
    assert read(reader, [InputPartition(None)]) == []


def test_a_topic_is_seen_with_its_id_and_bounds(broker: Broker) -> None:
    topic = new_topic(broker, partitions=2)
    publish(broker.bootstrap, topic, ["0", "1", "2"], partition=1)
    remove_records(broker.bootstrap, topic, before=1, partition=1)
    wanted = options(broker, topic)

    with connect(wanted) as data, Client(broker.http) as client:
        seen = look(data, wanted)
        described = client.send(topics.describe(topic))

    assert str(seen[topic].id) == described.id
    assert seen[topic].partitions == {0: Bounds(0, 0), 1: Bounds(1, 3)}
