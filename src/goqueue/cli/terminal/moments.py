"""Times as people write them on the command line: ISO 8601, by the clock here unless a zone is given, or `10m ago`."""

from __future__ import annotations

import time as clock

import typer

from goqueue.cli.consume.start import AtTime, parse_start


def parse_moment_ms(written: str, option: str) -> int:
    """Return a time in milliseconds since 1970; a mistake in the call if it is none."""
    moment_ms = moment_ms_of(written)
    if moment_ms is None:
        raise typer.BadParameter(
            f"{written!r} is no time such as 2026-01-31T10:00:00Z, and not '10m ago'", param_hint=option
        )
    return moment_ms


def moment_ms_of(written: str) -> int | None:
    """Return a time in milliseconds since 1970; None if it is not written as one."""
    try:
        start = parse_start(written, now_ms=clock.time_ns() // 1_000_000)
    except ValueError:
        return None
    return start.timestamp_ms if isinstance(start, AtTime) else None
