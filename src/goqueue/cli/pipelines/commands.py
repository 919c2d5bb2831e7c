"""`goqueue pipeline`: begin and check pipelines, which needs no Spark, Java or broker, and watch those that run."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.cli.pipelines import run as pipeline_run
from goqueue.cli.pipelines import watch as pipeline_watch
from goqueue.cli.terminal.output import Format, FormatOption
from goqueue.errors import Conflict, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goqueue.spark.pipelines import LoadedFile

SAMPLE_NAME = "pipeline.yaml"

app = typer.Typer(no_args_is_help=True, help="Create, check, watch and stop pipelines.")

_FileArgument = Annotated[
    Path,
    typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="A pipeline file (YAML), or a module (.py)."),
]
_FilesArgument = Annotated[
    list[Path],
    typer.Argument(metavar="FILE...", exists=True, dir_okay=False, help="Pipeline files (YAML), or modules (.py)."),
]


@app.command()
def init(
    directory: Annotated[
        Path, typer.Argument(metavar="[DIR]", file_okay=False, help="Target directory; created if missing.")
    ] = Path(),
) -> None:
    """Write a commented sample pipeline. Overwrites nothing.

    Example: [bold]goqueue pipeline init orders[/bold]
    """
    from importlib.resources import files

    sample = files("goqueue.spark.pipelines").joinpath("sample.yaml").read_text("utf-8")
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / SAMPLE_NAME
    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(sample)
    except FileExistsError:
        raise Conflict(f"{file} exists", hint="name another directory, or remove it") from None
    typer.echo(f"wrote {file}; check it with `goqueue pipeline validate {file}`")


@app.command()
def validate(
    files: _FilesArgument,
    *,
    strict: Annotated[bool, typer.Option("--strict", help="Treat warnings as errors.")] = False,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Report all mistakes in pipeline files, with locations and suggestions.

    Files are only read; a module is imported, which runs what is at its top
    level. Exits with 1 if there is an error.

    Example: [bold]goqueue pipeline validate pipeline.yaml[/bold]

    Example: [bold]goqueue pipeline validate --strict --format json pipelines/*.yaml[/bold]
    """
    readings = [_read(file) for file in files]
    from goqueue.cli.pipelines import output as pipeline_output

    pipeline_output.show_readings(readings, output_format)
    if any(reading.pipeline is None or (strict and reading.mistakes) for reading in readings):
        raise typer.Exit(1)


@app.command()
def plan(
    file: _FileArgument,
    *,
    mermaid: Annotated[
        Path | None,
        typer.Option("--mermaid", metavar="OUT", dir_okay=False, help="Write a Mermaid diagram to this file instead."),
    ] = None,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Show the plan of a pipeline: its sources, steps and sinks, and how they are connected.

    Example: [bold]goqueue pipeline plan pipeline.yaml[/bold]

    Example: [bold]goqueue pipeline plan pipeline.yaml --mermaid plan.mmd[/bold]
    """
    reading = _read(file)
    from goqueue.cli.pipelines import output as pipeline_output
    from goqueue.spark.pipelines.render.picture import picture_of

    pipeline_output.show_mistakes(reading, is_aside=True)
    if reading.pipeline is None:
        raise typer.Exit(1)
    picture = picture_of(reading.pipeline)
    if mermaid is None:
        pipeline_output.show_plan(picture, reading, output_format)
        return
    from goqueue.spark.pipelines.render.mermaid import draw_mermaid

    mermaid.write_text(draw_mermaid(picture), "utf-8")
    typer.echo(f"wrote {mermaid}", err=True)


app.command()(pipeline_run.run)
app.command("list")(pipeline_watch.list_pipelines)
app.command()(pipeline_watch.describe)
app.command()(pipeline_watch.stop)


def _read(file: Path) -> LoadedFile:
    """Read a pipeline. Called before other imports of pipelines, which all fail without PyYAML."""
    with _telling_what_to_install():
        from goqueue.spark.pipelines import load

    return load(file, os.environ)


@contextmanager
def _telling_what_to_install() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != "yaml":
            raise
        raise Unavailable("PyYAML is not installed", hint="pip install 'goqueue[spark]'") from None
