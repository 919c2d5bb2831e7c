"""Writing to topics from Spark: what becomes of rows, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import TaskContext
from typing_extensions import override

from goqueue.model.partitioners import murmur2_partition
from goqueue.spark.sink.writers import BATCH_ID, QUERY_ID, GoQueueStreamWriter
from goqueue.testing.broker import Broker
from tests.spark.sink_kit import (
    committed,
    create_topic,
    open_transactions,
    register,
    require_once,
    run_query,
    write_input,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_numbers = count()


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def topic(broker: Broker) -> str:
    name = f"written-{next(_numbers)}"
    # Messages of 1970 are older than any topic keeps them by default.
    create_topic(broker.bootstrap, name, retention_ms="-1")
    return name


def save(frame: DataFrame, broker: Broker, **options: str) -> None:
    """Write rows as a batch."""
    writer = frame.write.format("goqueue").option("kafka.bootstrap.servers", broker.bootstrap)
    writer.options(**options).mode("append").save()


def test_every_column_becomes_a_part_of_its_message(spark: SparkSession, broker: Broker, topic: str) -> None:
    frame = spark.sql(
        """SELECT * FROM VALUES
        ('a', 'with all', array(struct('h' AS key, X'01' AS value)), 2, timestamp_millis(1234), 4),
        ('b', 'by its key', CAST(NULL AS array<struct<key: string, value: binary>>), NULL, timestamp_millis(5), NULL),
        (NULL, NULL, NULL, 1, timestamp_millis(6), 0) AS t(key, value, headers, partition, timestamp, priority)"""
    )
    save(frame, broker, topic=topic)
    by_value = {row.value: row for row in committed(broker.bootstrap, topic)}
    full = by_value[b"with all"]
    assert (full.partition, full.key, full.timestamp_ms) == (2, b"a", 1234)
    assert full.headers == (("h", b"\x01"), ("goqueue-priority", b"4"))
    assert by_value[b"by its key"].partition == murmur2_partition(b"b", 3)
    assert by_value[b"by its key"].headers == ()
    assert by_value[None].partition == 1
    assert by_value[None].headers == (("goqueue-priority", b"0"),)
    assert len(by_value) == 3


def test_rows_go_to_the_topics_that_they_name_unless_an_option_names_one(
    spark: SparkSession, broker: Broker, topic: str
) -> None:
    other = f"{topic}-other"
    create_topic(broker.bootstrap, other, partitions=1)
    frame = spark.sql(f"SELECT * FROM VALUES ('{topic}', 'here'), ('{other}', 'there') AS t(topic, value)")
    save(frame, broker)
    assert [row.value for row in committed(broker.bootstrap, topic)] == [b"here"]
    save(frame, broker, topic=other)
    assert sorted(row.value or b"" for row in committed(broker.bootstrap, other)) == [b"here", b"there", b"there"]


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_what_is_written_compressed_is_read_as_it_was(
    spark: SparkSession, broker: Broker, topic: str, codec: str
) -> None:
    frame = spark.range(5_000, numPartitions=2).selectExpr("CAST(id AS STRING) AS value")
    save(frame, broker, topic=topic, **{"kafka.compression.type": codec})
    values = {int(row.value or b"") for row in committed(broker.bootstrap, topic)}
    assert values == set(range(5_000))


def test_a_query_goes_on_where_its_checkpoint_ends(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    lines: list[str] = []
    options = {"kafka.bootstrap.servers": broker.bootstrap, "topic": topic}
    for files in (range(3), range(3, 6)):
        lines += write_input(tmp_path, files, 500)
        run_query(spark, tmp_path, options).awaitTermination()
        require_once(broker.bootstrap, topic, lines)
    assert open_transactions(broker.bootstrap) == []


def test_without_its_checkpoint_a_query_begins_anew_and_that_is_visible(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    lines = write_input(tmp_path, range(1), 100)
    options = {"kafka.bootstrap.servers": broker.bootstrap, "topic": topic}
    run_query(spark, tmp_path, options).awaitTermination()
    (tmp_path / "checkpoint").rename(tmp_path / "lost")
    run_query(spark, tmp_path, options).awaitTermination()
    values = [(row.value or b"").decode() for row in committed(broker.bootstrap, topic)]
    assert sorted(values) == sorted(lines * 2)


def test_a_checkpoint_older_than_what_is_committed_is_refused(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    lines = write_input(tmp_path, range(3), 10)
    checkpoint = tmp_path / "checkpoint"
    options = {"kafka.bootstrap.servers": broker.bootstrap, "topic": topic}
    run_query(spark, tmp_path, options, files_per_batch=1).awaitTermination()
    # What somebody may have copied while batch 0 was under way.
    for directory, batches in (("offsets", "12"), ("commits", "012")):
        for batch in batches:
            (checkpoint / directory / batch).unlink()
            (checkpoint / directory / f".{batch}.crc").unlink(missing_ok=True)
    with pytest.raises(Exception, match=r"CheckpointOutdated.*batch 0 of .* batch 2 was committed before"):
        run_query(spark, tmp_path, options, files_per_batch=1).awaitTermination()
    require_once(broker.bootstrap, topic, lines)
    assert open_transactions(broker.bootstrap) == []


def test_spark_tells_tasks_their_query_and_batch(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    write_input(tmp_path, range(2), 10)
    notes = tmp_path / "notes"
    notes.mkdir()

    class Noting(GoQueueStreamWriter):
        @override
        def write(self, iterator: Iterator[Any]) -> Any:
            context = TaskContext.get()
            assert context is not None
            told = f"{context.getLocalProperty(QUERY_ID)} {context.getLocalProperty(BATCH_ID)}"
            (notes / f"task {told}").touch()
            return super().write(iterator)

        @override
        def commit(self, messages: Any, batchId: int) -> None:
            (notes / f"commit {messages[0].sink} {batchId}").touch()
            super().commit(messages, batchId)

    source = register(spark, "goqueue-noting", Noting)
    options = {"kafka.bootstrap.servers": broker.bootstrap, "topic": topic}
    query = run_query(spark, tmp_path, options, source, files_per_batch=1)
    query.awaitTermination()
    wanted = {f"{who} {query.id} {batch}" for who in ("task", "commit") for batch in (0, 1)}
    assert {note.name for note in notes.iterdir()} == wanted


def test_all_mistakes_are_told_at_once_and_nothing_is_written(spark: SparkSession, broker: Broker, topic: str) -> None:
    frame = spark.sql("SELECT 'a' AS valeu, 5 AS key, '5s' AS delay, 7L AS offset, 1 AS color")
    options = {"kafka.compression.type": "best", "transaction.timeout": "1h", "tpoic": topic}
    with pytest.raises(Exception, match="no topic is set") as caught:
        frame.write.format("goqueue").options(**options).mode("overwrite").save()
    told = str(caught.value)
    for mistake in (
        "kafka.bootstrap.servers is missing",
        "kafka.compression.type: 'best' is none of none, gzip, snappy, lz4, zstd",
        "transaction.timeout: '1h' is not allowed (write up to 15m)",
        "tpoic is no option of a write: did you mean topic?",
        "a topic cannot be overwritten",
        "column valeu is no column of a message: did you mean value?",
        "column key is of type int, not binary or string: cast it",
        "column delay cannot be written: this broker has no schedules",
        "column offset cannot be written: the broker gives offsets; drop it",
        "column color is no column of a message: there are value, key",
        "column value is missing",
        "no topic is set",
    ):
        assert mistake in told
    assert committed(broker.bootstrap, topic) == []


# 2.5 MB in digits of which each has four bits: compressed, it is a little more than half.
NOISE = "array_join(transform(sequence(1, 20000), i -> sha2(string(i), 512)), '')"


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("SELECT 'a' AS value, 'no-such-topic' AS topic", "there is no topic 'no-such-topic'.*create it first"),
        ("SELECT 'a' AS value, '{topic}' AS topic, 7 AS partition", "has no partition 7, it has 3"),
        ("SELECT 'a' AS value, CAST(NULL AS STRING) AS topic", "a row has no topic"),
        ("SELECT 'a' AS value, '{topic}' AS topic, 5 AS priority", "5 is no priority"),
        (
            f"SELECT {NOISE} AS value, '{{topic}}' AS topic",
            r"also if it is compressed, and 1048576 are allowed .*kafka\.max\.request\.size",
        ),
    ],
)
def test_a_row_that_cannot_be_written_fails_the_write_and_leaves_nothing(
    spark: SparkSession, broker: Broker, topic: str, query: str, told: str
) -> None:
    good = spark.sql(f"SELECT 'good' AS value, '{topic}' AS topic")
    frame = spark.sql(query.format(topic=topic)).unionByName(good, allowMissingColumns=True)
    with pytest.raises(Exception, match=told):
        save(frame.coalesce(1), broker)
    assert committed(broker.bootstrap, topic) == []
    assert open_transactions(broker.bootstrap) == []


def test_what_the_topic_refuses_is_told_with_the_reason_of_the_broker(spark: SparkSession, broker: Broker) -> None:
    create_topic(broker.bootstrap, "narrow", max_message_bytes="2000")
    frame = spark.range(1000, numPartitions=1).selectExpr("repeat('a', 100) AS value")
    told = r"partition . of 'narrow': a batch has .* the limit is 2000.*kafka.max.request.size"
    with pytest.raises(Exception, match=told):
        save(frame, broker, topic="narrow", **{"kafka.max.request.size": "1000000"})
    assert committed(broker.bootstrap, "narrow") == []
    # Without the option, batches are as the topic takes them.
    save(frame, broker, topic="narrow")
    assert len(committed(broker.bootstrap, "narrow")) == 1000
