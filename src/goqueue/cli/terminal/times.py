"""Times and durations on the command line: how arguments are parsed, and how they are printed.

A time is ISO 8601, local without a zone, or relative such as `10m ago`.
"""

from __future__ import annotations

import time as clock
from datetime import UTC, datetime

import typer

from goqueue.model.start_position import AtTime, parse_start


def parse_moment_ms(written: str, option: str) -> int:
    """Return a time in milliseconds since 1970; BadParameter if it is not one."""
    moment_ms = moment_ms_of(written)
    if moment_ms is None:
        raise typer.BadParameter(
            f"{written!r} is not a time such as 2026-01-31T10:00:00Z or '10m ago'", param_hint=option
        )
    return moment_ms


def moment_ms_of(written: str) -> int | None:
    """Return a time in milliseconds since 1970; None if it is not one."""
    try:
        start = parse_start(written, now_ms=clock.time_ns() // 1_000_000)
    except ValueError:
        return None
    return start.timestamp_ms if isinstance(start, AtTime) else None


def time_text(timestamp_ms: int) -> str:
    """Return a timestamp as local time, to the millisecond; `-` if it is negative."""
    if timestamp_ms < 0:
        return "-"
    try:
        moment = datetime.fromtimestamp(timestamp_ms // 1000, UTC).astimezone()
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{timestamp_ms % 1000:03}"


def moment_text(moment: str) -> str:
    """Return an ISO 8601 time as local time, to the second."""
    return f"{datetime.fromisoformat(moment).astimezone():%Y-%m-%d %H:%M:%S}"


def age_text(seconds: float) -> str:
    """Return a duration: `120 ms`, `3.5 s`, `12 min`, `5 h`, `3 days`."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    if seconds < 2 * 86_400:
        return f"{seconds / 3600:.0f} h"
    return f"{seconds / 86_400:.0f} days"
