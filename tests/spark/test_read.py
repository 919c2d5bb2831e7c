"""Batch reads of a real broker: rows are exactly what real clients wrote."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from pyspark.errors import PySparkException

from goqueue.seams.clock import SystemClock
from goqueue.testing.broker import Broker
from tests.spark.read_kit import (
    WAIT_S,
    new_topic,
    publish,
    publish_in_transaction,
    reading,
    remove_records,
    values,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOW_MS = SystemClock().now_ms()
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(scope="module")
def broker(goqueue_session_broker: Broker) -> Broker:
    return goqueue_session_broker


def test_rows_are_what_was_written_with_every_codec(spark: SparkSession, broker: Broker) -> None:
    topic = new_topic(broker, partitions=2)
    trace = "0af7651916cd43dd8448eb211c80319c"
    headers: list[tuple[str, str | bytes | None]] = [
        ("goqueue-priority", b"0"),
        ("traceparent", f"00-{trace}-b7ad6b7169203331-01".encode()),
        ("n", None),
    ]
    for number, codec in enumerate(CODECS):
        settings = {"bootstrap.servers": broker.bootstrap, "compression.type": codec, "log_level": 0}
        producer = Producer(settings)
        producer.produce(topic, codec * 50, codec, partition=0, timestamp=NOW_MS + number)
        producer.produce(topic, None, None, partition=1, timestamp=NOW_MS + number)
        producer.produce(topic, b"", b"", partition=1, timestamp=NOW_MS + number, headers=headers)
        assert producer.flush(WAIT_S) == 0

    rows = sorted(
        reading(spark, broker.bootstrap, topic, includeHeaders=True).load().collect(), key=lambda row: row[3:]
    )

    expected: list[tuple[object, ...]] = [
        (codec.encode(), (codec * 50).encode(), None, topic, 0, number, _time(number), 0, 2, None, None)
        for number, codec in enumerate(CODECS)
    ]
    for number in range(len(CODECS)):
        read_headers = [tuple(header) for header in headers]
        expected += [
            (None, None, None, topic, 1, 2 * number, _time(number), 0, 2, None, None),
            (b"", b"", read_headers, topic, 1, 2 * number + 1, _time(number), 0, 0, trace, None),
        ]
    found = [
        (
            *row[:2],
            row.headers and [tuple(header) for header in row.headers],
            *row[3:6],
            row[6].astimezone(UTC),
            *row[7:],
        )
        for row in rows
    ]
    assert found == expected


def test_only_committed_records_are_rows_unless_asked_for(spark: SparkSession, broker: Broker) -> None:
    topic = new_topic(broker)
    publish_in_transaction(broker.bootstrap, topic, ["given up"], is_commit=False)
    publish_in_transaction(broker.bootstrap, topic, ["kept"], is_commit=True)
    publish(broker.bootstrap, topic, ["plain"])

    everything = {"kafka.isolation.level": "read_uncommitted"}

    assert values(reading(spark, broker.bootstrap, topic).load()) == ["kept", "plain"]
    assert values(reading(spark, broker.bootstrap, topic, **everything).load()) == ["given up", "kept", "plain"]


def test_a_schema_of_the_reader_chooses_columns(spark: SparkSession, broker: Broker) -> None:
    topic = new_topic(broker)
    publish(broker.bootstrap, topic, ["a", "b"])

    rows = reading(spark, broker.bootstrap, topic).schema("value BINARY, offset BIGINT").load()

    assert rows.columns == ["value", "offset"]
    assert sorted(tuple(row) for row in rows.collect()) == [(b"a", 0), (b"b", 1)]


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ("offset BIGINT, colour STRING", "a topic has no column 'colour'"),
        ("offset INT", "column offset of a topic is not of type int"),
        ("offset BIGINT NOT NULL", "column offset cannot be NOT NULL"),
    ],
)
def test_a_schema_that_no_topic_has_is_refused(spark: SparkSession, broker: Broker, schema: str, text: str) -> None:
    with pytest.raises(PySparkException, match=text):
        reading(spark, broker.bootstrap, "whatever").schema(schema).load().collect()


def test_a_read_begins_and_ends_where_it_is_told_to(spark: SparkSession, broker: Broker) -> None:
    topic = new_topic(broker, partitions=2)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for number in range(6):
        producer.produce(topic, f"{number}", partition=number % 2, timestamp=NOW_MS + number)
    assert producer.flush(WAIT_S) == 0

    def read(**options: str) -> list[str]:
        return sorted(values(reading(spark, broker.bootstrap, topic, **options).load()))

    exact = {
        "startingOffsets": f'{{"{topic}": {{"0": 1, "1": -2}}}}',
        "endingOffsets": f'{{"{topic}": {{"0": -1, "1": 2}}}}',
    }
    assert read(**exact) == ["1", "2", "3", "4"]
    assert read(startingTimestamp=str(NOW_MS + 1), endingTimestamp=str(NOW_MS + 4)) == ["1", "2", "3"]
    by_time = f'{{"{topic}": {{"0": {NOW_MS + 4}, "1": {NOW_MS + 60_000}}}}}'
    assert read(startingOffsetsByTimestamp=by_time) == ["4"]
    with pytest.raises(PySparkException, match="no record has that time or a later one: partition 1"):
        read(startingOffsetsByTimestamp=by_time, startingOffsetsByTimestampStrategy="error")


def test_offsets_have_to_fit_to_the_topic(spark: SparkSession, broker: Broker) -> None:
    topic = new_topic(broker, partitions=2)

    with pytest.raises(PySparkException, match="startingOffsets: partition 1 of"):
        reading(spark, broker.bootstrap, topic, startingOffsets=f'{{"{topic}": {{"0": 0}}}}').load().collect()
    with pytest.raises(PySparkException, match=r"endingOffsets: partition 1 of .* offset 7 is outside of the log"):
        reading(spark, broker.bootstrap, topic, endingOffsets=f'{{"{topic}": {{"0": 0, "1": 7}}}}').load().collect()


def test_several_topics_a_pattern_or_some_partitions_can_be_read(spark: SparkSession, broker: Broker) -> None:
    name = new_topic(broker, name="several.a")
    other = new_topic(broker, partitions=2, name="several.b")
    publish(broker.bootstrap, name, ["a"])
    publish(broker.bootstrap, other, ["b0"])
    publish(broker.bootstrap, other, ["b1"], partition=1)

    assert values(reading(spark, broker.bootstrap, subscribe=f"{name},{other}").load()) == ["a", "b0", "b1"]
    assert values(reading(spark, broker.bootstrap, subscribePattern=r"several\..").load()) == ["a", "b0", "b1"]
    assert values(reading(spark, broker.bootstrap, assign='{"several.b": [1]}').load()) == ["b1"]


def test_more_slices_are_more_tasks_and_the_same_rows(spark: SparkSession, broker: Broker) -> None:
    topic = new_topic(broker, partitions=2)
    publish(broker.bootstrap, topic, [f"{number:02}" for number in range(20)], codec="lz4")

    rows = reading(spark, broker.bootstrap, topic, minPartitions=4).load()

    assert rows.rdd.getNumPartitions() == 4
    assert values(rows) == [f"{number:02}" for number in range(20)]


def test_an_empty_topic_has_no_rows(spark: SparkSession, broker: Broker) -> None:
    assert reading(spark, broker.bootstrap, new_topic(broker)).load().count() == 0


def test_a_topic_that_does_not_exist_is_named(spark: SparkSession, broker: Broker) -> None:
    with pytest.raises(PySparkException, match="there is no topic 'nowhere'"):
        reading(spark, broker.bootstrap, "nowhere").load().collect()


def test_a_broker_that_is_not_there_is_named(spark: SparkSession) -> None:
    patience = {"kafka.default.api.timeout.ms": "200"}
    with pytest.raises(PySparkException, match=r"no broker can be reached: .*127\.0\.0\.1:1"):
        reading(spark, "127.0.0.1:1", "orders", **patience).load().collect()


def test_records_that_are_gone_fail_the_read_unless_it_may_go_on(spark: SparkSession, broker: Broker) -> None:
    topic = new_topic(broker)
    publish(broker.bootstrap, topic, ["a", "b", "c"])
    remove_records(broker.bootstrap, topic, before=2)
    start = {"startingOffsets": f'{{"{topic}": {{"0": 0}}}}'}

    with pytest.raises(PySparkException, match=r"offsets 0 to 1 of partition 0 of .* were removed"):
        reading(spark, broker.bootstrap, topic, **start).load().collect()
    assert values(reading(spark, broker.bootstrap, topic, **start, failOnDataLoss=False).load()) == ["c"]


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(NOW_MS // 1000, UTC) + timedelta(milliseconds=NOW_MS % 1000 + milliseconds)
