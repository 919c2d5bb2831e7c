"""JSON values become columns, and bad ones say what is wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from goqueue.errors import Invalid
from goqueue.spark.values.columns import decode_json
from goqueue.testing.broker import Broker
from tests.spark.read_kit import WAIT_S, new_topic, publish

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = "id BIGINT, name STRING, tags ARRAY<STRING>"
FITS = "the value does not fit struct<id:bigint,name:string,tags:array<string>>: "


def test_each_value_is_data_or_an_error(spark: SparkSession) -> None:
    cases: list[tuple[bytes | None, tuple[object, ...] | None, str | None]] = [
        (b'{"id": 1, "name": "a", "tags": ["x"]}', (1, "a", ["x"]), None),
        (b'{"id": 2}', (2, None, None), None),
        (b'{"id": 3, "more": true}', (3, None, None), None),
        (b"{}", (None, None, None), None),
        (None, None, None),
        (b'{"id": "four"}', None, FITS + '{"id": "four"}'),
        (b"[5]", None, FITS + "[5]"),
        (b"6", None, FITS + "6"),
        (b'{"id": 7', None, 'the value is not JSON: {"id": 7'),
        (b"eight", None, "the value is not JSON: eight"),
        (b'{"id": 9}{"id": 10}', None, 'the value is not JSON: {"id": 9}{"id": 10}'),
        (b'{"id": 9}, {"id": 10}', None, 'the value is not JSON: {"id": 9}, {"id": 10}'),
        (b'{"id": 11} more', None, 'the value is not JSON: {"id": 11} more'),
        (b"{'id': 12}", None, "the value is not JSON: {'id': 12}"),
        (b' {"id": 13}\n ', (13, None, None), None),
        (b"", None, "the value is empty"),
        (b'{"name": "\xff"}', None, "the value is not UTF-8"),
    ]
    rows = spark.createDataFrame([(case[0],) for case in cases], "value BINARY").coalesce(1)

    found = decode_json(rows, SCHEMA).collect()

    assert [(row.value, row.data and tuple(row.data), row.error) for row in found] == cases


def test_a_stream_is_decoded_as_well(spark: SparkSession, goqueue_session_broker: Broker, tmp_path: Path) -> None:
    topic = new_topic(goqueue_session_broker)
    publish(goqueue_session_broker.bootstrap, topic, ['{"id": 1}', "bad"])
    options = {"kafka.bootstrap.servers": goqueue_session_broker.bootstrap, "topic": topic}
    rows = spark.readStream.format("goqueue").options(**options, startingOffsets="earliest").load()

    writer = decode_json(rows, "id INT").select("offset", "data.id", "error").writeStream.format("memory")
    query = writer.queryName("decoded").option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    assert query.awaitTermination(WAIT_S)

    found = sorted(tuple(row) for row in spark.table("decoded").collect())
    assert found == [(0, 1, None), (1, None, "the value is not JSON: bad")]


def test_columns_that_are_there_already_are_not_overwritten(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(b"{}", "mine")], "value BINARY, error STRING")
    with pytest.raises(Invalid, match="the rows have a column error already"):
        decode_json(rows, SCHEMA)
