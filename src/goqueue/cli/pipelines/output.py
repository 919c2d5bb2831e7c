"""Output of `goqueue pipeline`: mistakes in the style of compilers, plans as drawings, and rows for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from goqueue.cli.terminal.output import Format, Row, show
from goqueue.cli.terminal.streams import console
from goqueue.model.units import count_text
from goqueue.spark.pipelines.render.picture import Picture
from goqueue.spark.pipelines.render.text import Part, draw_text
from goqueue.spark.pipelines.spec.nodes import Mistake, MistakeSeverity

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from goqueue.spark.pipelines import LoadedFile

_SHOWN_CHARACTERS_MAX = 150
_STYLES = {
    Part.LANE: "dim",
    Part.NAME: "bold",
    Part.WORDS: "",
    Part.TITLE: "bold",
    Part.SOURCE: "blue",
    Part.STEP: "magenta",
    Part.SINK: "green",
    Part.DEAD: "red",
}


def show_readings(readings: Sequence[LoadedFile], output_format: Format) -> None:
    """Print the mistakes of files, and a summary line per file."""
    if output_format is not Format.TABLE:
        for reading in readings:
            show("mistake", [_mistake_row(reading, mistake) for mistake in reading.mistakes], output_format)
            show("pipeline", [_reading_row(reading)], output_format)
        return
    for reading in readings:
        show_mistakes(reading)
        _console().print(_summary(reading), soft_wrap=True)


def show_mistakes(reading: LoadedFile, *, is_aside: bool = False) -> None:
    """Print each mistake of a file: its location, the line with a mark below, and a hint."""
    screen = _console(is_aside=is_aside)
    for mistake in reading.mistakes:
        for line in _mistake_lines(reading, mistake):
            screen.print(line, soft_wrap=True)


def show_plan(picture: Picture, reading: LoadedFile, output_format: Format) -> None:
    """Print a plan."""
    from rich.text import Text

    if output_format is not Format.TABLE:
        show("pipeline", [_reading_row(reading)], output_format)
        show("part", _part_rows(picture), output_format)
        return
    screen = _console()
    for line in draw_text(picture):
        text = Text.assemble(*((piece, _STYLES[part]) for part, piece in line))
        text.rstrip()
        screen.print(text, soft_wrap=True)


def _mistake_lines(reading: LoadedFile, mistake: Mistake) -> Iterator[Text]:
    from rich.text import Text

    line, column = mistake.place.line, mistake.place.column
    colour = "red" if mistake.severity is MistakeSeverity.ERROR else "yellow"
    yield Text.assemble(
        (f"{reading.file}:{line}:{column}: ", "bold"),
        (mistake.severity.value, f"bold {colour}"),
        f": {mistake.message}",
    )
    lines = reading.text.splitlines()
    if 0 < line <= len(lines):
        source, mark = _excerpt(lines[line - 1], column)
        yield Text.assemble((f"{line:>6} | ", "dim"), source)
        yield Text.assemble((f"{'':>6} | ", "dim"), (mark, f"bold {colour}"))
    if mistake.hint:
        yield Text.assemble((f"{'':>6} = ", "dim"), f"hint: {mistake.hint}")


def _excerpt(line: str, column: int) -> tuple[str, str]:
    """Return a line, cut around a column if it is long, and another line with a mark below that column."""
    from rich.cells import cell_len

    start = max(0, column - _SHOWN_CHARACTERS_MAX // 2) if len(line) > _SHOWN_CHARACTERS_MAX else 0
    shown = line[start : start + _SHOWN_CHARACTERS_MAX]
    # Tabs and control characters would misplace the mark.
    shown = "".join(character if character.isprintable() else " " for character in shown)
    return shown, " " * cell_len(shown[: column - 1 - start]) + "^"


def _summary(reading: LoadedFile) -> Text:
    from rich.text import Text

    errors, warnings = _counts(reading)
    found = [count_text(count, noun) for count, noun in ((errors, "error"), (warnings, "warning")) if count]
    if reading.pipeline is None:
        return Text.assemble((f"{reading.file}: ", "bold"), (", ".join(found), "bold red"))
    spec = reading.pipeline
    parts = [
        count_text(len(spec.sources), "source"),
        count_text(len(spec.steps), "step"),
        count_text(len(spec.sinks), "sink"),
    ]
    text = f"pipeline {spec.name} with {', '.join(parts)}"
    return Text.assemble((f"{reading.file}: ", "bold"), ("ok", "bold green"), f", {', '.join([text, *found])}")


def _counts(reading: LoadedFile) -> tuple[int, int]:
    errors = sum(mistake.severity is MistakeSeverity.ERROR for mistake in reading.mistakes)
    return errors, len(reading.mistakes) - errors


def _mistake_row(reading: LoadedFile, mistake: Mistake) -> Row:
    return {
        "file": reading.file,
        "line": mistake.place.line,
        "column": mistake.place.column,
        "severity": mistake.severity.value,
        "message": mistake.message,
        "hint": mistake.hint,
    }


def _reading_row(reading: LoadedFile) -> Row:
    errors, warnings = _counts(reading)
    name = reading.pipeline.name if reading.pipeline else None
    return {"file": reading.file, "name": name, "is_valid": not errors, "errors": errors, "warnings": warnings}


def _part_rows(picture: Picture) -> Iterator[Row]:
    for box in picture.boxes:
        yield {
            "id": box.id,
            "type": box.kind.value,
            "name": box.name,
            "reads": list(box.reads),
            "is_stream": box.is_stream,
            "words": list(box.words),
        }


def _console(*, is_aside: bool = False) -> Console:
    return console(highlight=False, emoji=False, markup=False, stderr=is_aside)
