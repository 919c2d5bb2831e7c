"""`goqueue pipeline run`: its options, and the files that it reads. `pipeline_run_session` does the rest."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.cli.spark.options import BrokerOption, HttpOption, MasterOption, SparkLogsOption
from goqueue.cli.terminal.output import Format
from goqueue.errors import Unavailable

if TYPE_CHECKING:
    from goqueue.spark.pipelines import LoadedFile


SPARK_LOST_EXIT = 75
"""As sendmail has it: it may work if it is tried again."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the command was told; empty texts leave it to the files, or to the broker."""

    master: str = ""
    is_available_now: bool = False
    checkpoint: str = ""
    broker: str = ""
    server: str = ""
    has_reports: bool = True
    restarts: int | None = None
    stop_seconds: float = 30.0
    has_spark_logs: bool = False


_Files = Annotated[
    list[Path],
    typer.Argument(metavar="FILE...", exists=True, dir_okay=False, help="Pipeline files (YAML), or modules (.py)."),
]
_AvailableNow = Annotated[
    bool, typer.Option("--available-now", help="Work off what is there and end, whatever the files say.")
]
_Checkpoint = Annotated[
    str, typer.Option("--checkpoint", metavar="DIR", help="Where to note how far it got: a directory or a URL.")
]
_Report = Annotated[
    bool, typer.Option("--report/--no-report", help="Be seen by `goqueue pipeline list`, and stopped from there.")
]
_Restarts = Annotated[
    int | None,
    typer.Option(
        "--restarts",
        min=0,
        help="How often in a row a failed query starts again: without limit, or 4 times with available_now.",
    ),
]
_StopTimeout = Annotated[
    float, typer.Option("--stop-timeout", min=0, help="How many seconds batches under way may take to end.")
]
_Format = Annotated[Format, typer.Option("--format", help="How to print: for people (table), or as JSON Lines (json).")]


def run(
    files: _Files,
    *,
    master: MasterOption = "",
    available_now: _AvailableNow = False,
    checkpoint: _Checkpoint = "",
    broker: BrokerOption = "",
    server: HttpOption = "",
    report: _Report = True,
    restarts: _Restarts = None,
    stop_timeout: _StopTimeout = 30.0,
    spark_logs: SparkLogsOption = False,
    output_format: _Format = Format.TABLE,
) -> None:
    """Run pipelines on Spark, all of them in one.

    A query that fails starts again by itself, after a second at first and
    after a minute at most. SIGTERM and Ctrl-C let batches under way end; a
    second one does not wait for them. Exits with 0 if all has ended well,
    with 1 if a pipeline has failed for good, with 75 if Spark itself has
    ended: the same command then goes on from the checkpoints.

    Example: [bold]goqueue pipeline run pipeline.yaml[/bold]

    Example: [bold]goqueue pipeline run --available-now --format json pipelines/*.yaml[/bold]
    """
    if output_format is Format.YAML:
        raise typer.BadParameter("what may never end is printed as a table or as json", param_hint="--format")
    readings = _read(files)
    from goqueue.cli.pipelines.run_session import run_all
    from goqueue.spark.session import SparkLost

    options = RunOptions(
        master=master,
        is_available_now=available_now,
        checkpoint=checkpoint,
        broker=broker,
        server=server,
        has_reports=report,
        restarts=restarts,
        stop_seconds=stop_timeout,
        has_spark_logs=spark_logs,
    )
    try:
        is_well = run_all(readings, options, output_format)
    except SparkLost as error:
        typer.echo(f"goqueue: {error} [{error.code}]", err=True)
        raise typer.Exit(SPARK_LOST_EXIT) from None
    if not is_well:
        raise typer.Exit(1)


def _read(files: list[Path]) -> list[LoadedFile]:
    """Read all pipelines, and show what is wrong with them; exits if that is an error."""
    try:
        from goqueue.cli.pipelines import output as pipeline_output
        from goqueue.spark.pipelines import load
    except ModuleNotFoundError as error:
        raise Unavailable(f"{error.name} is not installed", hint="pip install 'goqueue[spark]'") from None
    readings = [load(file, os.environ) for file in files]
    for reading in readings:
        pipeline_output.show_mistakes(reading, is_aside=True)
    if any(reading.pipeline is None for reading in readings):
        raise typer.Exit(1)
    return readings
