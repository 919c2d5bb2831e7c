"""`goqueue job list` and `describe`: jobs that run somewhere, or did, as they have reported to the broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.cli.connection import DEFAULT_SERVER, ServerOption, connected
from goqueue.cli.groups.words import age_text, moment_text
from goqueue.cli.terminal.output import Format, FormatOption, show
from goqueue.cli.terminal.tables import Column, Row, count_text, print_facts, print_table

if TYPE_CHECKING:
    from goqueue.client.jobs import Job

_LIST = (
    Column("id"),
    Column("job"),
    Column("state"),
    Column("done", is_number=True),
    Column("read", is_number=True, spared=3),
    Column("written", is_number=True, spared=1),
    Column("rows/s", is_number=True, spared=2),
    Column("started", spared=4),
    Column("last report", is_number=True, spared=5),
)
_STYLES = {"failed": "bold red", "lost": "bold red", "restarting": "yellow", "done": "dim", "stopped": "dim"}
_JobArgument = Annotated[str, typer.Argument(metavar="ID", help="The id of the run, as `goqueue job list` shows it.")]


def list_jobs(*, server: ServerOption = DEFAULT_SERVER, output_format: FormatOption = Format.TABLE) -> None:
    """List the jobs that run, or did within the last week: how far each is, and how it has ended.

    Example: [bold]goqueue job list[/bold]

    Example: [bold]goqueue job list --format json | jq 'select(.state == "failed")'[/bold]
    """
    import msgspec

    from goqueue.client import jobs

    with connected(server) as client:
        found = client.send(jobs.list_all())
    if output_format is not Format.TABLE:
        show("job", [msgspec.to_builtins(each) for each in found], output_format)
        return
    print_table(_LIST, [Row(_cells(each), _STYLES.get(each.state, "")) for each in found])
    if not found:
        typer.echo("no job has reported within the last week, or since the broker was started", err=True)


def describe(
    job: _JobArgument, *, server: ServerOption = DEFAULT_SERVER, output_format: FormatOption = Format.TABLE
) -> None:
    """Describe a run of a job: what it does, how far it is, and what went wrong last.

    Example: [bold]goqueue job describe replay-0c4e5a1f9b27[/bold]
    """
    import msgspec

    from goqueue.client import jobs

    with connected(server) as client:
        found = client.send(jobs.describe(job))
    if output_format is not Format.TABLE:
        show("job", [msgspec.to_builtins(found)], output_format)
        return
    print_facts(_facts(found), title=f"{_line(found.verb)} {_line(found.name)}")


def _cells(job: Job) -> list[str]:
    return [
        job.id,
        f"{_line(job.verb)} {_line(job.name)}",
        job.state,
        _share(job),
        count_text(job.read),
        count_text(job.written),
        f"{job.rows_per_second:,.0f}" if job.is_running else "-",
        moment_text(job.started_at),
        f"{age_text(job.silent_seconds)} ago",
    ]


def _facts(job: Job) -> list[tuple[str, str]]:
    facts = [
        ("id", job.id),
        ("state", job.state),
        ("about", _line(job.description)),
        ("started", moment_text(job.started_at)),
        ("last report", f"{age_text(job.silent_seconds)} ago"),
        ("master", _line(job.master)),
        ("done", _share(job)),
        ("read", count_text(job.read, "message")),
        ("written", count_text(job.written, "message")),
    ]
    if job.is_running:
        facts.append(("speed", f"{job.rows_per_second:,.0f} a second"))
    if job.error:
        facts.append(("last error", _line(job.error)))
    return facts


def _share(job: Job) -> str:
    if job.offsets is None:
        return "-"
    # What is all but done is not done yet.
    return f"{100 * job.offsets_done // job.offsets if job.offsets else 100}%"


def _line(text: str) -> str:
    """Return what a run has said as one line that leaves the terminal as it is."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split()) or "-"
