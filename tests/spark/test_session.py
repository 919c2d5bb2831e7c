"""The session as programs get it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_workers_run_with_the_python_and_the_packages_of_this_process(spark: SparkSession) -> None:
    def tell(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow

        import goqueue

        for _ in batches:
            told = {"python": [sys.executable], "goqueue": [goqueue.__version__]}
            yield pyarrow.RecordBatch.from_pydict(told)

    (row,) = spark.range(1, numPartitions=1).mapInArrow(tell, "python string, goqueue string").collect()
    import goqueue

    assert row.asDict() == {"python": sys.executable, "goqueue": goqueue.__version__}


def test_times_are_in_utc(spark: SparkSession) -> None:
    (row,) = spark.sql("SELECT date_format(timestamp_seconds(0), 'yyyy-MM-dd HH:mm') AS text").collect()
    assert row.text == "1970-01-01 00:00"


def test_nothing_of_it_can_be_reached_from_other_machines(spark: SparkSession) -> None:
    assert spark.conf.get("spark.driver.host") == "127.0.0.1"
    assert spark.sparkContext.uiWebUrl is None
    assert os.environ["SPARK_LOCAL_IP"] == "127.0.0.1"


def test_few_rows_are_not_spread_over_hundreds_of_tasks(spark: SparkSession) -> None:
    assert int(str(spark.conf.get("spark.sql.shuffle.partitions"))) <= max(4, os.cpu_count() or 1)
