"""`goqueue job replay`: its options. `job_replay_session` does the rest."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer

from goqueue.cli.connection import complete_topic
from goqueue.cli.jobs.replay_bounds import check_bounds
from goqueue.cli.spark.options import BrokerOption, HttpOption, MasterOption, SparkLogsOption
from goqueue.cli.terminal.output import Format
from goqueue.model.start_position import Start, parse_start

DEFAULT_DIRECTORY = ".goqueue/jobs"
BATCH_DEFAULT = 500_000

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,248}")


class Partitions(StrEnum):
    """Which partition of the target a message goes to."""

    AUTO = "auto"
    KEEP = "keep"
    KEY = "key"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where Spark and the broker are, and how Spark is treated."""

    master: str
    broker: str
    server: str
    stop_seconds: float
    has_spark_logs: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """What the command was told; empty texts leave it to the broker, or to what is usual."""

    source: str
    target: str
    start: Start
    end: Start
    written_start: str
    written_end: str
    where: str
    partitions: Partitions
    has_origin: bool
    rate: int | None
    batch: int
    skips_lost: bool
    archive: str
    name: str
    checkpoint: str
    is_restart: bool
    is_dry_run: bool
    around: Surroundings


_Source = Annotated[
    str, typer.Argument(metavar="SOURCE", help="The topic to read.", autocompletion=complete_topic, show_default=False)
]
_Target = Annotated[
    str,
    typer.Argument(
        metavar="TARGET",
        help="The topic to publish to; made if it is not there. It may be the same.",
        autocompletion=complete_topic,
        show_default=False,
    ),
]
_From = Annotated[
    str,
    typer.Option(
        "--from", metavar="WHERE", help="Begin at: beginning, OFFSET, -N for the last N, a time, or '10m ago'."
    ),
]
_To = Annotated[str, typer.Option("--to", metavar="WHERE", help="End before: the same, or end, as it is at the start.")]
_Where = Annotated[
    str, typer.Option("--where", metavar="SQL", help="Only messages for which this is true: \"text LIKE '%failed%'\".")
]
_Partitions = Annotated[
    Partitions,
    typer.Option(
        "--partitions",
        help="Where messages go: the partition they were in (keep), that of their key (key), "
        "or keep if both topics have as many (auto).",
    ),
]
_Origin = Annotated[bool, typer.Option("--origin/--no-origin", help="Add headers that say where a message comes from.")]
_Rate = Annotated[int | None, typer.Option("--rate", min=1, help="Read at most so many messages a second.")]
_Batch = Annotated[
    int | None, typer.Option("--batch", min=1, help=f"How many messages are read at once at most: {BATCH_DEFAULT}.")
]
_SkipLost = Annotated[
    bool, typer.Option("--skip-lost", help="Go on without messages that retention has removed meanwhile.")
]
_Archive = Annotated[
    str,
    typer.Option(
        "--archive",
        metavar="auto|never|PATH",
        help="Where messages are read that the log has not any more: in the topic's archive, nowhere, or in another.",
    ),
]
_Name = Annotated[str, typer.Option("--name", help="The name of the job; SOURCE-to-TARGET if not given.")]
_Checkpoint = Annotated[
    str, typer.Option("--checkpoint", metavar="DIR", help=f"Where jobs note how far they are: {DEFAULT_DIRECTORY}.")
]
_Restart = Annotated[bool, typer.Option("--restart", help="Forget how far the job was, and begin anew.")]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Only count what would be replayed.")]
_StopTimeout = Annotated[
    float, typer.Option("--stop-timeout", min=0, help="How many seconds the batch under way may take to end.")
]
_Format = Annotated[Format, typer.Option("--format", help="How to print: for people (table), or as JSON Lines (json).")]


def replay(
    source: _Source,
    target: _Target,
    *,
    start: _From = "beginning",
    end: _To = "end",
    where: _Where = "",
    partitions: _Partitions = Partitions.AUTO,
    origin: _Origin = True,
    rate: _Rate = None,
    batch: _Batch = None,
    skip_lost: _SkipLost = False,
    archive: _Archive = "auto",
    name: _Name = "",
    checkpoint: _Checkpoint = DEFAULT_DIRECTORY,
    restart: _Restart = False,
    dry_run: _DryRun = False,
    master: MasterOption = "",
    broker: BrokerOption = "",
    server: HttpOption = "",
    stop_timeout: _StopTimeout = 30.0,
    spark_logs: SparkLogsOption = False,
    output_format: _Format = Format.TABLE,
) -> None:
    """Publish messages of a topic again, into another topic or the same one.

    Each is published exactly once, with its key, value, headers and time.
    Ctrl-C and SIGTERM let the batch under way end; the same command goes on
    from there, also after a crash. Exits with 0 if all is replayed, with 1
    if it has failed, with 130 if it was stopped.

    Example: [bold]goqueue job replay orders.dlq orders --where "text LIKE '%timeout%'"[/bold]

    Example: [bold]goqueue job replay orders orders-test --from 2026-01-31 --to '1h ago' --rate 500[/bold]
    """
    first, last = _places(start, end)
    _check_together(rate, batch, output_format)
    options = ReplayOptions(
        source=source,
        target=target,
        start=first,
        end=last,
        written_start=start.strip(),
        written_end=end.strip(),
        where=where.strip(),
        partitions=partitions,
        has_origin=origin,
        rate=rate,
        batch=batch or BATCH_DEFAULT,
        skips_lost=skip_lost,
        archive=archive,
        name=_checked_name(name or f"{source}-to-{target}"),
        checkpoint=checkpoint,
        is_restart=restart,
        is_dry_run=dry_run,
        around=Surroundings(master, broker, server, stop_timeout, spark_logs),
    )
    _run(options, output_format)


def _run(options: ReplayOptions, output_format: Format) -> None:
    from goqueue.cli.spark.run import require_spark

    require_spark()
    from goqueue.cli.jobs.replay_session import run_replay

    if code := run_replay(options, output_format):
        raise typer.Exit(code)


def _check_together(rate: int | None, batch: int | None, output_format: Format) -> None:
    if output_format is Format.YAML:
        raise typer.BadParameter("what takes its time is printed as a table or as json", param_hint="--format")
    if rate is not None and batch is not None:
        raise typer.BadParameter("with --rate a batch is what the rate allows: leave --batch out")


def _places(start: str, end: str) -> tuple[Start, Start]:
    first, last = _place(start, "--from"), _place(end, "--to")
    if mistake := check_bounds(first, last):
        raise typer.BadParameter(mistake)
    return first, last


def _place(written: str, option: str) -> Start:
    try:
        return parse_start(written, now_ms=time.time_ns() // 1_000_000)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def _checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise typer.BadParameter(
            f"{name!r} is no name of a job: write letters, digits, dots, dashes and underscores", param_hint="--name"
        )
    return name
