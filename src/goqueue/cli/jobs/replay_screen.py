"""Output of `goqueue job replay`: a progress bar on a terminal, lines elsewhere, or JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from goqueue.cli.terminal.output import Format, show
from goqueue.cli.terminal.streams import console, write_line
from goqueue.cli.terminal.tables import Column, Table
from goqueue.cli.terminal.times import time_text
from goqueue.model.units import count_text
from goqueue.seams.clock import SystemClock

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from goqueue.cli.terminal.output import Value
    from goqueue.spark.jobs.replay.job import PartitionCount, ReplayStatus
    from goqueue.spark.jobs.replay.session import ReplayScreen
    from goqueue.spark.pipelines.run.query import Event, QueryFailed

_LINES_EVERY_S = 1.0
_COUNTS: Table[PartitionCount] = Table(
    "partition",
    Column("partition", lambda each: str(each.partition), is_number=True),
    Column("messages", lambda each: each.messages, is_number=True),
    Column("first offset", lambda each: str(each.first_offset), is_number=True, spared=2),
    Column("last offset", lambda each: str(each.last_offset), is_number=True, spared=1),
    Column("first time", lambda each: None if each.first_time_ms is None else time_text(each.first_time_ms)),
    Column("last time", lambda each: None if each.last_time_ms is None else time_text(each.last_time_ms)),
)


@contextmanager
def make_screen(output_format: Format) -> Iterator[ReplayScreen]:
    """Return the screen that fits the format and the terminal."""
    screen = console(highlight=False, emoji=False, markup=False)
    if output_format is not Format.TABLE:
        yield ReplayJsonLines()
    elif screen.is_terminal:
        with ReplayBar(screen) as bar:
            yield bar
    else:
        yield ReplayLines()


class ReplayJsonLines:
    """A JSON object per event."""

    def say(self, line: str) -> None:
        self._show("note", {"text": line})

    def tell(self, event: Event, status: ReplayStatus) -> None:
        if failed := _failed(event):
            self._show("failure", {"reason": failed.failure.reason, "retry_seconds": failed.retry_s})
        else:
            self._show("batch", _numbers(status))

    def refresh(self, status: ReplayStatus) -> None:
        del status

    def count(self, counts: Sequence[PartitionCount], target: str) -> None:
        for each in counts:
            self._show("partition", each._asdict())
        self._show("count", {"target": target, "messages": sum(each.messages for each in counts)})

    def finish(self, name: str, status: ReplayStatus, ending: str, advice: str) -> None:
        error = str(status.failure) if status.failure else None
        self._show("replay", {"name": name, "ending": ending, **_numbers(status), "error": error, "advice": advice})

    def _show(self, kind: str, fields: dict[str, Value]) -> None:
        show(kind, [fields], Format.JSON)
        sys.stdout.flush()


class ReplayLines:
    """A line per event, and at most one batch per second."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self._told_at = -_LINES_EVERY_S

    def say(self, line: str) -> None:
        write_line(line)

    def tell(self, event: Event, status: ReplayStatus) -> None:
        if failed := _failed(event):
            self.say(_failure_line(failed))
        elif (now := self._clock.monotonic()) - self._told_at >= _LINES_EVERY_S:
            self._told_at = now
            self.say(_amounts(status))

    def refresh(self, status: ReplayStatus) -> None:
        del status

    def count(self, counts: Sequence[PartitionCount], target: str) -> None:
        _COUNTS.print(counts)
        self.say(f"{count_text(sum(each.messages for each in counts), 'message')} would go to topic {target}")

    def finish(self, name: str, status: ReplayStatus, ending: str, advice: str) -> None:
        for line in _ending_lines(name, status, ending, advice):
            self.say(line)


class ReplayBar:
    """A progress bar below the lines."""

    def __init__(self, screen: Console) -> None:
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

        self._console = screen
        columns = (BarColumn(), TaskProgressColumn(), TextColumn("{task.description}"))
        self._bar: Progress = Progress(*columns, console=screen)
        self._task: TaskID | None = None

    def __enter__(self) -> ReplayBar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def say(self, line: str) -> None:
        self._console.print(line, soft_wrap=True)

    def tell(self, event: Event, status: ReplayStatus) -> None:
        del status
        if failed := _failed(event):
            self.say(_failure_line(failed))

    def refresh(self, status: ReplayStatus) -> None:
        if status.left is None:
            return
        if self._task is None:
            self._task = self._bar.add_task("")
        total = status.read + status.left
        self._bar.update(self._task, description=_amounts(status), completed=status.read, total=total)

    def count(self, counts: Sequence[PartitionCount], target: str) -> None:
        self._bar.stop()
        ReplayLines().count(counts, target)

    def finish(self, name: str, status: ReplayStatus, ending: str, advice: str) -> None:
        self._bar.stop()
        for line in _ending_lines(name, status, ending, advice):
            self.say(line)


def _failed(event: Event) -> QueryFailed | None:
    from goqueue.spark.pipelines.run.query import QueryFailed

    return event if isinstance(event, QueryFailed) else None


def _failure_line(event: QueryFailed) -> str:
    then = "gives up" if event.retry_s is None else f"retries in {event.retry_s:g} s"
    return f"the replay failed and {then}: {event.failure}"


def _numbers(status: ReplayStatus) -> dict[str, Value]:
    seconds_left = status.seconds_left
    return {
        "read": status.read,
        "published": status.published,
        "batches": status.batches,
        "left": status.left,
        "missing": status.missing,
        "rows_per_second": round(status.rows_per_second, 1),
        "seconds": round(status.seconds, 1),
        "seconds_left": None if seconds_left is None else round(seconds_left, 1),
    }


def _amounts(status: ReplayStatus) -> str:
    words = [
        f"{count_text(status.read)} read",
        f"{count_text(status.published)} published",
        f"{status.rows_per_second:,.0f} per second",
    ]
    if status.left is not None:
        words.append(f"{count_text(status.left)} left")
    if status.left and status.seconds_left is not None:
        words.append(f"about {_span(status.seconds_left)} to go")
    return ", ".join(words)


def _span(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _ending_lines(name: str, status: ReplayStatus, ending: str, advice: str) -> Iterator[str]:
    why = f": {status.failure}" if status.failure and ending != "done" else ""
    yield f"replay {name} {ending}{why}"
    took = f" in {_span(status.seconds)}" if status.seconds else ""
    yield f"  {count_text(status.read, 'message')} read, {count_text(status.published)} published{took}"
    if advice:
        yield f"  {advice}"
