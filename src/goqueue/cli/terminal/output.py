"""Everything that commands print, in the format that was asked for.

| format | shape                                                                                        |
|--------|----------------------------------------------------------------------------------------------|
| table  | a table per kind of row, in blocks, so that a million rows need no more memory than a hundred |
| json   | one JSON object per row and line (JSON Lines); its `kind` says what it is                     |
| yaml   | one list with an entry per row, see `yaml_rows`                                              |

Rows are streamed: each is printed, or its block, before all have been read.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.cli.terminal.streams import console
from goqueue.cli.terminal.yaml_rows import yaml_entry
from goqueue.model.visible_text import visible, visible_json

if TYPE_CHECKING:
    from rich.console import Console

Value = str | int | float | bool | None | Sequence["Value"] | Mapping[str, "Value"]
Row = Mapping[str, Value]

_BLOCK_ROWS = 200
# Rows of facts are wider than most screens: let the terminal wrap them rather than squeeze their columns.
_WIDTH_MAX = 10_000


class Format(StrEnum):
    """How rows are printed."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


FormatOption = Annotated[Format, typer.Option("--format", help="How to print: a table, JSON Lines or YAML.")]


def show(kind: str, rows: Iterable[Row], output_format: Format, *, title: str = "") -> None:
    """Print rows of one kind; a table is headed by its title, or else by the kind."""
    if output_format is Format.TABLE:
        _show_table(title or kind, rows)
        return
    for row in rows:
        labelled = {"kind": kind, **row}
        if output_format is Format.JSON:
            sys.stdout.write(visible_json(json.dumps(labelled)) + "\n")
        else:
            sys.stdout.write(yaml_entry(labelled))


def wide_console() -> Console:
    """Return a console that never shortens a line."""
    return console(width=_WIDTH_MAX, soft_wrap=True, highlight=False, emoji=False)


def _show_table(title: str, rows: Iterable[Row]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    screen = wide_console()
    for number, block in enumerate(_blocks(rows)):
        table = Table(
            box=SIMPLE_HEAD, title=None if number else escape(visible(title)), title_justify="left", pad_edge=False
        )
        for name, value in block[0].items():
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            table.add_column(visible(name).replace("_", " "), justify="right" if is_number else "left", no_wrap=True)
        for row in block:
            table.add_row(*(escape(visible(_cell(value))) for value in row.values()))
        screen.print(table)


def _blocks(rows: Iterable[Row]) -> Iterator[list[Row]]:
    remaining = iter(rows)
    while block := list(islice(remaining, _BLOCK_ROWS)):
        yield block


def _cell(value: Value) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return json.dumps(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(_cell(entry) for entry in value)
    return str(value)
