"""`goqueue job`: work on whole topics that Spark does and that ends by itself. A file for each verb."""

from __future__ import annotations

import typer

from goqueue.cli import job_archive, job_replay

app = typer.Typer(no_args_is_help=True, help="Run jobs on Spark: archive topics, and replay them.")


@app.callback()
def job() -> None:
    """Run jobs on Spark: archive topics, and replay them."""


app.command()(job_archive.archive)
app.command()(job_replay.replay)
