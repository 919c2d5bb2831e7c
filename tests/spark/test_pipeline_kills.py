"""Pipelines whose driver or broker is killed: rows of changing results are written once, as those of all others are.

What kills executors is in `test_cluster`.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.spark.pipelines.run.query import RunState
from tests.protocols.kafka.process import WAIT_S, ServeProcess
from tests.spark.pipeline_run_kit import Pipelines
from tests.spark.read_kit import publish
from tests.spark.sink_kit import committed, create_topic, open_transactions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MESSAGES = 1_000
HALF = MESSAGES // 2
DRIVE_S = 300
PIPELINE = """\
pipeline: counted
trigger: available_now
spark: {{spark.sql.execution.arrow.maxRecordsPerBatch: 50}}
sources:
  orders: {{topic: orders, max_rows_per_batch: 500, decode: {{format: json, schema: "id STRING"}}}}
steps:
{steps}
  counts: {{from: passed, group_by: [id], aggregate: {{messages: count(*)}}}}
sinks:
  changes: {{from: counts, topic: {mode}, key: id, mode: {mode}}}
"""
SQL_STEP = '  passed: {sql: "SELECT id FROM orders"}'
DOOMED_STEP = '  passed: {from: orders, python: "doomed.py:kill"}'
DOOMED = """\
import os, signal
from contextlib import suppress
from pathlib import Path

def kill(rows):
    def run(batches):
        for batch in batches:
            for doomed in Path({directory!r}).iterdir():
                with suppress(FileNotFoundError):
                    doomed.unlink()
                    os.kill(int(doomed.name), signal.SIGKILL)
            yield batch
    return rows.mapInArrow(run, rows.schema)
"""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ServeProcess]:
    with ServeProcess(tmp_path / "data") as running:
        for topic in ("orders", "update", "complete"):
            create_topic(running.bootstrap, topic, partitions=1)
        publish(running.bootstrap, "orders", [json.dumps({"id": f"o{number}"}) for number in range(MESSAGES)])
        yield running


def require_once(broker: ServeProcess, mode: str) -> None:
    """Check that there is what two batches write, of which the second knows all that the first has."""
    times = 2 if mode == "complete" else 1
    wanted = Counter({f"o{number}": times if number < HALF else 1 for number in range(MESSAGES)})
    rows = committed(broker.bootstrap, mode)
    assert Counter((row.key or b"").decode() for row in rows) == wanted
    assert {row.value for row in rows} == {b'{"messages":1}'}
    assert open_transactions(broker.bootstrap) == []


@pytest.mark.long
@pytest.mark.parametrize("mode", ["update", "complete"])
def test_changes_are_written_once_by_a_driver_that_is_killed_around_its_commit(
    broker: ServeProcess, tmp_path: Path, mode: str
) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(PIPELINE.format(mode=mode, steps=SQL_STEP))
    seen = []
    for fault in ("before-commit", "after-commit", "none"):
        command = [sys.executable, "-m", "tests.spark.pipeline_driver", broker.bootstrap, str(file), fault]
        with (tmp_path / "driver.err").open("ab") as errors:
            driver = subprocess.Popen(command, stdout=errors, stderr=errors, start_new_session=True)
        status = driver.wait(DRIVE_S)
        assert status == (0 if fault == "none" else -signal.SIGKILL), (tmp_path / "driver.err").read_text()
        seen.append(len(committed(broker.bootstrap, mode)))
    assert seen[0] == HALF
    assert seen[1] == seen[2]
    require_once(broker, mode)


@pytest.mark.long
@pytest.mark.parametrize("mode", ["update", "complete"])
def test_changes_are_written_once_when_the_broker_is_killed_in_the_middle_of_a_batch(
    spark: SparkSession, broker: ServeProcess, tmp_path: Path, mode: str
) -> None:
    doomed = tmp_path / "doomed"
    doomed.mkdir()
    (doomed / str(broker.process.pid)).touch()
    (tmp_path / "doomed.py").write_text(DOOMED.format(directory=str(doomed)))
    address: Any = SimpleNamespace(bootstrap=broker.bootstrap, http=None)

    def revive() -> None:
        with suppress(subprocess.TimeoutExpired):
            broker.process.wait(WAIT_S)
        broker.kill()
        broker.start()

    reviving = threading.Thread(target=revive)
    reviving.start()
    pipelines = Pipelines(spark, tmp_path, address)
    status = pipelines.run(PIPELINE.format(mode=mode, steps=DOOMED_STEP))
    reviving.join()
    assert status.state is RunState.ENDED, pipelines.failures
    assert list(doomed.iterdir()) == []
    require_once(broker, mode)
