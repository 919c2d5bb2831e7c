"""Rows in the format that was asked for. `tables` has the tables for people.

| format | shape                                                                                         |
|--------|-----------------------------------------------------------------------------------------------|
| table  | a table per kind of row, in blocks, so that a million rows need no more memory than a hundred |
| json   | one JSON object per row and line (JSON Lines); `kind` names its type                          |
| yaml   | one list with an entry per row                                                                |

Rows are streamed: a row or its block is printed before the next is read.

The YAML is written here, because the command line installs without a YAML library. Texts and numbers are written as
JSON, which is valid YAML, so that no parser takes a text for a boolean or a date.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.cli.terminal.streams import console
from goqueue.model.visible_text import visible, visible_json

if TYPE_CHECKING:
    from rich.console import Console

Value = str | int | float | bool | None | Sequence["Value"] | Mapping[str, "Value"]
Row = Mapping[str, Value]

_BLOCK_ROWS = 200
# Rows are wider than most screens; the terminal wraps them, and columns keep their width.
_WIDTH_MAX = 10_000
_YAML_INDENT = "  "
_YAML_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Names that some YAML parsers take for booleans or null.
_YAML_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
# JSON writes characters above U+FFFF as surrogate pairs, which YAML does not have.
_SURROGATES = re.compile(r"(?<!\\)((?:\\\\)*)\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})")


class Format(StrEnum):
    """The output format."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


FormatOption = Annotated[Format, typer.Option("--format", help="Output format: table, JSON Lines or YAML.")]


def show(kind: str, rows: Iterable[Row], output_format: Format, *, title: str = "") -> None:
    """Print rows of one kind; the title of a table is `title` or the kind."""
    if output_format is Format.TABLE:
        _show_table(title or kind, rows)
        return
    for row in rows:
        labelled = {"kind": kind, **row}
        if output_format is Format.JSON:
            sys.stdout.write(visible_json(json.dumps(labelled)) + "\n")
        else:
            sys.stdout.write(yaml_entry(labelled))


def fields(value: object, *names: str) -> dict[str, Value]:
    """Return a value as a row: all of its fields as JSON has them, or the named ones in that order."""
    import msgspec

    row: dict[str, Value] = msgspec.convert(msgspec.to_builtins(value), dict)
    return {name: row[name] for name in names} if names else row


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


def yaml_entry(row: Mapping[str, object]) -> str:
    """Return a row as an entry of a YAML list, with a line feed at its end."""
    first, *rest = _yaml_lines(row)
    return "".join(f"{line}\n" for line in [f"- {first}", *(_YAML_INDENT + line for line in rest)])


def _yaml_lines(value: object) -> Iterator[str]:
    """Yield the lines of a non-empty mapping or sequence, without indentation."""
    if isinstance(value, Mapping):
        for name, below in value.items():
            if _is_block(below):
                yield f"{_yaml_name(str(name))}:"
                yield from (_YAML_INDENT + line for line in _yaml_lines(below))
            else:
                yield f"{_yaml_name(str(name))}: {_yaml_scalar(below)}"
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for below in value:
            first, *rest = _yaml_lines(below) if _is_block(below) else [_yaml_scalar(below)]
            yield f"- {first}"
            yield from (_YAML_INDENT + line for line in rest)


def _is_block(value: object) -> bool:
    return isinstance(value, Mapping | Sequence) and not isinstance(value, str) and bool(value)


def _yaml_name(name: str) -> str:
    return name if _YAML_NAME.fullmatch(name) and name.lower() not in _YAML_WORDS else _yaml_scalar(name)


def _yaml_scalar(value: object) -> str:
    written = json.dumps(value)
    if isinstance(value, str):
        # JSON does not escape DEL, and YAML does not allow it.
        return _SURROGATES.sub(_whole, written).replace("\x7f", "\\x7f")
    # Many YAML parsers take 1e5 for text, and 1.0e5 for a number.
    return written.replace("e", ".0e") if isinstance(value, float) and "." not in written else written


def _whole(halves: re.Match[str]) -> str:
    high, low = int(halves[2], 16), int(halves[3], 16)
    return f"{halves[1]}\\U{0x10000 + ((high & 0x3FF) << 10) + (low & 0x3FF):08x}"
