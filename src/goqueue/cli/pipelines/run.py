"""`goqueue pipeline run`: its options, and the files that it reads."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.cli.spark.options import BrokerOption, HttpOption, MasterOption, SparkLogsOption
from goqueue.cli.terminal.output import Format
from goqueue.errors import Unavailable

if TYPE_CHECKING:
    from goqueue.spark.pipelines import LoadedFile


SPARK_LOST_EXIT = 75
"""EX_TEMPFAIL of sysexits.h: a retry may succeed."""


_Files = Annotated[
    list[Path],
    typer.Argument(metavar="FILE...", exists=True, dir_okay=False, help="Pipeline files (YAML), or modules (.py)."),
]
_AvailableNow = Annotated[
    bool, typer.Option("--available-now", help="Process the available messages and end, whatever the files say.")
]
_Checkpoint = Annotated[str, typer.Option("--checkpoint", metavar="DIR", help="Checkpoint directory or URL.")]
_Report = Annotated[
    bool, typer.Option("--report/--no-report", help="Report to the broker, for `goqueue pipeline list` and `stop`.")
]
_Restarts = Annotated[
    int | None,
    typer.Option(
        "--restarts",
        min=0,
        help="Consecutive restarts of a failed query; unlimited by default, 4 with available_now.",
    ),
]
_StopTimeout = Annotated[
    float, typer.Option("--stop-timeout", min=0, help="Seconds that current batches may take to finish.")
]
_Format = Annotated[Format, typer.Option("--format", help="Output format: table, or JSON Lines (json).")]


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
    """Run pipelines in one Spark session.

    A failed query restarts after a delay of one second to one minute.
    SIGTERM and Ctrl-C finish current batches; a second signal does not wait
    for them. Exits with 0 if all pipelines ended without error, with 1 if
    one has failed, with 75 if Spark itself was lost: the same command then
    continues from the checkpoints.

    Example: [bold]goqueue pipeline run pipeline.yaml[/bold]

    Example: [bold]goqueue pipeline run --available-now --format json pipelines/*.yaml[/bold]
    """
    if output_format is Format.YAML:
        raise typer.BadParameter("use table or json", param_hint="--format")
    readings = _read(files)
    from goqueue.cli.pipelines.screen import make_screen
    from goqueue.spark.pipelines.run.session import RunOptions, run_all
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
        is_well = run_all(readings, options, partial(make_screen, output_format))
    except SparkLost as error:
        typer.echo(f"goqueue: {error} [{error.code}]", err=True)
        raise typer.Exit(SPARK_LOST_EXIT) from None
    if not is_well:
        raise typer.Exit(1)


def _read(files: list[Path]) -> list[LoadedFile]:
    """Read all pipelines, and print their mistakes; exit with 1 if one is an error."""
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
