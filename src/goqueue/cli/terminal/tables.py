"""Tables and facts for people: aligned, as wide as the terminal allows, with sizes that can be read.

A noun declares its `Table` once: the kind of its rows, its columns, and how a value becomes a row of JSON or YAML.
Cells are never wrapped or shortened, so that copied text is complete. On a narrow terminal, columns with a `spared`
number are left out, the greatest number first; pipes and files get all columns. Control characters in cells and facts
are escaped (`\\x1b`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from goqueue.cli.terminal.output import Format, Row, fields, show
from goqueue.cli.terminal.streams import console
from goqueue.model.visible_text import visible

if TYPE_CHECKING:
    from rich.console import Console

_GAP = 2
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")

T = TypeVar("T")


class Column(NamedTuple, Generic[T]):
    """A column: its heading, and the cell of a value. None is shown as `-`, a number with commas."""

    heading: str
    cell: Callable[[T], str | int | None]
    is_number: bool = False
    spared: int = 0
    is_hidden_if_empty: bool = False


class Table(Generic[T]):
    """How values of one type are printed: their columns for people, their rows for programs."""

    def __init__(
        self,
        kind: str,
        *columns: Column[T],
        row: Callable[[T], Row] = fields,
        style: Callable[[T], str] | None = None,
    ) -> None:
        self._kind = kind
        self._columns = columns
        self._row = row
        self._style = style

    def show(self, values: Sequence[T], output_format: Format) -> None:
        """Print values in the format that was asked for."""
        if output_format is Format.TABLE:
            self.print(values)
        else:
            show(self._kind, map(self._row, values), output_format)

    def print(self, values: Sequence[T], *, is_aside: bool = False) -> None:
        """Print a table, to standard error if `is_aside`; only headings if there are no values."""
        from rich.text import Text

        screen = _console(is_aside=is_aside)
        columns = [each for each in self._columns if not each.is_hidden_if_empty or any(map(each.cell, values))]
        rows = [[visible(_text(column.cell(value))) for column in columns] for value in values]
        widths = _widths(columns, rows)
        shown = _fitting(columns, widths, screen)
        styles = [self._style(value) if self._style else "" for value in values]
        headings = [column.heading for column in columns]
        rule = ["─" * width for width in widths]
        for cells, style in ((headings, "bold"), (rule, "dim"), *zip(rows, styles, strict=True)):
            line = (" " * _GAP).join(_aligned(cells[index], widths[index], columns[index]) for index in shown)
            # The terminal breaks a line that is still too long, and copies it whole.
            screen.print(Text(line.rstrip(), style=style), soft_wrap=True)


def clean(text: str) -> str:
    """Escape control characters in text of clients that goes into a sentence; cells and facts are escaped anyway."""
    return visible(text)


def print_facts(facts: Iterable[tuple[str, str]], *, title: str = "") -> None:
    """Print names and values, one pair a line."""
    from rich.text import Text

    facts = [(visible(name), visible(value)) for name, value in facts]
    screen = _console()
    if title:
        screen.print(Text(visible(title), style="bold"), soft_wrap=True)
    width = max((len(name) for name, _ in facts), default=0)
    for name, value in facts:
        screen.print(Text.assemble((f"  {name:<{width}}", "dim"), f"  {value}"), soft_wrap=True)


def size_text(size: float) -> str:
    """Return a size with about three digits: `1.2 MiB`."""
    for unit in _UNITS[:-1]:
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} {_UNITS[-1]}"


def data_text(data: bytes | None, chars_max: int = 60) -> str | None:
    """Return a key or a value as a cell, shortened; None if there is none."""
    if data is None:
        return None
    text = visible(data.decode("utf-8", "replace"))
    return text if len(text) <= chars_max else text[: chars_max - 3] + "..."


def one_line(text: str) -> str:
    """Return text as one line without control characters; `-` if nothing is left."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split()) or "-"


def _text(cell: str | int | None) -> str:
    if cell is None:
        return "-"
    return cell if isinstance(cell, str) else f"{cell:,}"


def _console(*, is_aside: bool = False) -> Console:
    return console(highlight=False, emoji=False, markup=False, stderr=is_aside)


def _widths(columns: Sequence[Column[T]], rows: Sequence[Sequence[str]]) -> list[int]:
    from rich.cells import cell_len

    return [
        max([cell_len(column.heading), *(cell_len(cells[index]) for cells in rows)])
        for index, column in enumerate(columns)
    ]


def _fitting(columns: Sequence[Column[T]], widths: Sequence[int], console: Console) -> list[int]:
    """Return the columns that fit on the terminal."""
    shown = list(range(len(columns)))
    while console.is_terminal and sum(widths[index] + _GAP for index in shown) - _GAP > console.width:
        spare = [index for index in shown if columns[index].spared]
        if not spare:
            break
        shown.remove(max(spare, key=lambda index: columns[index].spared))
    return shown


def _aligned(cell: str, width: int, column: Column[T]) -> str:
    from rich.cells import cell_len

    padding = " " * (width - cell_len(cell))
    return padding + cell if column.is_number else cell + padding
