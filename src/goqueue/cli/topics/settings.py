"""Settings of topics as people write them on the command line: `retention.ms=7d`, `segment.bytes=64MiB`.

A setting whose name ends with a unit may be given in other units; the broker gets the plain number. Which settings
exist and what they may be is the broker's business.
"""

from __future__ import annotations

from collections.abc import Sequence

import typer

from goqueue.errors import Invalid
from goqueue.model.log_settings import LogSettings
from goqueue.model.units import bytes_text, duration_text, parse_bytes, parse_duration_ms

_UNLIMITED = {"-1", str(LogSettings().max_compaction_lag_ms)}


def parse_settings(pairs: Sequence[str]) -> dict[str, str]:
    """Return settings by name; a mistake in the call if one is not written as NAME=VALUE, or is there twice."""
    settings: dict[str, str] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name:
            raise typer.BadParameter(f"{pair!r} is not written as NAME=VALUE", param_hint="--config")
        if name in settings:
            raise typer.BadParameter(f"{name} is there twice", param_hint="--config")
        settings[name] = _plain(name, value)
    return settings


def parse_changes(pairs: Sequence[str], unset: Sequence[str]) -> dict[str, str | None]:
    """Return changes by name, with None for what goes back to its default."""
    changes: dict[str, str | None] = {**parse_settings(pairs)}
    for name in unset:
        if name in changes:
            raise typer.BadParameter(f"{name} is set as well", param_hint="--unset")
        changes[name] = None
    return changes


def in_words(name: str, value: str) -> str:
    """Return the value of a setting with its unit; nothing if it has none, or is small enough to be read as it is."""
    if value in _UNLIMITED:
        return "unlimited" if name.endswith((".ms", ".bytes")) else ""
    if not value.isdecimal():
        return ""
    if name.endswith(".ms"):
        return duration_text(int(value))
    return bytes_text(int(value)) if name.endswith(".bytes") else ""


def _plain(name: str, value: str) -> str:
    if value.lstrip("-").isdecimal() or not name.endswith((".ms", ".bytes")):
        return value
    try:
        return str(parse_duration_ms(value) if name.endswith(".ms") else parse_bytes(value))
    except Invalid as error:
        raise typer.BadParameter(f"{name}: {error}", param_hint="--config") from None
