"""`goqueue job`: jobs on Spark that process whole topics and end. Each job has a file of its own."""

from __future__ import annotations

import typer

from goqueue.cli.jobs import archive as job_archive
from goqueue.cli.jobs import replay as job_replay
from goqueue.cli.jobs import watch as job_watch

app = typer.Typer(no_args_is_help=True, help="Archive and replay topics on Spark, and watch these jobs.")


@app.callback()
def job() -> None:
    """Archive and replay topics on Spark, and watch these jobs."""


app.command()(job_archive.archive)
app.command()(job_replay.replay)
app.command("list")(job_watch.list_jobs)
app.command()(job_watch.describe)
