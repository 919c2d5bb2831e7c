"""`goqueue bench`: run the benchmarks where their package is installed, or say how to get it.

The benchmarks are the package `goqueue_bench` in the folder `bench` of the source. Wheels do not contain it.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

import typer

_PACKAGE = "goqueue_bench"
_HELP = "Measure what GoQueue does on this machine."


def add_bench(app: typer.Typer) -> None:
    """Add the command `bench` to an application."""
    if find_spec(_PACKAGE) is None:
        anything = {"allow_extra_args": True, "ignore_unknown_options": True}
        app.command("bench", help=_HELP, context_settings=anything)(_explain)
    else:
        app.add_typer(import_module(f"{_PACKAGE}.cli.commands").app, name="bench")


def _explain() -> None:
    typer.echo(
        f"goqueue: the benchmarks are not installed: the package {_PACKAGE} is part of the source, not of the wheel. "
        "Clone the repository and run `make install`, or add the folder `bench` of a clone to PYTHONPATH.",
        err=True,
    )
    raise typer.Exit(1)
