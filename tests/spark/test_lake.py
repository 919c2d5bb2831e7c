"""Files and Delta tables that pipelines write, as other readers than Spark see them, with everything killed in turn.

What kills the Java of executors is in `test_cluster`.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import duckdb
import pandas as pd
import polars as pl
import pytest
from deltalake import DeltaTable
from pyarrow import dataset

from goqueue.seams.entropy import SystemEntropy
from goqueue.spark.pipelines.run.query import RunState
from goqueue.spark.pipelines.spec.model import DeltaSink
from goqueue.spark.pipelines.write import attempts
from goqueue.spark.pipelines.write import delta as run_delta
from goqueue.spark.pipelines.write.commits import FileCommits
from goqueue.spark.pipelines.write.file_systems import Files, HadoopFiles
from tests.protocols.kafka.process import WAIT_S, ServeProcess
from tests.spark.pipeline_run_kit import Pipelines
from tests.spark.read_kit import publish
from tests.spark.sink_kit import create_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MESSAGES = 900
DRIVE_S = 300
COUNTRIES = ["AT", "a/b %", "CH"]
PIPELINE = """\
pipeline: lake
trigger: available_now
spark: {{spark.sql.execution.arrow.maxRecordsPerBatch: 50}}
sources:
  orders:
    topic: orders
    max_rows_per_batch: 300
    decode: {{format: json, schema: "id STRING, country STRING, at TIMESTAMP"}}
{steps}
sinks:
  lake: {{from: {passed}, parquet: lake, partition_by: [country]}}
  flat: {{from: {passed}, json: flat}}
  table: {{from: {passed}, delta: table, partition_by: [country]}}
"""
CALM = PIPELINE.format(steps="", passed="orders")
DOOMED = PIPELINE.format(steps='steps:\n  passed: {from: orders, python: "doomed.py:kill"}', passed="passed")
KILLER = """\
import os, signal
from contextlib import suppress
from pathlib import Path

def kill(rows):
    def run(batches):
        for number, batch in enumerate(batches):
            yield batch
            for doomed in Path({directory!r}).iterdir() if number == 1 else ():
                with suppress(FileNotFoundError):
                    doomed.unlink()
                    os.kill(int(doomed.name) or os.getpid(), signal.SIGKILL)
    return rows.mapInArrow(run, rows.schema)
