"""`goqueue config`: show the settings of a server; and the options of commands that take settings.

These options are generated from the list of settings:

    @app.command()
    @takes_settings
    def serve(loaded: Loaded, *, other: Annotated[...] = ...) -> None: ...

Options are passed on as text, so that mistakes in flags, environment and file are reported together.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, Concatenate, TypeVar

import typer

from goqueue.cli.terminal.output import Format, FormatOption, Row, show, wide_console
from goqueue.cli.terminal.streams import console
from goqueue.errors import InvalidSettings
from goqueue.server.settings import SETTINGS, Group, Setting
from goqueue.server.settings_sources import DEFAULT, Effective, Loaded, load

R = TypeVar("R")

_PANELS = {Group.SERVER: "Server", Group.TOPICS: "Topic defaults", Group.LIMITS: "Limits"}
_ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Read settings from this TOML file; GOQUEUE_CONFIG does the same."),
]


def _setting_parameters() -> Iterator[Parameter]:
    for setting in SETTINGS.values():
        yield _as_parameter(setting.name, _option(setting))


def _as_parameter(name: str, annotation: Any) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _option(setting: Setting) -> Any:
    """Return the annotation of an option; its value is None if not given, so the help shows the default as text."""
    default = setting.kind.text(setting.default) or "none"
    choices = f"{setting.kind.allowed}; " if isinstance(setting.default, StrEnum) else ""
    is_switch = isinstance(setting.default, bool)
    declared = typer.Option(
        f"{setting.flag}/--no-{setting.flag.removeprefix('--')}" if is_switch else setting.flag,
        metavar=setting.kind.metavar,
        help=rf"{setting.description} [dim]\[{choices}default: {default}][/dim]",
        # Their long names would make the column of the other options too narrow.
        rich_help_panel="Switches" if is_switch else _PANELS[setting.group],
        show_default=False,
    )
    return Annotated[bool | None, declared] if is_switch else Annotated[str | None, declared]


def _tell(error: InvalidSettings) -> None:
    count = len(error.mistakes)
    typer.echo(f"goqueue: {count} {'mistake' if count == 1 else 'mistakes'} in the settings", err=True)
    for mistake in error.mistakes:
        typer.echo(f"  {mistake.line}", err=True)


def takes_settings(command: Callable[Concatenate[Loaded, ...], R]) -> Callable[..., R]:
    """Give a command an option for each setting, and `--config`, in place of its first argument.

    The command gets the settings from flags, environment and file; mistakes exit with code 2. Its module has to import
    `Loaded` at run time, because typer evaluates the types of arguments.
    """

    @wraps(command)
    def run(**given: Any) -> R:
        file = given.pop("config")
        options = {name: given.pop(name) for name in SETTINGS}
        flags = {name: str(option) for name, option in options.items() if option is not None}
        try:
            loaded = load(flags, os.environ, file)
        except InvalidSettings as error:
            _tell(error)
            raise typer.Exit(2) from None
        return command(loaded, **given)

    _, *own = signature(command, eval_str=True).parameters.values()
    # Through __dict__, because type checkers know no such attribute of functions.
    run.__dict__["__signature__"] = Signature([*own, _as_parameter("config", _ConfigOption), *_setting_parameters()])
    return run


app = typer.Typer(no_args_is_help=True, help="Show the settings of a server.")


@app.callback()
def config() -> None:
    """Show the settings of a server."""


@app.command("show")
@takes_settings
def show_settings(loaded: Loaded, *, output_format: FormatOption = Format.TABLE) -> None:
    """Show the value, source and description of each setting of a server with these options.

    Options override environment variables (GOQUEUE_HOST is --host), which override the TOML file. Reports all mistakes
    at once, and exits with 2.

    Example: [bold]goqueue config show --config goqueue.toml --kafka-port 19092[/bold]
    """
    if output_format is Format.TABLE:
        _show_table(loaded.values)
    else:
        show("setting", map(_as_row, loaded.values), output_format)


def _as_row(effective: Effective) -> Row:
    return {
        "name": effective.setting.name,
        "value": effective.value,
        "source": effective.source,
        "description": effective.setting.description,
    }


def _show_table(values: Iterable[Effective]) -> None:
    """Print a table as wide as the terminal; without line breaks into a pipe or file."""
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    screen = console(highlight=False, emoji=False)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("name", no_wrap=True)
    for heading in ("value", "source", "description"):
        table.add_column(heading, overflow="fold")
    for effective in values:
        cells = (str(cell) for cell in _as_row(effective).values())
        table.add_row(*map(escape, cells), style=None if effective.source == DEFAULT else "bold")
    (screen if screen.is_terminal else wide_console()).print(table)
