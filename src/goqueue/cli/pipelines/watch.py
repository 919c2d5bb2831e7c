"""`goqueue pipeline list`, `describe` and `stop`: pipelines that run somewhere, as they have reported to the broker."""

from __future__ import annotations

from typing import Annotated

import typer

from goqueue.cli.connection import DEFAULT_SERVER, PipelineArgument, ServerOption, connected
from goqueue.cli.terminal.output import Format, FormatOption


def list_pipelines(*, server: ServerOption = DEFAULT_SERVER, output_format: FormatOption = Format.TABLE) -> None:
    """List the pipelines that run, or did within the last hour: how fast each is, and how far behind.

    Example: [bold]goqueue pipeline list[/bold]

    Example: [bold]goqueue pipeline list --format json | jq 'select(.is_running | not)'[/bold]
    """
    from goqueue.cli.pipelines import watch_output as pipeline_watch_output
    from goqueue.client import pipelines

    with connected(server) as client:
        found = client.send(pipelines.list_all())
    pipeline_watch_output.show_list(found, output_format)


def describe(
    pipeline: PipelineArgument, *, server: ServerOption = DEFAULT_SERVER, output_format: FormatOption = Format.TABLE
) -> None:
    """Describe a pipeline: its run, what went wrong last, and how fast and how far each of its queries is.

    Example: [bold]goqueue pipeline describe orders[/bold]
    """
    from goqueue.cli.pipelines import watch_output as pipeline_watch_output
    from goqueue.client import pipelines

    with connected(server) as client:
        found = client.send(pipelines.describe(pipeline))
    pipeline_watch_output.show_pipeline(found, output_format)


def stop(
    pipeline: PipelineArgument,
    *,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it has stopped.")] = True,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=0.0, help="How long to wait at most.")
    ] = 120.0,
    server: ServerOption = DEFAULT_SERVER,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Stop a pipeline, wherever it runs: it finishes the batch that it is at, and ends.

    What it has done is kept, and its next run goes on from there. One that
    does not run any more is left alone. Exits with 1 if it is not known to
    have stopped, or has failed.

    Example: [bold]goqueue pipeline stop orders[/bold]

    Example: [bold]goqueue pipeline stop orders --no-wait[/bold]
    """
    from goqueue.cli.pipelines.stop import stop_pipeline
    from goqueue.cli.pipelines.watch_output import show_stop, telling_progress

    with connected(server) as client, telling_progress(pipeline) as tell:
        outcome = stop_pipeline(client, pipeline, wait_s=timeout if wait else 0.0, tell=tell)
    show_stop(outcome, output_format)
    if wait and not outcome.is_good_end:
        raise typer.Exit(1)
