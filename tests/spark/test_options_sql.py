"""Options on the ways that Spark has for them, and what Spark expects of a data source and does not say."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.datasource import DataSourceReader

from goqueue.errors import Invalid
from goqueue.spark.source.columns import SCHEMA
from goqueue.testing.broker import Broker
from pyspark_goqueue import DefaultSource
from tests.spark.read_kit import new_topic, publish, reading

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def broker(goqueue_session_broker: Broker) -> Broker:
    return goqueue_session_broker


def test_a_view_of_sql_takes_options(spark: SparkSession, broker: Broker) -> None:
    topic = new_topic(broker)
    publish(broker.bootstrap, topic, ["a", "b"])

    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW letters USING goqueue OPTIONS "
        f"(`kafka.bootstrap.servers` '{broker.bootstrap}', subscribe '{topic}')"
    )
    try:
        (row,) = spark.sql("SELECT max(CAST(value AS STRING)) AS last FROM letters WHERE offset >= 0").collect()
        assert row.last == "b"
    finally:
        spark.catalog.dropTempView("letters")


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ("", "write CREATE TEMPORARY VIEW ... USING goqueue OPTIONS"),
        ("(offset BIGINT)", "kafka.bootstrap.servers is missing"),
    ],
)
def test_a_table_fails_loudly_since_spark_forgets_its_options(
    spark: SparkSession, broker: Broker, columns: str, text: str
) -> None:
    options = f"(`kafka.bootstrap.servers` '{broker.bootstrap}', topic 'a')"

    def create_and_read() -> None:
        spark.sql(f"CREATE TABLE forgetful {columns} USING goqueue OPTIONS {options}")
        spark.sql("SELECT * FROM forgetful").collect()

    try:
        with pytest.raises(PySparkException, match=re.escape(text)):
            create_and_read()
    finally:
        spark.sql("DROP TABLE IF EXISTS forgetful")


def test_all_mistakes_are_told_when_the_read_is_loaded(spark: SparkSession) -> None:
    with pytest.raises(PySparkException) as caught:
        spark.read.format("goqueue").option("topik", "orders").option("minPartitions", "few").load()

    told = str(caught.value)
    for mistake in ("bootstrap.servers is missing", "assign is missing", "minPartitions: 'few'", "did you mean topic"):
        assert mistake in told
    assert "Traceback" not in told
    assert "File " not in told


def test_options_of_streams_are_refused_in_a_batch_read(spark: SparkSession, broker: Broker) -> None:
    with pytest.raises(PySparkException, match="maxOffsetsPerTrigger belongs to streams"):
        reading(spark, broker.bootstrap, "orders", maxOffsetsPerTrigger=5).load().collect()


def test_sparks_schema_is_that_of_the_rows() -> None:
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    needed = {"kafka.bootstrap.servers": "127.0.0.1:9092", "topic": "orders"}
    with_headers = StructType.fromDDL(str(DefaultSource({**needed, "includeHeaders": "true"}).schema()))
    without = StructType.fromDDL(str(DefaultSource(needed).schema()))

    assert isinstance(with_headers, StructType)
    assert isinstance(without, StructType)
    assert to_arrow_schema(with_headers, timezone="UTC") == SCHEMA
    assert without.fieldNames() == [name for name in SCHEMA.names if name != "headers"]


def test_a_schema_without_columns_is_refused() -> None:
    from pyspark.sql.types import StructType

    source = DefaultSource({"kafka.bootstrap.servers": "127.0.0.1:9092", "topic": "orders"})
    for make in (source.reader, source.streamReader):
        with pytest.raises(Invalid, match="the schema has no column"):
            make(StructType([]))


def test_spark_names_the_parameter_of_readers() -> None:
    for make in (DefaultSource.reader, DefaultSource.streamReader):
        assert list(inspect.signature(make).parameters) == ["self", "schema"]


def test_no_reader_defines_filters_since_spark_would_refuse_all_reads_then() -> None:
    from goqueue.spark.source.reader import GoQueueReader

    assert GoQueueReader.pushFilters is DataSourceReader.pushFilters


def test_what_spark_imports_to_find_the_source_is_light() -> None:
    import subprocess
    import sys

    program = "import pyspark_goqueue, sys; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()

    assert "pyspark_goqueue" in loaded
    assert not {"httpx", "goqueue.client", "goqueue.spark.source.reader"}.intersection(loaded)
    assert not [name for name in loaded if re.match(r"(rich|httptools|uvloop)\b", name)]
