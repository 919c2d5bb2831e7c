"""Streams over a real broker: every record once, whatever happens between two runs."""

from __future__ import annotations

import logging
import shutil
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from goqueue.client import Client, groups
from goqueue.testing.broker import Broker
from tests.protocols.kafka.process import ServeProcess
from tests.spark.read_kit import (
    WAIT_S,
    Stream,
    delete_topic,
    new_topic,
    publish,
    publish_in_transaction,
    remove_records,
    widen,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def broker(goqueue_session_broker: Broker) -> Broker:
    return goqueue_session_broker


@pytest.fixture(autouse=True)
def _quiet_callbacks() -> None:
    # A sink that fails on purpose is reported with its whole traceback by the bridge to Java.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)


def test_a_run_reads_what_is_there_in_batches_of_the_limit(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    topic = new_topic(broker, partitions=2)
    publish(broker.bootstrap, topic, [f"a{number:02}" for number in range(30)])
    publish(broker.bootstrap, topic, [f"b{number}" for number in range(6)], partition=1)
    stream = Stream(spark, tmp_path, broker.bootstrap, topic, maxOffsetsPerTrigger=12)

    query = stream.run()

    # The first batch writes down where the query begins.
    assert [len(batch) for batch in stream.batches.values()] == [0, 12, 12, 12]
    batches = list(stream.batches.values())[1:]
    assert all(batch[0].startswith("a") and batch[-1].startswith("b") for batch in batches)
    assert sorted(stream.values) == [f"a{number:02}" for number in range(30)] + [f"b{number}" for number in range(6)]
    progress = query.lastProgress
    assert progress is not None
    assert progress.sources[0].endOffset == progress.sources[0].latestOffset


def test_a_first_batch_that_fails_loses_nothing(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    topic = new_topic(broker)
    publish(broker.bootstrap, topic, ["0", "1", "2", "3", "4"])
    stream = Stream(spark, tmp_path, broker.bootstrap, topic)
    stream.fails_in_batch = 0
    with pytest.raises(PySparkException, match="the sink is broken"):
        stream.run()
    remove_records(broker.bootstrap, topic, before=3)
    stream.fails_in_batch = None

    # The beginning was written down: who asks for the earliest again gets another one.
    with pytest.raises(PySparkException, match="offsets 0 to 2 of partition 0 of"):
        stream.run()
    stream.run(failOnDataLoss=False)

    assert stream.values == ["3", "4"]


def test_a_query_that_begins_with_what_comes_next_begins_there_also_if_its_first_batch_fails(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    topic = new_topic(broker)
    publish(broker.bootstrap, topic, ["before"])
    stream = Stream(spark, tmp_path, broker.bootstrap, topic, startingOffsets="latest")
    for batch in (0, 1):
        stream.fails_in_batch = batch
        with pytest.raises(PySparkException, match="the sink is broken"):
            stream.run()
        publish(broker.bootstrap, topic, [f"after failure {batch}"])
    stream.fails_in_batch = None

    stream.run()

    assert stream.values == ["after failure 0", "after failure 1"]


def test_a_query_goes_on_exactly_where_it_was(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    topic = new_topic(broker)
    stream = Stream(spark, tmp_path, broker.bootstrap, topic, maxOffsetsPerTrigger=3)
    publish(broker.bootstrap, topic, ["0", "1", "2", "3", "4"])
    stream.fails_in_batch = 2
    with pytest.raises(PySparkException, match="the sink is broken"):
        stream.run()
    publish_in_transaction(broker.bootstrap, topic, ["never"], is_commit=False)
    publish(broker.bootstrap, topic, ["5", "6"])

    stream.fails_in_batch = None
    stream.run()

    # The batch that had failed has the rows that it had then, though more are there by now.
    assert stream.batches[2] == ["3", "4"]
    assert stream.values == ["0", "1", "2", "3", "4", "5", "6"]


def test_a_stream_with_an_end_ends_there_whatever_came_since(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    topic = new_topic(broker)
    publish(broker.bootstrap, topic, ["0", "1", "2", "3", "4"])
    checkpoint, copy = tmp_path / "checkpoint", tmp_path / "copy"
    stream = Stream(spark, checkpoint, broker.bootstrap, topic, maxOffsetsPerTrigger=3, endingOffsets="latest")
    stream.fails_in_batch = 2
    with pytest.raises(PySparkException, match="the sink is broken"):
        stream.run()
    publish(broker.bootstrap, topic, ["5", "6"])
    widen(broker, topic, 2)
    publish(broker.bootstrap, topic, ["new"], partition=1)

    stream.fails_in_batch = None
    stream.run()
    assert stream.values == ["0", "1", "2", "3", "4"]

    # Who leaves the end out goes on behind it.
    shutil.copytree(checkpoint, copy)
    endless = Stream(spark, copy, broker.bootstrap, topic)
    endless.run()
    assert endless.values == ["5", "6", "new"]

    # It has read all that it was to read: what becomes of the topic is not its business any more.
    delete_topic(broker, topic)
    stream.run()
    assert stream.values == ["0", "1", "2", "3", "4"]


def test_new_partitions_are_read_from_their_start(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    topic = new_topic(broker)
    stream = Stream(spark, tmp_path, broker.bootstrap, topic, startingOffsets="latest")
    publish(broker.bootstrap, topic, ["before"])
    stream.run()
    widen(broker, topic, 2)
    publish(broker.bootstrap, topic, ["first", "second"], partition=1)
    publish(broker.bootstrap, topic, ["after"])

    stream.run()

    assert sorted(stream.values) == ["after", "first", "second"]


def test_records_removed_before_they_were_read_end_the_query_or_are_skipped(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    topic = new_topic(broker)
    stream = Stream(spark, tmp_path, broker.bootstrap, topic)
    publish(broker.bootstrap, topic, ["0"])
    stream.run()
    publish(broker.bootstrap, topic, ["1", "2", "3"])
    remove_records(broker.bootstrap, topic, before=3)

    with pytest.raises(PySparkException, match=r"offsets 1 to 2 of partition 0 of .*failOnDataLoss=false"):
        stream.run()
    stream.run(failOnDataLoss=False)

    assert stream.values == ["0", "3"]


def test_a_topic_made_again_ends_the_query_or_is_read_from_its_start(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    topic = new_topic(broker)
    stream = Stream(spark, tmp_path, broker.bootstrap, topic)
    publish(broker.bootstrap, topic, ["old 0", "old 1"])
    stream.run()
    delete_topic(broker, topic)

    with pytest.raises(PySparkException, match=f"topic '{topic}' was deleted, or is not subscribed any more"):
        stream.run()
    new_topic(broker, name=topic)
    publish(broker.bootstrap, topic, ["new 0", "new 1", "new 2"])
    with pytest.raises(PySparkException, match=f"topic '{topic}' was deleted and made again"):
        stream.run()
    stream.run(failOnDataLoss=False)

    assert stream.values == ["old 0", "old 1", "new 0", "new 1", "new 2"]


def test_a_checkpoint_of_another_query_is_recognised(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "lines").mkdir()
    (tmp_path / "lines" / "one.txt").write_text("line")
    writer = spark.readStream.text(str(tmp_path / "lines")).writeStream.format("noop").trigger(availableNow=True)
    writer.option("checkpointLocation", str(tmp_path / "text")).start().awaitTermination(WAIT_S)
    other, topic = new_topic(broker), new_topic(broker)
    publish(broker.bootstrap, other, ["0"])
    Stream(spark, tmp_path / "other", broker.bootstrap, other).run()

    with pytest.raises(PySparkException, match="the checkpoint belongs to a query over another source"):
        Stream(spark, tmp_path / "text", broker.bootstrap, topic).run()
    with pytest.raises(PySparkException, match=f"topic '{other}' was deleted, or is not subscribed any more"):
        Stream(spark, tmp_path / "other", broker.bootstrap, topic).run()


def test_a_stream_waits_for_enough_records_but_not_for_ever(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    topic = new_topic(broker)
    stream = Stream(spark, tmp_path, broker.bootstrap, topic, minOffsetsPerTrigger=3)
    publish(broker.bootstrap, topic, ["0", "1"])

    def read(delay: str, count: int = 0) -> list[str]:
        query = stream.start(maxTriggerDelay=delay)
        try:
            query.processAllAvailable()
            # The delay counts from the start of the query, which may have looked before that is over.
            deadline = time.monotonic() + WAIT_S
            while len(stream.values) < count and time.monotonic() < deadline:
                query.processAllAvailable()
        finally:
            query.stop()
        return stream.values

    assert read("1h") == []
    assert read("1ms", count=2) == ["0", "1"]
    publish(broker.bootstrap, topic, ["2", "3", "4"])
    assert read("1h") == ["0", "1", "2", "3", "4"]


def test_the_broker_sees_how_far_a_query_is(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    topic = new_topic(broker)
    options = {"groupId": f"{topic}-reports", "goqueue.http.url": broker.http}
    publish(broker.bootstrap, topic, ["0", "1", "2"])

    Stream(spark, tmp_path, broker.bootstrap, topic, **options).run()

    publish(broker.bootstrap, topic, ["3"])
    with Client(broker.http) as client:
        (offset,) = client.send(groups.offsets(f"{topic}-reports")).offsets
    assert (offset.offset, offset.lag) == (3, 1)


def test_progress_that_nobody_hears_does_not_fail_the_query(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    topic = new_topic(broker)
    publish(broker.bootstrap, topic, ["0"])
    stream = Stream(
        spark, tmp_path, broker.bootstrap, topic, **{"groupId": "unheard", "goqueue.http.url": "http://127.0.0.1:1"}
    )

    stream.run()

    assert stream.values == ["0"]


def test_a_broker_that_is_killed_and_comes_back_is_waited_for(spark: SparkSession, tmp_path: Path) -> None:
    with ServeProcess(tmp_path / "broker") as process:
        publish(process.bootstrap, "orders", ["0", "1"])
        stream = Stream(spark, tmp_path / "checkpoint", process.bootstrap, "orders")
        query = stream.start()
        try:
            query.processAllAvailable()
            process.kill()
            process.start()
            publish(process.bootstrap, "orders", ["2", "3"])
            query.processAllAvailable()
            assert query.exception() is None
        finally:
            query.stop()

    assert stream.values == ["0", "1", "2", "3"]
    assert all(sorted(batch) == batch for batch in stream.batches.values())
    assert all(left < right for left, right in pairwise(stream.values))


def test_options_of_a_stream_are_checked_when_it_starts(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path, "127.0.0.1:1", "orders", endingOffsets="earliest")
    with pytest.raises(PySparkException, match="endingOffsets is earliest, before which there is nothing"):
        stream.run()


def test_a_stream_over_a_topic_that_does_not_exist_says_so(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match="there is no topic 'nowhere'"):
        Stream(spark, tmp_path, broker.bootstrap, "nowhere").start().awaitTermination(WAIT_S)
