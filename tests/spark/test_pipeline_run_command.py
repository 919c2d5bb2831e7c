"""`goqueue pipeline run` as people and service managers use it: a process, signals, exit codes, and the broker."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest

from goqueue.cli.pipelines.run import SPARK_LOST_EXIT
from goqueue.client import Client, pipelines
from goqueue.client.pipeline_values import PipelineReport
from goqueue.testing.broker import Broker
from tests.cli.command import INSTALLED, Command, installed_environ
from tests.protocols.kafka.process import ServeProcess
from tests.spark.read_kit import WAIT_S, publish
from tests.spark.sink_kit import create_topic

ENDLESS = """\
pipeline: endless
trigger: 1s
sources:
  orders: {json: in, stream: true, schema: "id STRING"}
sinks:
  out: {from: orders, topic: out}
"""
COPYING = """\
pipeline: copying
trigger: 1s
sources:
  orders: {topic: orders}
sinks:
  out: {from: orders, topic: copies, value: value}
"""
# Its function fails until there is a file of rates.
SHAKY = """\
pipeline: shaky
trigger: 1s
sources:
  orders: {json: in, stream: true, schema: "id STRING"}
steps:
  rated: {from: orders, python: "rates.py:rate"}
sinks:
  out: {from: rated, topic: rated}
"""
RATES = """\
from pathlib import Path

def rate(orders):
    return orders.mapInArrow(rated, orders.schema)

def rated(batches):
    if not Path({rates!r}).exists():
        raise ValueError("the rates are not there yet")
    yield from batches
"""
# Its batch takes as long as somebody keeps the gate open.
SLOW = """\
pipeline: slow
trigger: 1s
sources:
  orders: {json: in, stream: true, schema: "id STRING"}
sinks:
  out: {from: orders, foreach_batch: "slow.py:wait"}
"""
WAITING = """\
from pathlib import Path

def wait(batch, number):
    Path({gate!r}).read_text()
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


