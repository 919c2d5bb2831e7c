"""`goqueue pipeline run` as people and service managers use it: a process, signals, exit codes, and the broker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest

from goqueue.client import Client, pipelines
from goqueue.client.pipeline_values import PipelineReport
from goqueue.testing.broker import Broker
from tests.cli.command import INSTALLED, Command, installed_environ
from tests.spark.read_kit import WAIT_S

ENDLESS = """\
pipeline: endless
trigger: 1s
sources:
  orders: {json: in, stream: true, schema: "id STRING"}
sinks:
  out: {from: orders, topic: out}
"""


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"id":"a"}\n{"id":"b"}\n')
    file = tmp_path / "pipeline.yaml"
    file.write_text(ENDLESS)
    return file


def started(file: Path, broker: Broker) -> subprocess.Popen[str]:
    """Start it as a shell does, as the leader of what Ctrl-C reaches."""
    options = ("--master", "local[2]", "--broker", broker.bootstrap, "--format", "json")
    return subprocess.Popen(
        [INSTALLED, "pipeline", "run", str(file), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=installed_environ(broker.http),
        process_group=0,
    )


def rows(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    assert process.stdout is not None
    return (json.loads(line) for line in process.stdout)


def test_ctrl_c_lets_it_end_well_and_quietly_and_the_broker_has_seen_all_of_it(broker: Broker, file: Path) -> None:
    process = started(file, broker)
    told = rows(process)
    try:
        batch = next(row for row in told if row["kind"] == "batch")
        assert (batch["pipeline"], batch["name"], batch["rows"], batch["rows_written"]) == ("endless", "out", 2, 2)
        with Client(broker.http) as client:
            assert client.send(pipelines.describe("endless")).is_running
        # Spark and its Pythons, which may be in the middle of a batch, are not reached.
        groups = {os.getpgid(child.pid) for child in psutil.Process(process.pid).children()}
        assert groups
        assert process.pid not in groups
        os.killpg(process.pid, signal.SIGINT)
        (last,) = (row for row in told if row["kind"] == "pipeline")
        assert process.wait(WAIT_S) == 0
    finally:
        process.kill()
        _, errors = process.communicate()
    assert errors == ""
    assert (last["state"], last["restarts"], last["error"]) == ("ended", 0, None)
    with Client(broker.http) as client:
        seen = client.send(pipelines.describe("endless"))
    assert (seen.state, seen.queries[0].rows) == ("ended", 2)


def test_a_pipeline_that_runs_elsewhere_is_not_run_here(broker: Broker, file: Path) -> None:
    elsewhere = PipelineReport(run_id="other", state="running", started_at="2030-01-31T10:00:00Z")
    with Client(broker.http) as client:
        client.send(pipelines.report("endless", elsewhere))
    told = Command(broker.http)("pipeline", "run", file)
    assert told.exit_code == 1
    assert "[pipeline_running]" in told.stderr


def test_mistakes_are_told_before_spark_starts(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(ENDLESS.replace("from: orders", "from: ordres"))
    told = Command("http://127.0.0.1:1")("pipeline", "run", file)
    assert told.exit_code == 1
    assert "sink out reads ordres, but there is no such source or step" in told.stderr


def test_pipelines_of_one_name_or_with_settings_that_contradict_are_refused(tmp_path: Path, file: Path) -> None:
    goqueue = Command("http://127.0.0.1:1")
    assert "two of the files are pipeline endless" in goqueue.refused("pipeline", "run", file, file)
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text(ENDLESS + "spark: {spark.driver.memory: 1g}\n")
    second.write_text(ENDLESS.replace("endless", "other") + "spark: {spark.driver.memory: 2g}\n")
    told = goqueue.refused("pipeline", "run", first, second)
    assert "the pipelines want spark.driver.memory to be 1g and 2g, but they share one Spark" in told