"""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ServeProcess]:
    with ServeProcess(tmp_path / "data") as running:
        create_topic(running.bootstrap, "orders", partitions=1)
        publish(running.bootstrap, "orders", [order(number) for number in range(MESSAGES)])
        yield running


@pytest.fixture
def pipelines(spark: SparkSession, tmp_path: Path, broker: ServeProcess) -> Pipelines:
    address: Any = SimpleNamespace(bootstrap=broker.bootstrap, http=None)
    return Pipelines(spark, tmp_path, address)


def order(number: int) -> str:
    return json.dumps({"id": f"o{number}", "country": COUNTRIES[number % 3], "at": "2030-01-01T00:00:00Z"})


def of_duckdb(path: Path) -> list[str]:
    return [row[0] for row in duckdb.connect().sql(f"SELECT id FROM '{path}/**/*.parquet'").fetchall()]


READERS: dict[str, Callable[[Path], list[str]]] = {
    "pandas": lambda path: list(pd.read_parquet(path)["id"]),
    "pyarrow": lambda path: dataset.dataset(path, partitioning="hive").to_table()["id"].to_pylist(),
    "duckdb": of_duckdb,
    "polars": lambda path: pl.scan_parquet(path).collect()["id"].to_list(),
    "polars, by a pattern": lambda path: pl.scan_parquet(f"{path}/**/*.parquet").collect()["id"].to_list(),
}
READERS_OF_JSON: dict[str, Callable[[Path], list[str]]] = {
    "pyarrow": lambda path: dataset.dataset(path, format="json").to_table()["id"].to_pylist(),
    "duckdb": lambda path: [row[0] for row in duckdb.connect().sql(f"SELECT id FROM '{path}/**/*.json'").fetchall()],
    "polars": lambda path: pl.scan_ndjson(path).collect()["id"].to_list(),
}
READERS_OF_DELTA: dict[str, Callable[[Path], list[str]]] = {
    "deltalake": lambda path: list(DeltaTable(path).to_pandas()["id"]),
    "pyarrow": lambda path: DeltaTable(path).to_pyarrow_dataset().to_table()["id"].to_pylist(),
    "polars": lambda path: pl.scan_delta(str(path)).collect()["id"].to_list(),
}


def require_once(directory: Path, *, messages: int = MESSAGES) -> None:
    """Check that every reader finds each order once, and that readers find nothing but files with rows."""
    wanted = Counter(f"o{number}" for number in range(messages))
    for path, readers in (("lake", READERS), ("flat", READERS_OF_JSON), ("table", READERS_OF_DELTA)):
        for name, read in readers.items():
            assert Counter(read(directory / path)) == wanted, f"{name} of {path}"
    for path in ("lake", "flat"):
        files = [file for file in (directory / path).rglob("*") if file.is_file()]
        assert {file.suffix for file in files} == {".parquet" if path == "lake" else ".json"}
        assert all(file.stat().st_size for file in files)
    assert len(list((directory / "lake").rglob("*.parquet"))) == len(dataset.dataset(directory / "lake").files)
    assert DeltaTable(directory / "table").count() == messages


@contextmanager
def watched(directory: Path) -> Iterator[None]:
    """Look at the files again and again meanwhile, as a stranger does: no row may be there twice, no file be cut."""
    found: list[str] = []
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(0.05):
            if list((directory / "lake").rglob("*.parquet")):
                ids = Counter(of_duckdb(directory / "lake"))
                found.extend(name for name, times in ids.items() if times > 1)

    errors: list[BaseException] = []

    def run() -> None:
        try:
            watch()
        except BaseException as error:
            errors.append(error)
            raise

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
    assert (found, errors) == ([], [])


def test_every_reader_finds_each_row_once_after_kills_of_workers_and_broker(
    pipelines: Pipelines, broker: ServeProcess, tmp_path: Path
) -> None:
    doomed = tmp_path / "doomed"
    doomed.mkdir()
    (tmp_path / "doomed.py").write_text(KILLER.format(directory=str(doomed)))
    # 0 is the Python of a task.
    (doomed / "0").touch()
    (doomed / str(broker.process.pid)).touch()

    def revive() -> None:
        with suppress(subprocess.TimeoutExpired):
            broker.process.wait(WAIT_S)
        broker.kill()
        broker.start()

    reviving = threading.Thread(target=revive)
    reviving.start()
    with watched(tmp_path):
        status = pipelines.run(DOOMED, failures_max=20)
    reviving.join()
    assert status.state is RunState.ENDED, pipelines.failures
    assert list(doomed.iterdir()) == []
    assert pipelines.failures
    require_once(tmp_path)
    # Nothing new, nothing changes.
    before = sorted(tmp_path.glob("lake/**/*"))
    assert pipelines.run(DOOMED).state is RunState.ENDED
    assert sorted(tmp_path.glob("lake/**/*")) == before


@pytest.mark.parametrize("fault", ["between-renames", pytest.param("before-delta", marks=pytest.mark.long)])
def test_every_reader_finds_each_row_once_after_a_kill_of_the_driver(
    pipelines: Pipelines, broker: ServeProcess, tmp_path: Path, fault: str
) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(CALM)
    command = [sys.executable, "-m", "tests.spark.lake_driver", broker.bootstrap, str(file), fault]
    with (tmp_path / "driver.err").open("ab") as errors:
        driver = subprocess.Popen(command, stdout=errors, stderr=errors, start_new_session=True)
    status = driver.wait(DRIVE_S)
    with suppress(ProcessLookupError):
        os.killpg(driver.pid, signal.SIGKILL)
    assert status == -signal.SIGKILL, (tmp_path / "driver.err").read_text()
    if fault == "between-renames":
        # A batch is there in part, and every row of it once.
        seen = Counter(of_duckdb(tmp_path / "lake"))
        assert len(seen) % 300
        assert set(seen.values()) == {1}
    with watched(tmp_path):
        assert pipelines.run(CALM).state is RunState.ENDED, pipelines.failures
    require_once(tmp_path)


def test_batch_that_is_in_a_delta_table_already_is_not_written_again(
    pipelines: Pipelines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit goes through, and its writer does not hear of it; another time, it fails before."""
    commit = run_delta._Table._commit
    faults = ["before", "after"]

    def faulty(*args: Any) -> bool:
        fault = faults.pop() if faults else ""
        if fault == "before":
            raise OSError("the disk was away")
        is_ours = commit(*args)
        if fault == "after":
            raise OSError("the answer was lost")
        return is_ours

    monkeypatch.setattr(run_delta._Table, "_commit", faulty)
    text = "\n".join(line for line in CALM.splitlines() if not line.startswith(("  lake", "  flat")))
    assert pipelines.run(text).state is RunState.ENDED, pipelines.failures
    assert (faults, len(pipelines.failures)) == ([], 2)
    for name, read in READERS_OF_DELTA.items():
        assert Counter(read(tmp_path / "table")) == Counter(f"o{number}" for number in range(MESSAGES)), name
    named = {str(Path(file).relative_to(tmp_path / "table")) for file in DeltaTable(tmp_path / "table").file_uris()}
    there = {str(file.relative_to(tmp_path / "table")) for file in (tmp_path / "table").rglob("*.parquet")}
    assert len(there) == len(named)
    times = pl.scan_delta(str(tmp_path / "table")).collect()
    assert set(times["country"].to_list()) == set(COUNTRIES)
    assert {str(at) for at in times["at"].to_list()} == {"2030-01-01 00:00:00+00:00"}
    # Other columns than those of the table are refused, and the table stays as it is.
    other = text.replace("pipeline: lake", "pipeline: other").replace(
        'country STRING, at TIMESTAMP"', 'country STRING"'
    )
    assert pipelines.run(other).state is RunState.FAILED
    assert "other columns" in pipelines.failures[-1].failure.reason
    assert DeltaTable(tmp_path / "table").count() == MESSAGES


