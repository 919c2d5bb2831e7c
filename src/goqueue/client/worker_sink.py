"""Where a worker tells what happens: a sink of the user's, which can keep nobody from working, or else the logger."""

from __future__ import annotations

import inspect
from contextlib import suppress
from dataclasses import dataclass
from traceback import format_exception, format_exception_only
from typing import ClassVar

from goqueue.errors import Invalid
from goqueue.seams.sink import Event, LoggingSink, Severity, Sink

_ERROR_CHARS_MAX = 4_000
_TRACE_CHARS_MAX = 20_000
_HINT = "a sink is an object with a method emit(event), which returns soon; without one, events are logged"


@dataclass(frozen=True, slots=True)
class SinkFailed(Event):
    """A sink has raised an error, and nobody has heard of this event, or of others later; it is said once."""

    severity: ClassVar[Severity] = Severity.ERROR
    error: str
    event: str


class SafeSink:
    """Tells events to a sink. If that raises an error, the logger is told so, once, and nothing else happens."""

    def __init__(self, sink: Sink | None) -> None:
        self._logging = LoggingSink()
        self._sink = self._logging if sink is None else _checked(sink)
        self._has_failed = False

    def emit(self, event: Event) -> None:
        try:
            self._sink.emit(event)
        except Exception as error:  # noqa: BLE001 - the edge of a user's object: messages are worth more than events
            self._note(error, event)

    def _note(self, error: Exception, event: Event) -> None:
        if self._has_failed:
            return
        self._has_failed = True
        # The logger may be what has failed.
        with suppress(Exception):
            self._logging.emit(SinkFailed(told(error), event.describe()))


def traced(error: BaseException) -> str:
    """Return an error with its traceback: not all of it if it is very long, as errors that quote a message can be."""
    return _bounded("".join(format_exception(error)), _TRACE_CHARS_MAX)


def told(error: BaseException) -> str:
    """Return what an error says; it copes with those that cannot say what they are."""
    return _bounded("".join(format_exception_only(error)).strip(), _ERROR_CHARS_MAX)


def _bounded(text: str, chars_max: int) -> str:
    """Return a text, or its beginning and its end: what an error says stands at the end of a traceback."""
    if len(text) <= chars_max:
        return text
    half = chars_max // 2
    return f"{text[:half]} [... {len(text) - 2 * half:,} characters ...] {text[-half:]}"


def _checked(sink: Sink) -> Sink:
    emit = getattr(sink, "emit", None)
    if not callable(emit):
        raise Invalid(f"the sink is a {type(sink).__name__}, which has no method emit", hint=_HINT)
    if inspect.iscoroutinefunction(emit):
        raise Invalid(f"emit of {type(sink).__name__} is an async function, and nobody waits for it", hint=_HINT)
    return sink
