"""`goqueue job archive`: its options; `job_archive_run` does the rest."""

from __future__ import annotations

from typing import Annotated

import typer

from goqueue.cli.connection import TopicArgument
from goqueue.cli.spark.options import BrokerOption, HttpOption, MasterOption, SparkLogsOption
from goqueue.cli.terminal.output import Format
from goqueue.errors import Invalid, Unavailable
from goqueue.model.units import parse_bytes, parse_duration_ms

_FILE_BYTES_MIN = 64 * 1024
_KEEP_MS_MAX = 30 * 86_400_000


def _duration(written: str) -> int:
    duration_ms = _parsed(parse_duration_ms, written)
    if duration_ms > _KEEP_MS_MAX:
        raise typer.BadParameter("replaced files are kept for at most 30 days", param_hint="--keep")
    return duration_ms


def _size(written: str) -> int:
    size = _parsed(parse_bytes, written)
    if size < _FILE_BYTES_MIN:
        raise typer.BadParameter("files have at least 64KiB")
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
    bool, typer.Option("--allow-gaps", help="Go on if records are gone that were not archived, and note which.")
]
_Register = Annotated[
    bool, typer.Option("--register/--no-register", help="Tell the topic where its archive is, so that reads use it.")
]
_Keep = Annotated[
    str, typer.Option("--keep", metavar="DURATION", help="How long files that were replaced stay, for their readers.")
]
_FileSize = Annotated[str, typer.Option("--file-size", metavar="SIZE", help="How large files become, about.")]
_Verify = Annotated[bool, typer.Option("--verify", help="Archive nothing, but check all that is archived.")]
_Format = Annotated[Format, typer.Option("--format", help="How to print: for people (table), or as JSON Lines (json).")]


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
    """Copy what is new of a topic into Parquet files, and end.

    Every record is in the archive once, also if a run dies: the next one goes
    on from there. Spark reads from the archive what the log has not any more.
    Exits with 1 if something is wrong.

    Example: [bold]goqueue job archive orders /data/archive[/bold]

    Example: [bold]goqueue job archive orders /data/archive --verify --format json[/bold]
    """
    if output_format is Format.YAML:
        raise typer.BadParameter("progress is printed as a table or as json", param_hint="--format")
    keep_ms, target_bytes = _duration(keep), _size(file_size)
    try:
        from goqueue.cli.jobs import archive_run as job_archive_run
        from goqueue.spark.jobs.archive.job import ArchiveRequest
    except ModuleNotFoundError as error:
        raise Unavailable(f"{error.name} is not installed", hint="pip install 'goqueue[spark]'") from None
    spark = job_archive_run.SparkChoice(master, has_logs=spark_logs)
    if verify:
        if not job_archive_run.verify(topic, path, spark, output_format):
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
    job_archive_run.run(request, spark, output_format)
