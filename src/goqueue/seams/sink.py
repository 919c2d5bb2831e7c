"""Events of the core.

Core code never logs: it emits an `Event`, a frozen value that a test can compare, a metric can count and a log line can
show. Subscribers decide what to do with it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import ClassVar, Protocol

from goqueue.model.visible_text import visible, visible_lines


class Severity(IntEnum):
    """The severity of an event; the values are the log levels of the standard library."""

    DEBUG = 10
    INFO = 20
    WARNING = 30
    ERROR = 40


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened; subclasses add fields and raise the severity."""

    severity: ClassVar[Severity] = Severity.INFO

    def describe(self) -> str:
        """Return the event as one line: its name and its fields."""
        shown = " ".join(f"{field.name}={getattr(self, field.name)}" for field in fields(self))
        return f"{type(self).__name__} {shown}".rstrip()

    def details(self) -> str:
        """Return more lines for a log, such as a traceback; mostly there are none."""
        return ""


class Sink(Protocol):
    """Receives events; must not raise and must not block. Logs that are being loaded emit from threads of their own."""

    def emit(self, event: Event) -> None:
        """Record one event."""
        ...


class NullSink:
    """Forgets every event."""

    def emit(self, event: Event) -> None:
        del event


class LoggingSink:
    """Writes every event as one line of the standard library's logger `goqueue`, without control characters."""

    def __init__(self) -> None:
        self._logger = logging.getLogger("goqueue")

    def emit(self, event: Event) -> None:
        text = visible(event.describe())
        if details := event.details():
            text = f"{text}\n{visible_lines(details.rstrip())}"
        self._logger.log(event.severity, "%s", text)
