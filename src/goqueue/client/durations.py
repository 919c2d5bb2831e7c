"""Durations as Python programs write them: one unit for every call and option of the client.

| written as               | is                                                     |
|--------------------------|--------------------------------------------------------|
| `30`, `0.5`              | seconds, whatever the option is called                 |
| `timedelta(minutes=5)`   | that long                                              |
| `"500ms"`, `"30s"`, `"1h"` | that long; a text without a unit is refused          |

HTTP and the command line are other interfaces: there a bare number is milliseconds, or has to have a unit.
"""

from __future__ import annotations

import math
from datetime import timedelta

from goqueue.errors import Invalid
from goqueue.model.queue_settings import DELAY_MS_MAX, VISIBILITY_MS_MAX, VISIBILITY_MS_MIN
from goqueue.model.units import duration_text, parse_duration_ms, quoted

Duration = float | timedelta | str

DURATION_HINT = 'a number is in seconds; or write a timedelta, or a text such as "30s"'
_WAIT_S_MAX = 60.0


def seconds_of(given: Duration, name: str, *, least_s: float = 0.0, most_s: float = math.inf) -> float:
    """Return a duration in seconds; Invalid, with the unit and the range, if it is none or not within the range."""
    seconds = _seconds(given, name)
    if not least_s <= seconds <= most_s:
        written = quoted(given) if isinstance(given, str) else _text(seconds)
        raise Invalid(f"{name} is {written}, and may be {_range(least_s, most_s)}", hint=DURATION_HINT)
    return seconds


def visibility_s(given: Duration, name: str) -> float:
    """Return how long a lease lasts, in seconds."""
    return seconds_of(given, name, least_s=VISIBILITY_MS_MIN / 1000, most_s=VISIBILITY_MS_MAX / 1000)


def delay_s(given: Duration, name: str) -> float:
    """Return how long a message waits, in seconds."""
    return seconds_of(given, name, most_s=DELAY_MS_MAX / 1000)


def wait_s(given: Duration, name: str = "wait_s") -> float:
    """Return how long the broker may wait for messages, in seconds."""
    return seconds_of(given, name, most_s=_WAIT_S_MAX)


def milliseconds(seconds: float) -> int:
    """Return seconds as the whole milliseconds that requests have."""
    return round(seconds * 1000)


def _seconds(given: Duration, name: str) -> float:
    match given:
        case bool():
            pass
        case timedelta():
            return given.total_seconds()
        case int() | float():
            if not math.isnan(given):
                return float(given)
        case str():
            text = given.strip()
            if not text.isdecimal():
                try:
                    return parse_duration_ms(text) / 1000
                except Invalid:
                    pass
            elif text:
                raise Invalid(f'{name} is {quoted(given)}, which has no unit: write "{text[:20]}s"', hint=DURATION_HINT)
    raise Invalid(f"{name} is {quoted(given)}, which is no duration", hint=DURATION_HINT)


def _range(least_s: float, most_s: float) -> str:
    least = duration_text(milliseconds(least_s)) if least_s else "0s"
    return f"{least} or more" if math.isinf(most_s) else f"{least} to {duration_text(milliseconds(most_s))}"


def _text(seconds: float) -> str:
    return f"{seconds:g} seconds"
