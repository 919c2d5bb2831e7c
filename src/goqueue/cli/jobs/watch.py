"""`goqueue job list` and `describe`: runs of jobs, as they report themselves to the broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.cli.connection import DEFAULT_SERVER, ServerOption, connected
from goqueue.cli.terminal.output import Format, FormatOption
from goqueue.cli.terminal.tables import Column, Table, one_line, print_facts
from goqueue.cli.terminal.times import age_text, moment_text
from goqueue.model.units import count_text

if TYPE_CHECKING:
    from goqueue.client.jobs import Job

_STYLES = {"failed": "bold red", "lost": "bold red", "restarting": "yellow", "done": "dim", "stopped": "dim"}
_JobArgument = Annotated[str, typer.Argument(metavar="ID", help="The id of the run, as `goqueue job list` shows it.")]


def _share(job: Job) -> str:
    if job.offsets is None:
        return "-"
    # Rounded down: 99.9% is not done yet.
    return f"{100 * job.offsets_done // job.offsets if job.offsets else 100}%"


_JOBS: Table[Job] = Table(
    "job",
    Column("id", lambda each: each.id),
    Column("job", lambda each: f"{one_line(each.verb)} {one_line(each.name)}"),
    Column("state", lambda each: each.state),
    Column("done", _share, is_number=True),
    Column("read", lambda each: each.read, is_number=True, spared=3),
    Column("written", lambda each: each.written, is_number=True, spared=1),
    Column(
        "rows/s", lambda each: f"{each.rows_per_second:,.0f}" if each.is_running else None, is_number=True, spared=2
    ),
    Column("started", lambda each: moment_text(each.started_at), spared=4),
    Column("last report", lambda each: f"{age_text(each.silent_seconds)} ago", is_number=True, spared=5),
    style=lambda each: _STYLES.get(each.state, ""),
)


def list_jobs(*, server: ServerOption = DEFAULT_SERVER, output_format: FormatOption = Format.TABLE) -> None:
    """List runs of jobs of the last week: progress, and how they ended.

    Example: [bold]goqueue job list[/bold]

    Example: [bold]goqueue job list --format json | jq 'select(.state == "failed")'[/bold]
    """
    from goqueue.client import jobs

    with connected(server) as client:
        found = client.send(jobs.list_all())
    _JOBS.show(found, output_format)
    if not found and output_format is Format.TABLE:
        typer.echo("no job has reported in the last week, or since the broker started", err=True)


def describe(
    job: _JobArgument, *, server: ServerOption = DEFAULT_SERVER, output_format: FormatOption = Format.TABLE
) -> None:
    """Describe a run of a job: its progress, speed and last error.

    Example: [bold]goqueue job describe replay-0c4e5a1f9b27[/bold]
    """
    from goqueue.client import jobs

    with connected(server) as client:
        found = client.send(jobs.describe(job))
    if output_format is Format.TABLE:
        print_facts(_facts(found), title=f"{one_line(found.verb)} {one_line(found.name)}")
    else:
        _JOBS.show([found], output_format)


def _facts(job: Job) -> list[tuple[str, str]]:
    facts = [
        ("id", job.id),
        ("state", job.state),
        ("about", one_line(job.description)),
        ("started", moment_text(job.started_at)),
        ("last report", f"{age_text(job.silent_seconds)} ago"),
        ("master", one_line(job.master)),
        ("done", _share(job)),
        ("read", count_text(job.read, "message")),
        ("written", count_text(job.written, "message")),
    ]
    if job.is_running:
        facts.append(("speed", f"{job.rows_per_second:,.0f} per second"))
    if job.error:
        facts.append(("last error", one_line(job.error)))
    return facts
