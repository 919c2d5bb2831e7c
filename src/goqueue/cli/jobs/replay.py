"""`goqueue job replay`: its options."""

from __future__ import annotations

import re
import time
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from goqueue.cli.connection import complete_topic
from goqueue.cli.spark.options import BrokerOption, HttpOption, MasterOption, SparkLogsOption
from goqueue.cli.terminal.output import Format
from goqueue.model.start_position import Start, parse_start

DEFAULT_DIRECTORY = ".goqueue/jobs"
BATCH_DEFAULT = 500_000

if TYPE_CHECKING:
    from goqueue.spark.jobs.replay.options import ReplayOptions

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,248}")


_Source = Annotated[
    str, typer.Argument(metavar="SOURCE", help="The topic to read.", autocompletion=complete_topic, show_default=False)
]
_Target = Annotated[
    str,
    typer.Argument(
        metavar="TARGET",
        help="The topic to publish to; created if missing. It may be SOURCE.",
        autocompletion=complete_topic,
        show_default=False,
    ),
]
_From = Annotated[
    str,
    typer.Option(
        "--from", metavar="WHERE", help="First position: beginning, OFFSET, -N for the last N, a time, or '10m ago'."
    ),
]
_To = Annotated[
    str,
    typer.Option(
        "--to", metavar="WHERE", help="Position to stop before: like --from, or end, as of the start of the job."
    ),
]
_Where = Annotated[
    str, typer.Option("--where", metavar="SQL", help="Only messages that match: \"text LIKE '%failed%'\".")
]
_Partitions = Annotated[
    Literal["auto", "keep", "key"],
    typer.Option(
        "--partitions",
        help="Target partition: the source partition (keep), by key (key), or keep if both topics have as many (auto).",
    ),
]
_Origin = Annotated[
    bool, typer.Option("--origin/--no-origin", help="Add headers with the original topic, partition and offset.")
]
_Rate = Annotated[int | None, typer.Option("--rate", min=1, help="Maximum messages per second.")]
_Batch = Annotated[
    int | None, typer.Option("--batch", min=1, help=f"Maximum messages per batch; {BATCH_DEFAULT} by default.")
]
_SkipLost = Annotated[
    bool, typer.Option("--skip-lost", help="Continue without messages that retention deletes meanwhile.")
]
_Archive = Annotated[
    str,
    typer.Option(
        "--archive",
        metavar="auto|never|PATH",
        help="Archive for messages that the log has deleted: the topic's own, none, or this one.",
    ),
]
_Name = Annotated[str, typer.Option("--name", help="The name of the job; SOURCE-to-TARGET by default.")]
_Checkpoint = Annotated[
    str, typer.Option("--checkpoint", metavar="DIR", help=f"Directory of checkpoints; {DEFAULT_DIRECTORY} by default.")
]
_Restart = Annotated[bool, typer.Option("--restart", help="Forget the checkpoint and start again.")]
_DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Count the messages that would be replayed, and publish nothing.")
]
_StopTimeout = Annotated[
    float, typer.Option("--stop-timeout", min=0, help="Seconds that the current batch may take to finish.")
]
_Format = Annotated[Format, typer.Option("--format", help="Output format: table, or JSON Lines (json).")]


def replay(
    source: _Source,
    target: _Target,
    *,
    start: _From = "beginning",
    end: _To = "end",
    where: _Where = "",
    partitions: _Partitions = "auto",
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
    """Republish messages of a topic to another topic or to the same one.

    Each message is published exactly once, with its key, value, headers and
    timestamp. Ctrl-C and SIGTERM finish the current batch; the same command
    continues from there, also after a crash. Exits with 0 if everything is
    replayed, with 1 after a failure, with 130 if it was stopped.

    Example: [bold]goqueue job replay orders.dlq orders --where "text LIKE '%timeout%'"[/bold]

    Example: [bold]goqueue job replay orders orders-test --from 2026-01-31 --to '1h ago' --rate 500[/bold]
    """
    from goqueue.spark.jobs.replay.options import ReplayOptions, RunEnvironment

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
        environment=RunEnvironment(master, broker, server, stop_timeout, spark_logs),
    )
    _run(options, output_format)


def _run(options: ReplayOptions, output_format: Format) -> None:
    from goqueue.spark.runs.session import require_spark

    require_spark()
    from goqueue.cli.jobs.replay_screen import make_screen
    from goqueue.spark.jobs.replay.session import run_replay

    if code := run_replay(options, partial(make_screen, output_format)):
        raise typer.Exit(code)


def _check_together(rate: int | None, batch: int | None, output_format: Format) -> None:
    if output_format is Format.YAML:
        raise typer.BadParameter("use table or json", param_hint="--format")
    if rate is not None and batch is not None:
        raise typer.BadParameter("give --rate or --batch, not both: --rate sets the batch size")


def _places(start: str, end: str) -> tuple[Start, Start]:
    from goqueue.spark.jobs.replay.bounds import check_bounds

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
            f"{name!r} is not a job name: use letters, digits, dots, dashes and underscores", param_hint="--name"
        )
    return name