def started(broker: Broker, *arguments: object) -> subprocess.Popen[str]:
    """Start it as a shell does, as the leader of what Ctrl-C reaches."""
    options = ("--master", "local[2]", "--broker", broker.bootstrap)
    return subprocess.Popen(
        [INSTALLED, "pipeline", "run", *map(str, arguments), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=installed_environ(broker.http),
        process_group=0,
    )


def rows(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    assert process.stdout is not None
    return (json.loads(line) for line in process.stdout)


def told_until(told: Iterator[dict[str, Any]], kinds: set[str]) -> Iterator[dict[str, Any]]:
    """Yield what is told until all these kinds were."""
    for row in told:
        yield row
        kinds = kinds - {row["kind"]}
        if not kinds:
            return


def test_two_pipelines_run_on_one_spark_whatever_becomes_of_one_and_ctrl_c_lets_both_end_well_and_quietly(
    broker: Broker, file: Path, tmp_path: Path
) -> None:
    shaky, rates = tmp_path / "shaky.yaml", tmp_path / "rates"
    shaky.write_text(SHAKY)
    (tmp_path / "rates.py").write_text(RATES.format(rates=str(rates)))
    process = started(broker, file, shaky, "--format", "json")
    told = rows(process)
    try:
        # Each has something to tell, whichever is first; what fails may have done so twice.
        first = {row["kind"]: row for row in told_until(told, {"batch", "failure"})}
        batch, failure = first["batch"], first["failure"]
        assert (batch["pipeline"], batch["name"], batch["rows"], batch["rows_written"]) == ("endless", "out", 2, 2)
        assert (failure["pipeline"], failure["query"], failure["retry_seconds"] is None) == ("shaky", "out", False)
        assert "the rates are not there yet" in failure["reason"]
        with Client(broker.http) as client:
            assert client.send(pipelines.describe("endless")).is_running
        # While one fails again and again, the other goes on.
        (tmp_path / "in" / "2.json").write_text('{"id":"c"}\n')
        batch = next(row for row in told if row["kind"] == "batch")
        assert (batch["pipeline"], batch["rows"], batch["totals"]["rows"]) == ("endless", 1, 3)
        rates.touch()
        written = (row["rows_written"] for row in told if row["kind"] == "batch" and row["pipeline"] == "shaky")
        assert [next(written), next(written)] == [2, 1]
        # Spark and its Pythons, which may be in the middle of a batch, are not reached.
        groups = {os.getpgid(child.pid) for child in psutil.Process(process.pid).children()}
        assert groups
        assert process.pid not in groups
        os.killpg(process.pid, signal.SIGINT)
        ended = {row["name"]: row for row in told if row["kind"] == "pipeline"}
        assert process.wait(WAIT_S) == 0
    finally:
        process.kill()
        _, errors = process.communicate()
    assert errors == ""
    assert {name: (row["state"], row["error"]) for name, row in ended.items()} == {
        "endless": ("ended", None),
        "shaky": ("ended", None),
    }
    assert (ended["endless"]["restarts"], ended["shaky"]["restarts"] > 0) == (0, True)
    with Client(broker.http) as client:
        seen = {name: client.send(pipelines.describe(name)) for name in ("endless", "shaky")}
    assert {(each.state, each.queries[0].rows) for each in seen.values()} == {("ended", 3)}


def test_broker_and_java_that_are_killed_are_named_with_what_happens_next(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(COPYING)
    with ServeProcess(tmp_path / "data", "--http-port", str(free_port())) as broker:
        create_topic(broker.bootstrap, "orders", partitions=1)
        publish(broker.bootstrap, "orders", ["a", "b"])
        address: Any = SimpleNamespace(bootstrap=broker.bootstrap, http=broker.http)
        process = started(address, file)
        assert process.stdout is not None
        try:
            told = iter(process.stdout)
            seen = read_until(told, "copying/out batch")
            broker.kill()
            seen += read_until(told, f"the broker at {broker.http} does not answer")
            broker.start()
            seen += read_until(told, f"the broker at {broker.http} answers again")
            publish(broker.bootstrap, "orders", ["c"])
            seen += read_until(told, "copying/out batch")
            (java,) = psutil.Process(process.pid).children()
            java.kill()
            seen += list(told)
            assert process.wait(WAIT_S) == SPARK_LOST_EXIT
        finally:
            process.kill()
            _, errors = process.communicate()
    killed = f"Spark's Java (process {java.pid}) was killed by SIGKILL"
    assert f"pipeline copying failed: {killed}\n" in "".join(seen) or f", 1 restart: {killed}" in "".join(seen)
    assert errors.count("\n") == 1
    assert errors.startswith(f"goqueue: {killed}; the pipelines have stopped")
    assert "run the same command again" in errors
    assert "Traceback" not in "".join(seen)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def read_until(lines: Iterator[str], text: str) -> list[str]:
    """Return the lines up to one that has a text; there must be one."""
    seen: list[str] = []
    for line in lines:
        seen.append(line)
        if text in line:
            return seen
    raise AssertionError("".join(seen))


def test_a_second_signal_does_not_wait_for_the_batch_under_way(broker: Broker, file: Path, tmp_path: Path) -> None:
    file.write_text(SLOW)
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    (tmp_path / "slow.py").write_text(WAITING.format(gate=str(gate)))
    process = started(broker, file)
    try:
        opened = opened_by_both(gate, process)
        spark = psutil.Process(process.pid).children(recursive=True)
        process.terminate()
        with Client(broker.http) as client:
            while client.send(pipelines.describe("slow")).state != "stopping":
                assert process.poll() is None
        process.terminate()
        assert process.wait(WAIT_S) == 1
        gone, left = psutil.wait_procs(spark, WAIT_S)
        os.close(opened)
    finally:
        process.kill()
        output, errors = process.communicate()
    assert "pipeline slow interrupted" in output
    assert errors == ""
    assert (bool(gone), left) == (True, [])


def opened_by_both(gate: Path, process: subprocess.Popen[str]) -> int:
    """Open the gate as soon as the batch waits at it; return what keeps it open."""
    while process.poll() is None:
        # It is refused as long as nobody reads.
        with suppress(OSError):
            return os.open(gate, os.O_WRONLY | os.O_NONBLOCK)
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.1)
    raise AssertionError(process.communicate())


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
