"""What `goqueue pipeline run` prints of batches and of ends."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from goqueue.cli.pipelines.screen import JsonLines, Lines, batch_line, ending_lines, progress_table
from goqueue.spark.failures import Failure
from goqueue.spark.pipelines.run.pipeline import PipelineStatus, QueryStatus
from goqueue.spark.pipelines.run.progress import Figures, RunProgress
from goqueue.spark.pipelines.run.query import BatchDone, RunState

BATCH = Figures(100, 90, {"valid.has_id": 4, "valid.positive": 0}, {"valid.small": 7})
PROGRESS = RunProgress(
    "out",
    batch=3,
    rows=1_000,
    rows_written=900,
    rows_per_second=50.0,
    batch_seconds=2.0,
    lag=12,
    bad_rows={"valid.has_id": 40},
    warned_rows={"valid.small": 70},
    positions={("orders", "0"): 5},
)


def status(state: RunState, failure: Failure | None = None) -> PipelineStatus:
    return PipelineStatus("orders", state, 0, failure, (QueryStatus(state, PROGRESS, failure),))


def test_line_of_a_batch_has_the_figures_of_the_batch() -> None:
    assert batch_line("orders", PROGRESS, BATCH) == (
        "orders/out batch 3: 100 rows read, 90 written, 50 rows/s, batch took 2.0 s, lag 12, "
        "bad rows: valid.has_id 4, warned rows: valid.small 7"
    )


def test_json_of_a_batch_has_its_figures_and_the_totals(capsys: pytest.CaptureFixture[str]) -> None:
    JsonLines().tell(BatchDone("orders", PROGRESS, BATCH))
    told = json.loads(capsys.readouterr().out)
    assert (told["rows"], told["rows_written"], told["warned_rows"]) == (100, 90, {"valid.small": 7})
    assert told["totals"]["rows"] == 1_000
    assert told["lag"] == 12


def test_end_tells_bad_rows_and_warnings_apart_and_why_it_failed() -> None:
    lines = list(ending_lines([status(RunState.FAILED, Failure("Spark's Java (process 7) was killed by SIGKILL"))]))
    assert lines == [
        "pipeline orders failed: Spark's Java (process 7) was killed by SIGKILL",
        "  out: 1,000 rows read, 900 written; bad rows: valid.has_id 40; warned rows: valid.small 70",
    ]


def test_table_has_warnings_in_a_column_of_their_own() -> None:
    text = io.StringIO()
    Console(file=text, width=200).print(progress_table([status(RunState.RUNNING)]))
    heading, row = (line.split() for line in text.getvalue().splitlines() if "orders/out" in line or "query" in line)
    assert heading[-2:] == ["bad", "warned"]
    assert row[-2:] == ["40", "70"]


def test_wait_for_spark_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    Lines().wait_for("Spark is starting", 5.2)
    assert capsys.readouterr().out == "Spark is starting, 5 s so far\n"