@pytest.mark.parametrize("sink", ["lake", "table"])
def test_a_run_that_was_overtaken_ends_and_the_next_one_writes_each_row_once(
    pipelines: Pipelines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sink: str
) -> None:
    seal = attempts.seal

    def seal_too_late(files: Files, directory: str) -> None:
        # What another run does at its start with the rows that this one is writing.
        attempts.remove_unless_sealed(files, directory)
        seal(files, directory)

    monkeypatch.setattr(attempts, "seal", seal_too_late)
    lines = [line for line in CALM.splitlines() if not re.match(" +(lake|flat|table):", line) or sink in line]
    text = "\n".join(lines)
    assert pipelines.run(text).state is RunState.FAILED
    [failed] = pipelines.failures
    assert (failed.failure.is_hopeless, failed.retry_s) == (True, None)
    assert "another run of this pipeline has begun" in failed.failure.reason
    monkeypatch.undo()
    assert pipelines.run(text).state is RunState.ENDED, pipelines.failures
    readers = READERS if sink == "lake" else READERS_OF_DELTA
    for name, read in readers.items():
        assert Counter(read(tmp_path / sink)) == Counter(f"o{number}" for number in range(MESSAGES)), name


def test_of_two_runs_that_write_a_delta_table_at_once_one_is_told_that_it_has_not(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark.range(10).selectExpr("CONCAT('o', id) AS id").coalesce(1).write.json(str(tmp_path / "in"))
    text = "pipeline: copy\nsources: {orders: {json: in}}\nsinks: {out: {from: orders, delta: table}}\n"
    ours, other = Pipelines(spark, tmp_path), Pipelines(spark, tmp_path)
    commit = run_delta._Table._commit

    def commit_second(*args: Any) -> bool:
        monkeypatch.undo()
        assert other.run(text).state is RunState.ENDED, other.failures
        return commit(*args)

    monkeypatch.setattr(run_delta._Table, "_commit", commit_second)
    assert ours.run(text).state is RunState.FAILED
    assert "another run has written sink out at the same time" in ours.failures[-1].failure.reason
    assert ours.failures[-1].failure.hint == "run it again"
    for name, read in READERS_OF_DELTA.items():
        assert Counter(read(tmp_path / "table")) == Counter(f"o{number}" for number in range(10)), name
    named = {str(Path(file).relative_to(tmp_path / "table")) for file in DeltaTable(tmp_path / "table").file_uris()}
    assert {str(file.relative_to(tmp_path / "table")) for file in (tmp_path / "table").rglob("*.parquet")} == named


def test_partitions_of_a_delta_table_are_moments_whatever_time_zone_the_session_has(
    spark: SparkSession, tmp_path: Path
) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    at = "timestamp'2030-01-01 00:00:00Z'"
    rows = session.sql(f"SELECT {at} AS at, CAST({at} AS STRING) AS here")
    run_delta.write_delta(DeltaSink("table", "rows", str(tmp_path / "table"), ("at",)), rows, "group")
    [found] = DeltaTable(tmp_path / "table").to_pyarrow_table().to_pylist()
    assert found == {"at": datetime(2030, 1, 1, tzinfo=UTC), "here": "2030-01-01 01:00:00"}
    assert session.conf.get("spark.sql.session.timeZone") == "Europe/Berlin"


def test_files_that_only_hadoop_reaches_are_committed_in_the_same_way(spark: SparkSession, tmp_path: Path) -> None:
    lake = f"file://{tmp_path}/lake"
    files = HadoopFiles(spark)
    rows = spark.range(10).selectExpr("id", "CAST(id % 2 AS STRING) AS side").repartition(3)

    def opened() -> FileCommits:
        commits = FileCommits(files, lake, "query", SystemEntropy())
        commits.recover()
        return commits

    for number in (0, 1):
        commits = opened()
        assert commits.last == number - 1
        staged = commits.stage(number)
        rows.write.partitionBy("side").parquet(staged)
        commits.commit(number, staged)
    lost = commits.stage(2)
    spark.range(0).write.parquet(lost)
    commits = opened()
    assert files.names(f"file://{tmp_path}/.lake.goqueue/query/staging") == []
    again = commits.stage(1)
    rows.write.parquet(again)
    commits.commit(1, again)
    empty = commits.stage(2)
    spark.range(0).write.parquet(empty)
    commits.commit(2, empty)
    assert commits.last == 1
    assert sorted(pl.scan_parquet(f"{tmp_path}/lake/**/*.parquet").collect()["id"].to_list()) == sorted(
        [*range(10)] * 2
    )
    assert files.names(f"file://{tmp_path}/nowhere") == []
