"""Values become columns: in the source by an option, and on any rows by a function, with the same result."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from goqueue.errors import Invalid
from goqueue.spark.pipelines.run.query import RunState
from goqueue.spark.values.columns import decode_avro, decode_json, decode_protobuf
from goqueue.testing.broker import Broker
from tests.decode_values_kit import ORDER, avro, descriptor_set, message, message_class
from tests.spark.archive_kit import archive
from tests.spark.pipeline_run_kit import Pipelines
from tests.spark.read_kit import WAIT_S, new_topic, reading, remove_records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORD = {
    "id": 7,
    "name": None,
    "amount": Decimal("-12.50"),
    "state": "PAID",
    "placed_at": 1_700_000_000_123,
    "tags": {"x": [1, 2], "y": []},
    "before": "OPEN",
}
# Spark gives times of the session's zone, which is UTC here, without saying so.
PLACED_AT = datetime.fromtimestamp(1_700_000_000.123, UTC).replace(tzinfo=None)
DESCRIPTORS = descriptor_set(message("Other"), message("Order", ("id", "int64"), ("lines", "Line", "repeated")),
                             message("Line", ("sku", "string"), ("count", "uint64")))  # fmt: skip
JSON_SCHEMA = (
    "id BIGINT, name STRING, amount DECIMAL(6, 2), day DATE, at TIMESTAMP, tags ARRAY<STRING>, more MAP<STRING, DOUBLE>"
)
JSON_VALUES = [
    b'{"id": 1, "name": "a", "tags": ["x", null], "more": {"k": 1}}',
    b'{"name": 1.50, "amount": 1.005, "day": "2030-01-31", "at": "2030-01-31T08:00:00.5+01:00"}',
    b'{"name": {"a": [1, 2]}, "amount": "12", "at": 5, "more": {"nan": "NaN"}}',
    b'{"id": null, "unknown": [1], "id": 3}',
    None,
    b'{"id": "four"}',
    b'{"id": 1.0}',
    b'{"id": 9223372036854775808}',
    b'{"amount": 12345.6}',
    b'{"day": "yesterday"}',
    b'{"tags": "x"}',
    b"[5]",
    b"6",
    b'{"id": 7',
    b"eight",
    b"",
    b"  ",
    b'{"name": "\xff"}',
]


BEYOND_JSON = [b"{'id': 1}", b'{"id": 1} more', b'{"more": {"k": NaN}}']


def publish(broker: Broker, values: list[bytes | None]) -> str:
    topic = new_topic(broker)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(WAIT_S) == 0
    return topic


def rows_of(rows: DataFrame) -> list[tuple[object, object]]:
    return [(row.data, row.error) for row in rows.orderBy("offset").select("data", "error").collect()]


def test_avro_is_decoded_by_the_source_and_by_the_function(
    spark: SparkSession, goqueue_session_broker: Broker, tmp_path: Path
) -> None:
    good = avro(RECORD)
    topic = publish(goqueue_session_broker, [good, None, good[:-1], good + b"!"])
    schema = tmp_path / "order.avsc"
    schema.write_text(json.dumps(ORDER))
    options = {"decode": "avro", "decode.schemaFile": str(schema)}
    rows = reading(spark, goqueue_session_broker.bootstrap, topic).load()

    by_function = rows_of(decode_avro(rows, json.dumps(ORDER)))
    by_source = rows_of(reading(spark, goqueue_session_broker.bootstrap, topic, **options).load())

    assert by_function == by_source
    assert by_source[0][0] == (7, None, Decimal("-12.50"), "PAID", PLACED_AT,
                               {"x": [1, 2], "y": []}, "OPEN")  # fmt: skip
    assert by_source[1] == (None, None)
    assert [error for _, error in by_source[2:]] == [
        "the value is no Avro of shop.Order: field before: the value ends here",
        "the value is no Avro of shop.Order: 1 bytes are left over",
    ]


def test_a_stream_of_protobuf_with_confluents_prefix_is_decoded(
    spark: SparkSession, goqueue_session_broker: Broker, tmp_path: Path
) -> None:
    order = message_class(DESCRIPTORS, "shop.Order")(
        id=-1, lines=[{"sku": "a", "count": 2**64 - 1}]
    ).SerializeToString()
    topic = publish(goqueue_session_broker, [b"\0\0\0\0\x07\x02\x02" + order, b"\0\0\0\0\x07\0" + order, order])
    (tmp_path / "shop.desc").write_bytes(DESCRIPTORS)
    options = {"kafka.bootstrap.servers": goqueue_session_broker.bootstrap, "topic": topic, "decode": "protobuf",
               "decode.schemaFile": str(tmp_path / "shop.desc"), "decode.message": "shop.Order",
               "decode.prefix": "confluent", "startingOffsets": "earliest"}  # fmt: skip
    wanted = (
        "error STRING, data STRUCT<id: BIGINT, lines: ARRAY<STRUCT<sku: STRING, count: DECIMAL(20, 0)>>>, offset BIGINT"
    )

    rows = spark.readStream.format("goqueue").options(**options).schema(wanted).load()
    writer = rows.writeStream.format("memory").queryName("orders_in_protobuf")
    query = writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start()
    assert query.awaitTermination(WAIT_S)

    by_source = rows_of(spark.table("orders_in_protobuf"))
    stored = reading(spark, goqueue_session_broker.bootstrap, topic).load()
    assert by_source == rows_of(decode_protobuf(stored, DESCRIPTORS, "shop.Order", prefix="confluent"))
    assert by_source == [
        ((-1, [("a", Decimal(2**64 - 1))]), None),
        (None, "the value is no Protobuf of shop.Order: its prefix says that it is message [0] of its schema, not [1]"),
        (
            None,
            "the value is no Protobuf of shop.Order: it begins with byte 08, not with 00 as the prefix confluent does",
        ),
    ]


def test_json_is_decoded_by_the_source_as_by_the_function(spark: SparkSession, goqueue_session_broker: Broker) -> None:
    topic = publish(goqueue_session_broker, [*JSON_VALUES, *BEYOND_JSON])
    options = {"decode": "json", "decode.schema": JSON_SCHEMA}

    by_source = rows_of(reading(spark, goqueue_session_broker.bootstrap, topic, **options).load())
    by_function = rows_of(decode_json(reading(spark, goqueue_session_broker.bootstrap, topic).load(), JSON_SCHEMA))

    # Compared as text, since no number is NaN.
    assert list(map(str, by_source)) == list(map(str, by_function))
    assert [error is None for _, error in by_source] == [True] * 5 + [False] * 16


def test_rows_from_the_archive_are_decoded_as_those_from_the_log(
    spark: SparkSession, goqueue_session_broker: Broker, tmp_path: Path
) -> None:
    bootstrap = goqueue_session_broker.bootstrap
    topic = publish(goqueue_session_broker, JSON_VALUES)
    options = {"decode": "json", "decode.schema": JSON_SCHEMA}
    in_log = reading(spark, bootstrap, topic, **options).load().orderBy("offset").collect()
    archive(spark, goqueue_session_broker, topic, tmp_path / "archive")
    remove_records(bootstrap, topic, before=len(JSON_VALUES) - 1)

    # All columns, and as text, since no number is NaN.
    from_both = reading(spark, bootstrap, topic, **options).load().orderBy("offset").collect()
    assert list(map(str, from_both)) == list(map(str, in_log))
    assert [row.error is None for row in from_both] == [True] * 5 + [False] * 13
    chosen = {**options, "goqueue.archive": str(tmp_path / "archive")}
    bad = reading(spark, bootstrap, topic, **chosen).schema("error STRING, offset BIGINT").load()
    assert sorted(bad.collect(), key=lambda row: row.offset) == [(row.error, row.offset) for row in in_log]
    left = reading(spark, bootstrap, topic, **options, **{"goqueue.archive": "never"}).load()
    assert rows_of(left) == [(None, in_log[-1].error)]


PIPELINE = """\
pipeline: {name}
trigger: available_now
sources:
  orders:
    topic: {topic}
    decode: {{format: avro, schema_file: order.avsc, keep: [offset]}}
