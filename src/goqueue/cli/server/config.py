"""`goqueue config`: look at the settings that a server would have; and the options that stand for settings.

Every command that takes settings takes the same options, made from the one list of settings:

    @app.command()
    @takes_settings
    def serve(loaded: Loaded, *, other: Annotated[...] = ...) -> None: ...

The options go to the settings as text, so that mistakes in flags, environment and file are told together.
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

_PANELS = {Group.SERVER: "Server", Group.TOPICS: "Topics that do not say otherwise", Group.LIMITS: "Limits"}
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
    """Return the annotation of an option that is None unless it is given; so its default is part of the help."""
    default = setting.kind.text(setting.default) or "none"
    choices = f"{setting.kind.allowed}; " if isinstance(setting.default, StrEnum) else ""
    is_switch = isinstance(setting.default, bool)
    declared = typer.Option(
        f"{setting.flag}/--no-{setting.flag.removeprefix('--')}" if is_switch else setting.flag,
        metavar=setting.kind.metavar,
        help=rf"{setting.description} [dim]\[{choices}default: {default}][/dim]",
        # Two columns of names would leave no room for those of the other options.
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

    The command gets what was loaded from flags, environment and file; mistakes there end it with exit code 2. Its
    module has to import `Loaded` for good, since typer looks at the types of arguments.
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
    # Not as an attribute: to a type checker, functions have none of that name.
    run.__dict__["__signature__"] = Signature([*own, _as_parameter("config", _ConfigOption), *_setting_parameters()])
    return run


app = typer.Typer(no_args_is_help=True, help="Look at the settings of a server.")


@app.callback()
def config() -> None:
    """Look at the settings of a server."""


@app.command("show")
@takes_settings
def show_settings(loaded: Loaded, *, output_format: FormatOption = Format.TABLE) -> None:
    """Show each setting that a server would have with these options: its value, its source and what it does.

    Options are stronger than environment variables (GOQUEUE_HOST is --host), and these than the TOML file.
    All mistakes in any of them are told at once, with exit code 2.

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
    """Print a table as wide as the terminal, or without breaking any line if it goes elsewhere."""
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
