"""`goqueue job archive`."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from goqueue.cli.connection import TopicArgument
from goqueue.cli.spark.options import BrokerOption, HttpOption, MasterOption, SparkLogsOption
from goqueue.cli.terminal.output import Format
from goqueue.errors import Invalid, Unavailable
from goqueue.model.units import parse_bytes, parse_duration_ms

_INTERRUPTED = 130
_FILE_BYTES_MIN = 64 * 1024
_KEEP_MS_MAX = 30 * 86_400_000


def _duration(written: str) -> int:
    duration_ms = _parsed(parse_duration_ms, written)
    if duration_ms > _KEEP_MS_MAX:
        raise typer.BadParameter("replaced files are kept at most 30 days", param_hint="--keep")
    return duration_ms


def _size(written: str) -> int:
    size = _parsed(parse_bytes, written)
    if size < _FILE_BYTES_MIN:
        raise typer.BadParameter("at least 64KiB")
    return size


def _parsed(parse: object, written: str) -> int:
    try:
        return int(parse(written))  # type: ignore[operator]
    except Invalid as error:
        raise typer.BadParameter(str(error)) from None


_Path = Annotated[
    str, typer.Argument(metavar="PATH", help="The archive: a directory, or a URI such as s3://bucket/archive.")
]
_AllowGaps = Annotated[
    bool,
    typer.Option(
        "--allow-gaps", help="Continue if records were deleted before they were archived, and record the gaps."
    ),
]
_Register = Annotated[
    bool,
    typer.Option(
        "--register/--no-register", help="Record the archive in the topic's settings, so that Spark reads use it."
    ),
]
_Keep = Annotated[
    str,
    typer.Option("--keep", metavar="DURATION", help="How long replaced files are kept for running reads, up to 30d."),
]
_FileSize = Annotated[
    str, typer.Option("--file-size", metavar="SIZE", help="Approximate size of files, at least 64KiB.")
]
_Verify = Annotated[bool, typer.Option("--verify", help="Check the whole archive, and archive nothing.")]
_Format = Annotated[Format, typer.Option("--format", help="Output format: table, or JSON Lines (json).")]


def archive(
    topic: TopicArgument,
    path: _Path,
    *,
    broker: BrokerOption = "127.0.0.1:9092",
    server: HttpOption = "",
    master: MasterOption = "",
    allow_gaps: _AllowGaps = False,
    register: _Register = True,
    keep: _Keep = "1h",
    file_size: _FileSize = "128MiB",
    verify: _Verify = False,
    spark_logs: SparkLogsOption = False,
    output_format: _Format = Format.TABLE,
) -> None:
    """Copy new records of a topic into Parquet files.

    Every record is archived exactly once; after a crash, the next run
    continues. Spark reads records from the archive that retention has
    deleted. With --verify, exits with 1 if the archive has problems.

    Example: [bold]goqueue job archive orders /data/archive[/bold]

    Example: [bold]goqueue job archive orders /data/archive --verify --format json[/bold]
    """
    if output_format is Format.YAML:
        raise typer.BadParameter("use table or json", param_hint="--format")
    keep_ms, target_bytes = _duration(keep), _size(file_size)
    try:
        from goqueue.cli.jobs.archive_screen import make_screen, show_outcome, show_verified
        from goqueue.spark.jobs.archive.job import ArchiveRequest
        from goqueue.spark.jobs.archive.session import SparkChoice, run_archive, verify_archive
    except ModuleNotFoundError as error:
        raise Unavailable(f"{error.name} is not installed", hint="pip install 'goqueue[spark]'") from None
    spark, screens = SparkChoice(master, has_logs=spark_logs), partial(make_screen, output_format)
    if verify:
        verified = verify_archive(topic, path, spark, screens)
        show_verified(topic, path, verified, output_format)
        if verified.findings:
            raise typer.Exit(1)
        return
    request = ArchiveRequest(
        topic=topic,
        path=path,
        bootstrap=broker,
        http_url=server or None,
        allows_gaps=allow_gaps,
        is_registered=register,
        keep_ms=keep_ms,
        target_bytes=target_bytes,
    )
    try:
        outcome, archived_to = run_archive(request, spark, screens)
    except KeyboardInterrupt:
        typer.echo("goqueue: stopped; committed work is kept, and the same command continues from there", err=True)
        raise typer.Exit(_INTERRUPTED) from None
    show_outcome(topic, archived_to, outcome, output_format)
