"""The sink when its driver is killed, and when Spark repeats tasks: every row is there once."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.protocols.kafka.process import ServeProcess
from tests.spark.sink_kit import committed, create_topic, open_transactions, require_once, run_query, write_input

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WAIT_S = 600


def drive(directory: Path, broker: ServeProcess, fault: str) -> int:
    """Run a driver until it is killed; return its status."""
    command = [
        *(sys.executable, "-m", "tests.spark.sink_driver", broker.bootstrap, "written"),
        *(str(directory), fault),
    ]
    with (directory / "driver.err").open("ab") as errors:
        process = subprocess.Popen(command, stdout=errors, stderr=errors, start_new_session=True)
    return process.wait(WAIT_S)


@pytest.mark.parametrize("rounds", [1, pytest.param(4, marks=pytest.mark.long)])
def test_a_driver_killed_around_its_commit_and_tasks_that_are_repeated_write_every_row_once(
    spark: SparkSession, tmp_path: Path, rounds: int
) -> None:
    lines: list[str] = []
    with ServeProcess(tmp_path / "data") as broker:
        create_topic(broker.bootstrap, "written")
        for number in range(rounds):
            lines += write_input(tmp_path, range(4 * number, 4 * number + 4))
            seen = len(committed(broker.bootstrap, "written"))
            assert drive(tmp_path, broker, "before-commit") == -signal.SIGKILL, (tmp_path / "driver.err").read_text()
            # A reader waits for what is staged, which is open; nothing of it is visible.
            assert len(committed(broker.bootstrap, "written")) == seen
            assert len(open_transactions(broker.bootstrap)) == 2
            assert drive(tmp_path, broker, "after-commit") == -signal.SIGKILL, (tmp_path / "driver.err").read_text()
            assert len(committed(broker.bootstrap, "written")) == seen + 2_000
            # A third driver goes on without a fault.
            where = {"kafka.bootstrap.servers": broker.bootstrap, "topic": "written"}
            assert run_query(spark, tmp_path, where).awaitTermination(WAIT_S)
            require_once(broker.bootstrap, "written", lines)
            # What failed attempts have left open is not left to its timeout.
            assert open_transactions(broker.bootstrap) == []
