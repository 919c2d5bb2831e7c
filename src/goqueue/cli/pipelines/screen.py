"""Output of `goqueue pipeline run`: a live table on a terminal, lines elsewhere, or JSON."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

from goqueue.cli.terminal.output import Format, show
from goqueue.cli.terminal.streams import console, write_line
from goqueue.cli.terminal.tables import clean, size_text
from goqueue.model.units import count_text
from goqueue.seams.clock import SystemClock
from goqueue.spark.failures import Failure
from goqueue.spark.pipelines.run.progress import DEAD_LETTERS_NAME, Figures, RunProgress

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live
    from rich.table import Table

    from goqueue.spark.pipelines.run.pipeline import PipelineStatus, QueryStatus
    from goqueue.spark.pipelines.run.query import Event
    from goqueue.spark.pipelines.run.session import RunScreen
    from goqueue.spark.pipelines.write.sinks import ShownRows

_LINES_EVERY_S = 1.0
_STYLES = {"running": "green", "ended": "green", "restarting": "yellow", "stopping": "yellow", "failed": "bold red"}


@contextmanager
def make_screen(output_format: Format) -> Iterator[RunScreen]:
    """Return the screen that fits the format and the terminal."""
    screen = console(highlight=False, emoji=False, markup=False)
    if output_format is not Format.TABLE:
        yield JsonLines()
    elif screen.is_terminal:
        with LiveTable(screen) as table:
            yield table
    else:
        yield Lines()


class JsonLines:
    """A JSON object per event."""

    def say(self, line: str) -> None:
        self._show("note", {"text": line})

    def tell(self, event: Event) -> None:
        from goqueue.spark.pipelines.run.query import BatchDone

        if isinstance(event, BatchDone):
            fields = {"pipeline": event.pipeline, **_progress_fields(event.progress), **asdict(event.figures)}
            self._show("batch", {**fields, "totals": asdict(event.progress.totals)})
            return
        fields = {"pipeline": event.pipeline, "query": event.query, "reason": event.failure.reason}
        self._show("failure", {**fields, "hint": event.failure.hint, "retry_seconds": event.retry_s})

    def show_rows(self, shown: ShownRows) -> None:
        rows = [dict(zip(shown.columns, row, strict=True)) for row in shown.rows]
        self._show("rows", {"sink": shown.sink, "batch": shown.batch, "rows": rows, "is_all": shown.is_all})

    def wait_for(self, what: str, waited_s: float) -> None:
        self.say(f"{what}, {waited_s:.0f} s so far")

    def refresh(self, pipelines: tuple[PipelineStatus, ...]) -> None:
        del pipelines

    def finish(self, pipelines: tuple[PipelineStatus, ...]) -> None:
        for status in pipelines:
            queries = [{"state": query.state.value, **_progress_fields(query.progress)} for query in status.queries]
            error = str(status.failure) if status.failure else None
            fields = {"name": status.name, "state": status.state.value, "restarts": status.restarts, "error": error}
            self._show("pipeline", {**fields, "queries": queries})

    def _show(self, kind: str, fields: dict[str, object]) -> None:
        show(kind, [fields], Format.JSON)  # type: ignore[list-item]
        sys.stdout.flush()


class Lines:
    """A line per event, and at most one batch of each query per second."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self._told_at: dict[tuple[str, str], float] = {}

    def say(self, line: str) -> None:
        self._print(line)

    def tell(self, event: Event) -> None:
        from goqueue.spark.pipelines.run.query import BatchDone

        if not isinstance(event, BatchDone):
            self._print(failure_line(f"{event.pipeline}/{event.query}", event.failure, event.retry_s))
            return
        key, now = (event.pipeline, event.progress.name), self._clock.monotonic()
        if now - self._told_at.get(key, -_LINES_EVERY_S) >= _LINES_EVERY_S:
            self._told_at[key] = now
            self._print(batch_line(event.pipeline, event.progress, event.figures))

    def show_rows(self, shown: ShownRows) -> None:
        _print_rows(shown, self._print)

    def wait_for(self, what: str, waited_s: float) -> None:
        self._print(f"{what}, {waited_s:.0f} s so far")

    def refresh(self, pipelines: tuple[PipelineStatus, ...]) -> None:
        del pipelines

    def finish(self, pipelines: tuple[PipelineStatus, ...]) -> None:
        for line in ending_lines(pipelines):
            self._print(line)

    def _print(self, line: str) -> None:
        write_line(line)


