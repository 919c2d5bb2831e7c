"""`goqueue bench`: measure this machine with GoQueue on it, and show the numbers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.cli import bench_broker

if TYPE_CHECKING:
    from goqueue.bench.machine import Machine
    from goqueue.bench.measure import Result

_WIDE_COLUMNS = 140

app = typer.Typer(no_args_is_help=True, help="Measure what GoQueue does on this machine.")
for command in (bench_broker.publish, bench_broker.replay, bench_broker.latency, bench_broker.requests):
    app.command()(command)


@app.callback()
def bench() -> None:
    """Measure what GoQueue does on this machine."""


@app.command()
def log(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    output: Annotated[Path | None, typer.Option(help="Also write the JSON object to this file.")] = None,
    data_dir: Annotated[
        Path | None, typer.Option(file_okay=False, exists=True, help="Work in a directory below this one.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Smaller sizes, rougher numbers, a few seconds.")] = False,
) -> None:
    """Measure appending, committing, reading, opening and memory of the log, against this disk's own speed.

    Everything is written to a directory of its own, which is removed at the end. A goal that is missed does not make
    the command fail; work that was not done does.

    Example: [bold]goqueue bench log --quick --data-dir /mnt/data[/bold]
    """
    from goqueue.bench.log import FULL, QUICK, private_workspace, run
    from goqueue.bench.machine import describe
    from goqueue.bench.measure import BenchmarkFailed

    with private_workspace(data_dir) as workspace, _status() as announce:
        machine = describe(workspace)
        try:
            results = list(run(workspace, QUICK if quick else FULL, announce))
        except BenchmarkFailed as error:
            typer.echo(f"goqueue: {error}", err=True)
            raise typer.Exit(1) from None
    document = json.dumps({"machine": machine._asdict(), "results": _as_dict(results)}, indent=2)
    if output is not None:
        output.write_text(document + "\n", "utf-8")
    if as_json:
        typer.echo(document)
    else:
        show(machine, results)


@contextmanager
def _status() -> Iterator[Callable[[str], None]]:
    """Show what is being measured, on a terminal only."""
    from rich.console import Console

    console = Console(stderr=True)
    with console.status("") as status:
        yield lambda what: status.update(f"{what} ...")


def _as_dict(results: Sequence[Result]) -> dict[str, dict[str, object]]:
    return {
        result.name: {
            "what": result.what,
            "value": _rounded(result.value),
            "unit": result.unit,
            "goal": f"{result.goal.aim.value} {result.goal.bound:g}" if result.goal else None,
            "is_met": result.is_met,
            **{name: _rounded(number) for name, number in result.details.items()},
        }
        for result in results
    }


def show(machine: Machine, results: Sequence[Result]) -> None:
    """Print the results as a table with goal and verdict."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    # What a value was made from is for wide terminals; the JSON output has it anyway.
    is_wide = console.width >= _WIDE_COLUMNS
    table = Table(title=f"{machine.cpu}, {machine.cores} cores, {machine.file_system}, {machine.python}")
    for name in ("measured", "value", "goal", "", *(["from"] if is_wide else [])):
        table.add_column(name, justify="right" if name == "value" else "left")
    verdicts = {True: "[green]met[/green]", False: "[red]missed[/red]", None: ""}
    for result in results:
        goal = f"{result.goal.aim.value} {result.goal.bound:g} {result.unit}" if result.goal else ""
        value = f"{_rounded(result.value):,} {result.unit}"
        numbers = [_in_units(name, number) for name, number in result.details.items() if not name.endswith("rounds")]
        row = [result.what, value, goal, verdicts[result.is_met]]
        table.add_row(*row, *([", ".join(numbers)] if is_wide else []))
    console.print(table)


def _in_units(name: str, number: float) -> str:
    """Return a detail for the table: its name says its unit."""
    if name.endswith("bytes_per_second"):
        words = name.removesuffix("bytes_per_second").replace("_", " ")
        return f"{words}{number / 1e6:,.0f} MB/s"
    if "bytes" in name.split("_") and number >= 1e6:
        return f"{name.replace('_bytes', '').replace('bytes_', '').replace('_', ' ')} {number / 2**20:,.0f} MiB"
    return f"{name.replace('_', ' ')} {_rounded(number):,}"


def _rounded(number: float) -> float:
    """Keep four digits: more would pretend."""
    return number if isinstance(number, int) else round(number) if abs(number) >= 1000 else float(f"{number:.4g}")
