"""Times and durations in requests and replies.

A duration is `500ms`, `30s`, `5m`, `1h`, `7d`, or a number of milliseconds. The shapes only describe them: an invalid
one is refused here, since the decoder of bodies would answer with a pattern.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from goqueue.api.fields import (
    WAIT_MS_MAX,
)
from goqueue.errors import MalformedRequest
from goqueue.model.queue_settings import DELAY_MS_MAX, VISIBILITY_MS_MAX
from goqueue.model.units import duration_text, parse_duration_ms, quoted

_WRITTEN = re.compile("[0-9]{1,12}(ms|s|m|h|d)?")
_HINT = "write 500ms, 30s, 5m, 1h, 7d or a number of milliseconds"


def wait_ms_of(given: str | int) -> int:
    """Return how long to wait, in milliseconds; MalformedRequest if it is not a duration, or too long."""
    return _bounded(given, "wait", WAIT_MS_MAX, "60s")


def delay_ms_of(given: str | int, name: str) -> int:
    """Return the delay of a message in milliseconds; `name` is the name of the field."""
    return _bounded(given, name, DELAY_MS_MAX, duration_text(DELAY_MS_MAX))


def visibility_ms_of(given: str | int, name: str) -> int:
    """Return how long a lease lasts, in milliseconds."""
    return _bounded(given, name, VISIBILITY_MS_MAX, duration_text(VISIBILITY_MS_MAX))


def _bounded(given: str | int, name: str, most_ms: int, most: str) -> int:
    is_written = given >= 0 if isinstance(given, int) else _WRITTEN.fullmatch(given) is not None
    if not is_written:
        raise MalformedRequest(f"{name} is {quoted(given)}, which is not a duration", hint=_HINT)
    duration_ms = given if isinstance(given, int) else parse_duration_ms(given)
    if duration_ms > most_ms:
        raise MalformedRequest(f"{name} is {quoted(given)}, and may be at most {most}")
    return duration_ms


def moment(timestamp_ms: int) -> str:
    """Return a time in ISO 8601, in UTC with milliseconds."""
    text = datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def seconds(duration_ms: int | None) -> float | None:
    """Return a duration in seconds, or None."""
    return None if duration_ms is None else duration_ms / 1000