class LiveTable:
    """A live table below the lines."""

    def __init__(self, screen: Console) -> None:
        from rich.live import Live

        self._console = screen
        self._live: Live = Live(console=screen, refresh_per_second=4, transient=False)

    def __enter__(self) -> LiveTable:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def say(self, line: str) -> None:
        self._print(line, "dim")

    def tell(self, event: Event) -> None:
        from goqueue.spark.pipelines.run.query import QueryFailed

        if isinstance(event, QueryFailed):
            self._print(failure_line(f"{event.pipeline}/{event.query}", event.failure, event.retry_s), "red")

    def show_rows(self, shown: ShownRows) -> None:
        _print_rows(shown, self._print)

    def wait_for(self, what: str, waited_s: float) -> None:
        from rich.spinner import Spinner

        self._live.update(Spinner("dots", f"{what}, {waited_s:.0f} s so far"))

    def refresh(self, pipelines: tuple[PipelineStatus, ...]) -> None:
        self._live.update(progress_table(pipelines))

    def finish(self, pipelines: tuple[PipelineStatus, ...]) -> None:
        self._live.update(progress_table(pipelines), refresh=True)
        self._live.stop()
        for line in ending_lines(pipelines):
            self._print(line)

    def _print(self, line: str, style: str = "") -> None:
        from rich.text import Text

        self._console.print(Text(line, style=style), soft_wrap=True)


def progress_table(pipelines: Sequence[PipelineStatus]) -> RenderableType:
    """Return a table with a line per query."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table: Table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("query", "state"):
        table.add_column(heading, no_wrap=True)
    for heading in ("batch", "rows/s", "rows", "written", "lag", "batch time", "kept", "bad", "warned"):
        table.add_column(heading, justify="right", no_wrap=True)
    for pipeline in pipelines:
        for query in pipeline.queries:
            state = Text(query.state.value, style=_STYLES.get(query.state.value, ""))
            table.add_row(f"{pipeline.name}/{query.progress.name}", state, *_cells(query))
    return table


def _cells(query: QueryStatus) -> list[str]:
    progress = query.progress
    if progress.batch < 0:
        return ["-"] * 9
    return [
        str(progress.batch),
        f"{progress.rows_per_second:,.0f}",
        count_text(progress.rows),
        count_text(progress.rows_written),
        "-" if progress.lag is None else count_text(progress.lag),
        f"{progress.batch_seconds:.1f} s",
        f"{count_text(progress.state_rows)}, {size_text(progress.state_bytes)}" if progress.state_rows else "-",
        count_text(sum(progress.bad_rows.values())) if progress.bad_rows else "-",
        count_text(sum(progress.warned_rows.values())) if progress.warned_rows else "-",
    ]


def _progress_fields(progress: RunProgress) -> dict[str, object]:
    fields = asdict(progress)
    # JSON has no pairs as keys; the lag is computed from these.
    del fields["positions"]
    return fields


def batch_line(pipeline: str, progress: RunProgress, batch: Figures) -> str:
    """Return the amounts, speed and lag of the last batch of a query."""
    words = [
        _amounts(progress.name, batch),
        f"{progress.rows_per_second:,.0f} rows/s",
        f"batch took {progress.batch_seconds:.1f} s",
    ]
    if progress.lag is not None:
        words.append(f"lag {count_text(progress.lag)}")
    if progress.state_rows:
        words.append(f"keeps {count_text(progress.state_rows, 'row')}")
    words += [f"{kind} rows: {rules}" for kind, rules in _broken(batch)]
    return f"{pipeline}/{progress.name} batch {progress.batch}: {', '.join(words)}"


def failure_line(query: str, failure: Failure, retry_s: float | None) -> str:
    """Return the failure of a query, and what happens next."""
    then = "gives up" if retry_s is None else f"restarts in {retry_s:g} s"
    return f"{query} failed and {then}: {failure}"


def ending_lines(pipelines: Sequence[PipelineStatus]) -> Iterator[str]:
    """Yield how each pipeline ended, and how often rules were broken."""
    for pipeline in pipelines:
        state = pipeline.state.value if pipeline.state.is_over else "interrupted"
        again = f", {count_text(pipeline.restarts, 'restart')}" if pipeline.restarts else ""
        why = f": {pipeline.failure}" if pipeline.failure and pipeline.state.value == "failed" else ""
        yield f"pipeline {pipeline.name} {state}{again}{why}"
        for query in pipeline.queries:
            progress = query.progress
            broken = "".join(f"; {kind} rows: {rules}" for kind, rules in _broken(progress.totals))
            yield f"  {progress.name}: {_amounts(progress.name, progress.totals)}{broken}"


def _broken(figures: Figures) -> Iterator[tuple[str, str]]:
    """Yield how often each rule was broken, by bad rows and by warned rows."""
    for kind, counts in (("bad", figures.bad_rows), ("warned", figures.warned_rows)):
        rules = ", ".join(f"{rule} {count_text(count)}" for rule, count in counts.items() if count)
        if rules:
            yield kind, rules


def _amounts(name: str, figures: Figures) -> str:
    written = f"{count_text(figures.rows_written)} written"
    if name == DEAD_LETTERS_NAME:
        return written
    return f"{count_text(figures.rows, 'row')} read, {written}"


def _print_rows(shown: ShownRows, say: Callable[[str], None]) -> None:
    if not shown.rows:
        return
    columns, *rows = [[clean(cell) for cell in row] for row in (shown.columns, *shown.rows)]
    widths = [max(len(name), *(len(row[index]) for row in rows)) for index, name in enumerate(columns)]
    say(f"{shown.sink}, batch {shown.batch}:")
    for cells in (columns, ["-" * width for width in widths], *rows):
        say("  " + "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip())
    if not shown.is_all:
        say("  ... and more")
