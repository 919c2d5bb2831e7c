"""`goqueue job`: work on whole topics that Spark does and that ends by itself. A file for each such verb."""

from __future__ import annotations

import typer

from goqueue.cli.jobs import archive as job_archive
from goqueue.cli.jobs import replay as job_replay
from goqueue.cli.jobs import watch as job_watch

app = typer.Typer(no_args_is_help=True, help="Run jobs on Spark, and watch them: archive topics, and replay them.")


@app.callback()
def job() -> None:
    """Run jobs on Spark, and watch them: archive topics, and replay them."""


app.command()(job_archive.archive)
app.command()(job_replay.replay)
app.command("list")(job_watch.list_jobs)
app.command()(job_watch.describe)
