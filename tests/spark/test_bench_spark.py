"""`goqueue bench spark` does all of its work with a real Spark, checks it, and says so in one shape."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from goqueue_bench.broker_process import private_broker
from goqueue_bench.kafka.connection import private_topic
from goqueue_bench.measure import BenchmarkFailed
from goqueue_bench.spark.cases import discard, group, read_all, require_read
from goqueue_bench.spark.rows import PARTITIONS, Lab, Rows, committed_messages, fill, new_rows, write
from tests.cli.command import INSTALLED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DESCRIPTION = {"what", "value", "unit", "goal", "is_met"}
RATES = {"read", "parquet_read", "group_by", "keys", "parquet_keys", "stream_read", "write", "stream_write"}
OTHERS = {"read_against_parquet", "keys_against_parquet", "micro_batch_overhead", "worker_memory"}
WAIT_S = 600


@pytest.mark.long
def test_all_is_measured_and_stored_in_the_shape_of_other_benchmarks(tmp_path: Path) -> None:
    data, stored = tmp_path / "data", tmp_path / "spark.json"
    data.mkdir()
    command = [INSTALLED, "bench", "spark", "--quick", "--rows", "2000", "--json", "--codec", "lz4"]
    command += ["--data-dir", str(data), "--output", str(stored)]
    # A process of its own, since the benchmark starts and stops Spark.
    ended = subprocess.run(command, capture_output=True, timeout=WAIT_S, check=False, env=os.environ)
    assert ended.returncode == 0, ended.stderr.decode()
    document = json.loads(stored.read_text("utf-8"))
    assert document == json.loads(ended.stdout)
    assert (document["settings"]["rows"], document["settings"]["codec"]) == (2000, "lz4")
    results = document["results"]
    assert set(results) == RATES | OTHERS
    assert all(set(facts) > DESCRIPTION for facts in results.values())
    assert all(results[name]["value"] > 0 for name in RATES)
    assert {name: results[name]["rows"] for name in RATES} == {name: 500 if "write" in name else 2000 for name in RATES}
    assert results["micro_batch_overhead"]["batch_seconds"] > results["micro_batch_overhead"]["floor_seconds"] > 0
    assert results["worker_memory"]["small_peak_bytes"] > 2**20
    assert list(data.iterdir()) == []


def test_rows_that_are_missing_or_wrong_fail_the_benchmark(spark: SparkSession, tmp_path: Path) -> None:
    with private_broker(tmp_path) as broker, private_topic(broker, partitions=PARTITIONS, settings={}) as topic:
        lab = Lab(spark, broker, tmp_path, "none")
        rows = fill(lab, topic, 50)
        (first, *_) = rows.groups
        assert read_all(lab, rows, Rows.from_topic).rows == 50
        with pytest.raises(BenchmarkFailed, match="Spark reads 51 rows"):
            read_all(lab, Rows(51, topic, rows.parquet, rows.groups), Rows.from_parquet)
        with pytest.raises(BenchmarkFailed, match="groups"):
            group(lab, Rows(50, topic, rows.parquet, {**rows.groups, first: 7}), Rows.from_topic)
        write(lab, new_rows(spark, 5), topic)
        assert committed_messages(broker, topic) == 55
        with pytest.raises(BenchmarkFailed, match="Spark reads 50 rows"):
            read_all(lab, rows, Rows.from_topic)


def test_what_is_counted_is_the_last_query(spark: SparkSession) -> None:
    discard(new_rows(spark, 7))
    require_read(spark, 7)
    discard(new_rows(spark, 8))
    require_read(spark, 8)