sinks:
  out: {{from: orders, parquet: out}}
"""


def test_a_pipeline_sends_what_is_no_avro_to_its_dead_letters(
    spark: SparkSession, goqueue_session_broker: Broker, tmp_path: Path
) -> None:
    good = avro(RECORD)
    topic = publish(goqueue_session_broker, [good, good[:-1], None])
    new_topic(goqueue_session_broker, name=f"{topic}.dlq")
    (tmp_path / "order.avsc").write_text(json.dumps(ORDER))
    pipelines = Pipelines(spark, tmp_path, goqueue_session_broker)

    status = pipelines.run(PIPELINE.format(name=topic, topic=topic))

    assert (status.state, status.failure) == (RunState.ENDED, None)
    assert status.queries[0].progress.bad_rows == {"orders.decode": 2}
    (row,) = spark.read.parquet(str(tmp_path / "out")).select("id", "state", "tags", "offset").collect()
    assert tuple(row) == (7, "PAID", {"x": [1, 2], "y": []}, 0)
    letters = reading(spark, goqueue_session_broker.bootstrap, f"{topic}.dlq", includeHeaders=True).load()
    found = {row.value: dict(row.headers)["goqueue-dlq-error"] for row in letters.select("value", "headers").collect()}
    assert found == {
        good[:-1]: b"the value is no Avro of shop.Order: field before: the value ends here",
        None: b"there is no value",
    }


def test_rows_are_decoded_once_even_if_they_are_chosen_by_their_error(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = spark.createDataFrame([(avro(RECORD),)], "value BINARY")
    decode_avro(rows, json.dumps(ORDER)).where("error IS NULL").select("data.id", "data.name").explain()
    assert capsys.readouterr().out.count("ArrowEvalPython") == 1


def test_schemas_are_checked_before_a_query_starts(spark: SparkSession, goqueue_session_broker: Broker) -> None:
    rows = spark.createDataFrame([(b"{}", "mine")], "value BINARY, error STRING")
    with pytest.raises(Invalid, match="the rows have a column error already"):
        decode_avro(rows, json.dumps(ORDER))
    with pytest.raises(Invalid, match="there is no prefix 'confluence'"):
        decode_avro(rows.drop("error"), json.dumps(ORDER), prefix="confluence")
    with pytest.raises(Invalid, match=r"no message 'shop.Ordr'.*did you mean shop.Order"):
        decode_protobuf(rows.drop("error"), DESCRIPTORS, "shop.Ordr")
    options = {"decode": "json", "decode.schema": "id BIGINT"}
    with pytest.raises(Exception, match=r"column data of a topic is not of type struct<id:int>"):
        reading(spark, goqueue_session_broker.bootstrap, "any", **options).schema("data STRUCT<id: INT>").load().count()
