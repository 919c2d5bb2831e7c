"""Tables and words for people: aligned, as wide as the terminal allows, with sizes and times that can be read.

Cells are never wrapped or shortened, so that what is copied is whole. If a terminal is too narrow for all columns,
those that can be spared are left out; what goes elsewhere than to a terminal has all of them. Programs read the
formats of `output` instead. Control characters in cells and facts are written out (`\\x1b`), whoever chose them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from goqueue.cli.terminal.streams import console
from goqueue.model.visible_text import visible

if TYPE_CHECKING:
    from rich.console import Console

_GAP = 2
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


class Column(NamedTuple):
    """A column; of those that can be `spared`, the greatest number goes first."""

    heading: str
    is_number: bool = False
    spared: int = 0


class Row(NamedTuple):
    """The cells of a row, and how it is set apart."""

    cells: Sequence[str]
    style: str = ""


def clean(text: str) -> str:
    """Return what clients have chosen as a sentence can show it; cells and facts are cleaned anyway."""
    return visible(text)


def print_table(columns: Sequence[Column], rows: Iterable[Row], *, is_aside: bool = False) -> None:
    """Print a table; nothing but its headings if there are no rows. What is aside goes to standard error."""
    from rich.text import Text

    screen = _console(is_aside=is_aside)
    rows = [Row([visible(cell) for cell in row.cells], row.style) for row in rows]
    widths = _widths(columns, rows)
    shown = _fitting(columns, widths, screen)
    rule = ["─" * width for width in widths]
    headings = [column.heading for column in columns]
    for cells, style in ((headings, "bold"), (rule, "dim"), *rows):
        line = (" " * _GAP).join(_aligned(cells[index], widths[index], columns[index]) for index in shown)
        # A line that is still too long is broken by the terminal, which copies it whole.
        screen.print(Text(line.rstrip(), style=style), soft_wrap=True)


def print_facts(facts: Iterable[tuple[str, str]], *, title: str = "") -> None:
    """Print names and what they stand for, one below the other."""
    from rich.text import Text

    facts = [(visible(name), visible(value)) for name, value in facts]
    screen = _console()
    if title:
        screen.print(Text(visible(title), style="bold"), soft_wrap=True)
    width = max((len(name) for name, _ in facts), default=0)
    for name, value in facts:
        screen.print(Text.assemble((f"  {name:<{width}}", "dim"), f"  {value}"), soft_wrap=True)


def size_text(size: float) -> str:
    """Return a size with three digits or so: `1.2 MiB`."""
    for unit in _UNITS[:-1]:
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} {_UNITS[-1]}"


def count_text(count: int, noun: str = "") -> str:
    """Return a number with commas, and of what: `1 message`, `12,345 messages`."""
    if not noun:
        return f"{count:,}"
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def time_text(timestamp_ms: int) -> str:
    """Return a moment by the clock on the wall here, to the millisecond; `-` if there is none."""
    if timestamp_ms < 0:
        return "-"
    try:
        moment = datetime.fromtimestamp(timestamp_ms // 1000, UTC).astimezone()
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{timestamp_ms % 1000:03}"


def _console(*, is_aside: bool = False) -> Console:
    return console(highlight=False, emoji=False, markup=False, stderr=is_aside)


def _widths(columns: Sequence[Column], rows: Sequence[Row]) -> list[int]:
    from rich.cells import cell_len

    return [
        max([cell_len(column.heading), *(cell_len(row.cells[index]) for row in rows)])
        for index, column in enumerate(columns)
    ]


def _fitting(columns: Sequence[Column], widths: Sequence[int], console: Console) -> list[int]:
    """Return which columns have room."""
    shown = list(range(len(columns)))
    while console.is_terminal and sum(widths[index] + _GAP for index in shown) - _GAP > console.width:
        spare = [index for index in shown if columns[index].spared]
        if not spare:
            break
        shown.remove(max(spare, key=lambda index: columns[index].spared))
    return shown


def _aligned(cell: str, width: int, column: Column) -> str:
    from rich.cells import cell_len

    padding = " " * (width - cell_len(cell))
    return padding + cell if column.is_number else cell + padding
