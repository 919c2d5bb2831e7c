"""Run a benchmark with goals, show its progress in one line, and print results as a table or as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from goqueue.cli.terminal.streams import console

if TYPE_CHECKING:
    from goqueue_bench.machine import Machine
    from goqueue_bench.measure import Result

_WIDE_COLUMNS = 140

Announce = Callable[[str], None]


def measure(data_dir: Path | None, run: Callable[[Path, Announce], Iterable[Result]]) -> tuple[Machine, list[Result]]:
    """Run a benchmark in a directory of its own; the command fails if the work was not done."""
    from goqueue_bench.log.workloads import private_workspace
    from goqueue_bench.machine import describe
    from goqueue_bench.measure import BenchmarkFailed

    with private_workspace(data_dir) as workspace, _status() as announce:
        machine = describe(workspace)
        try:
            return machine, list(run(workspace, announce))
        except BenchmarkFailed as error:
            typer.echo(f"goqueue: {error}", err=True)
            raise typer.Exit(1) from None


def present(
    machine: Machine,
    results: Sequence[Result],
    settings: Mapping[str, object],
    output: Path | None,
    *,
    as_json: bool,
) -> None:
    """Print the results, and store them if asked to; with settings if there are any."""
    facts = {
        "machine": machine._asdict(),
        **({"settings": settings} if settings else {}),
        "results": _as_dict(results),
    }
    document = json.dumps(facts, indent=2)
    if output is not None:
        output.write_text(document + "\n", "utf-8")
    if as_json:
        typer.echo(document)
    else:
        show(machine, results)


@contextmanager
def _status() -> Iterator[Callable[[str], None]]:
    """Show what is being measured, on a terminal only."""
    with console(stderr=True).status("") as status:
        yield lambda what: status.update(f"{what} ...")


def _as_dict(results: Sequence[Result]) -> dict[str, dict[str, object]]:
    return {
        result.name: {
            "what": result.what,
            "value": _rounded(result.value),
            "unit": result.unit,
            "goal": f"{result.goal.aim.value} {_short(result.goal.bound)}" if result.goal else None,
            "is_met": result.is_met,
            **{name: _rounded(number) for name, number in result.details.items()},
        }
        for result in results
    }


def show(machine: Machine, results: Sequence[Result]) -> None:
    """Print the results as a table with goal and verdict."""
    from rich.table import Table

    screen = console()
    # Details are for wide terminals; the JSON output always has them.
    is_wide = screen.width >= _WIDE_COLUMNS
    table = Table(title=f"{machine.cpu}, {machine.cores} cores, {machine.file_system}, {machine.python}")
    for name in ("measured", "value", "goal", "", *(["from"] if is_wide else [])):
        table.add_column(name, justify="right" if name == "value" else "left")
    verdicts = {True: "[green]met[/green]", False: "[red]missed[/red]", None: ""}
    for result in results:
        goal = f"{result.goal.aim.value} {_short(result.goal.bound)} {result.unit}" if result.goal else ""
        value = f"{_rounded(result.value):,} {result.unit}"
        numbers = [_in_units(name, number) for name, number in result.details.items() if not name.endswith("rounds")]
        row = [result.what, value, goal, verdicts[result.is_met]]
        table.add_row(*row, *([", ".join(numbers)] if is_wide else []))
    screen.print(table)


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


def _short(bound: float) -> str:
    return f"{bound:,.0f}" if bound >= 1000 else f"{bound:g}"
