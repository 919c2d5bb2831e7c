"""What became of the messages that `goqueue produce` sends: counted, and told."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import typer

from goqueue.cli.terminal.output import Format, Row, show
from goqueue.cli.terminal.tables import clean, size_text
from goqueue.errors import GoQueueError
from goqueue.model.units import count_text

if TYPE_CHECKING:
    from goqueue.cli.produce.input import Entry, Place
    from goqueue.client import Published

_FAILURES_SHOWN = 20


def ignore(step: int) -> None:
    """Take no note of progress."""
    del step


class Tally:
    """Counts what became of messages, and tells of those that failed."""

    def __init__(self, topic: str, output_format: Format, *, is_new_topic: bool = False) -> None:
        self._is_new_topic = is_new_topic
        self.advance: Callable[[int], None] = ignore
        self.failed = 0
        self._topic = topic
        self._format = output_format
        self._messages = 0
        self._bytes = 0
        self._began = time.monotonic()
        self._lock = threading.Lock()

    def add(self, entries: Sequence[Entry], outcomes: Sequence[Published | GoQueueError]) -> None:
        """Take note of what became of a batch."""
        read_bytes = sum([entry.input_bytes for entry in entries])
        self._messages += len(entries)
        self._bytes += read_bytes
        for entry, outcome in zip(entries, outcomes, strict=True):
            if isinstance(outcome, GoQueueError):
                self._messages -= 1
                self._bytes -= entry.input_bytes
                self.fail(entry.place, outcome)
        # With the ends of the lines.
        self.advance(read_bytes + len(entries))

    def fail(self, place: Place, error: GoQueueError) -> None:
        """Take note of what was refused, and say so."""
        with self._lock:
            self.failed += 1
            if self._format is not Format.TABLE:
                where: Row = {"source": place.source, "line": place.line or None}
                what: Row = {"code": error.code, "message": error.message, "hint": error.hint}
                show("failure", [{**where, **what}], self._format)
            elif self.failed <= _FAILURES_SHOWN:
                typer.echo(clean(f"{place}: {error} [{error.code}]"), err=True)

    def show(self) -> None:
        """Print how many messages were sent, how fast, and how many were not."""
        seconds = time.monotonic() - self._began
        is_created = self._is_new_topic and self._messages > 0
        if self._format is not Format.TABLE:
            row: Row = {"topic": self._topic, "messages": self._messages, "bytes": self._bytes}
            fates: Row = {"failed": self.failed, "topic_created": is_created}
            show("summary", [{**row, "seconds": round(seconds, 3), **fates}], self._format)
            return
        if self.failed > _FAILURES_SHOWN:
            typer.echo(f"... and {count_text(self.failed - _FAILURES_SHOWN, 'more failure')}", err=True)
        speed = f" ({self._messages / seconds:,.0f} a second)" if self._messages >= 1000 else ""
        failed = f"; {self.failed:,} failed" if self.failed else ""
        created = "; the topic did not exist and was created" if is_created else ""
        amount = f"{count_text(self._messages, 'message')}, {size_text(self._bytes)}"
        typer.echo(f"published to {self._topic}: {amount} in {seconds:.1f} s{speed}{failed}{created}")
