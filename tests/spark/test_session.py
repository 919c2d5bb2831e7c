"""The session as programs get it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
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


def test_program_whose_python_is_not_on_the_path_finds_the_data_source(tmp_path: Path) -> None:
    """Spark looks with `python3`, which is here one that has no packages."""
    (tmp_path / "python3").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "python3").chmod(0o755)
    program = (
        "import goqueue.spark\n"
        "from pyspark.sql import SparkSession\n"
        "spark = SparkSession.builder.master('local[1]').config('spark.ui.enabled', 'false').getOrCreate()\n"
        "reader = spark.read.format('goqueue').option('kafka.bootstrap.servers', '127.0.0.1:1')\n"
        "print(reader.option('topic', 'orders').load().columns[:2])\n"
    )
    chosen = {"PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"}
    environ = {name: text for name, text in os.environ.items() if name not in chosen}
    environ["PATH"] = f"{tmp_path}{os.pathsep}{environ['PATH']}"
    done = subprocess.run(
        [sys.executable, "-c", program], env=environ, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout.splitlines()[-1:] == ["['key', 'value']"], done.stderr
