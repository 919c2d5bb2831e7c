"""Checks of the arguments of `goqueue queue`: durations, settings, names and receipts.

Syntax errors are reported as wrong usage before a request is sent, in terms of the command line. The broker decides
which numbers a setting may have.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence

import typer

from goqueue.cli.terminal.streams import require_input
from goqueue.cli.terminal.times import moment_ms_of
from goqueue.errors import Invalid
from goqueue.model.queue_settings import CONSUMER_CHARS_MAX, PAUSE_CHARS_MAX, REASON_CHARS_MAX, TOPICS_MAX
from goqueue.model.topic import check_name
from goqueue.model.units import parse_duration_ms, quoted

WAIT_MAX, VISIBILITY_MAX, DELAY_MAX = "60s", "12h", "7d"
"""The longest durations that the broker accepts."""
MESSAGES_MAX = 10_000
"""The maximum number of messages in one request."""

_SET = "--set"
_UNSET = "--unset"
_WHOLE = re.compile(r"-?[0-9]{1,9}")
_NUMBER = re.compile(r"-?[0-9]{1,9}(\.[0-9]{1,9})?")
_MILLISECONDS = re.compile(r"[0-9]{1,15}")

SettingValue = str | int | float


def parse_duration_s(written: str, option: str, most: str) -> float:
    """Return a duration in seconds; BadParameter if it has no unit, is malformed, or exceeds `most`."""
    return _duration_ms(written.strip(), option, most) / 1000


def _duration_ms(text: str, option: str, most: str) -> int:
    # Zero needs no unit.
    if text.isdecimal() and text.strip("0"):
        raise typer.BadParameter(f"{text[:20]} has no unit: write {text[:20]}s or {text[:20]}ms", param_hint=option)
    try:
        duration_ms = parse_duration_ms(text)
    except Invalid:
        raise typer.BadParameter(
            f"{quoted(text)} is not a duration: write 500ms, 30s, 5m or 1h", param_hint=option
        ) from None
    if duration_ms > parse_duration_ms(most):
        raise typer.BadParameter(f"{quoted(text)} is too long: at most {most}", param_hint=option)
    return duration_ms


def check_topics(topics: Sequence[str]) -> Sequence[str]:
    """Return topics; BadParameter if a name is invalid, or if there are too many."""
    if len(topics) > TOPICS_MAX:
        raise typer.BadParameter(f"{len(topics)} topics are too many: at most {TOPICS_MAX}", param_hint="TOPIC")
    for topic in topics:
        _check_topic(topic, "TOPIC")
    return topics


def check_consumer(written: str) -> str:
    """Return a consumer name; BadParameter if it is too long."""
    return _short(written, "--consumer", CONSUMER_CHARS_MAX)


def check_reason(written: str) -> str:
    """Return the reason of a failure; BadParameter if it is too long."""
    return _short(written, "--reason", REASON_CHARS_MAX)


def check_pause_reason(written: str) -> str:
    """Return the reason of a pause; BadParameter if it is empty or too long."""
    if not written:
        raise typer.BadParameter("must not be empty", param_hint="--reason")
    return _short(written, "--reason", PAUSE_CHARS_MAX)


def _short(written: str, option: str, most: int) -> str:
    if len(written) > most:
        raise typer.BadParameter(f"{len(written):,} characters are too many: at most {most:,}", param_hint=option)
    return written


def own_name() -> str:
    """Return a consumer name for this process, with a limit of messages in flight of its own."""
    import socket

    return f"cli-{socket.gethostname()}-{os.getpid()}"[-CONSUMER_CHARS_MAX:]


def given_receipts(arguments: Sequence[str]) -> Sequence[str]:
    """Return the receipts that are given, or for `-` the lines of standard input; BadParameter if there are none."""
    if list(arguments) != ["-"]:
        return arguments
    given = [line.strip() for line in require_input() if line.strip()]
    if not given:
        raise typer.BadParameter("standard input has no receipts; `goqueue queue receive` prints them")
    return given


def parse_changes(pairs: Sequence[str], unset: Sequence[str]) -> Mapping[str, SettingValue | None]:
    """Return changes of settings by name, with None for a reset to the default; BadParameter lists what is valid."""
    changes: dict[str, SettingValue | None] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator:
            raise typer.BadParameter(f"{quoted(pair)} is not NAME=VALUE", param_hint=_SET)
        _check_setting(name, _SET)
        if name in changes:
            raise typer.BadParameter(f"{name} is given twice", param_hint=_SET)
        changes[name] = _READERS[name](name, value)
    for name in unset:
        _check_setting(name, _UNSET)
        if changes.get(name) is not None:
            raise typer.BadParameter(f"{name} is also in --set", param_hint=_UNSET)
        changes[name] = None
    return changes


def _check_setting(name: str, option: str) -> None:
    if name not in _READERS:
        known = ", ".join(_READERS)
        raise typer.BadParameter(
            f"{quoted(name)} is not a setting of a queue group; the settings are {known}", param_hint=option
        )


def _visibility(name: str, written: str) -> str:
    return f"{_duration_ms(written.strip(), f'{_SET} {name}', VISIBILITY_MAX)}ms"


def _delay(name: str, written: str) -> str:
    return f"{_duration_ms(written.strip(), f'{_SET} {name}', DELAY_MAX)}ms"


def _whole(name: str, written: str) -> int:
    if not _WHOLE.fullmatch(written):
        raise typer.BadParameter(f"{name} must be a whole number, not {quoted(written)}", param_hint=_SET)
    return int(written)


def _number(name: str, written: str) -> float:
    if not _NUMBER.fullmatch(written):
        raise typer.BadParameter(f"{name} must be a number, not {quoted(written)}", param_hint=_SET)
    return float(written)


def _ordering(name: str, written: str) -> str:
    if written not in {"none", "key"}:
        raise typer.BadParameter(f"{name} must be none or key, not {quoted(written)}", param_hint=_SET)
    return written


def _start(name: str, written: str) -> str | int:
    if written in {"earliest", "latest"}:
        return written
    if _MILLISECONDS.fullmatch(written):
        return int(written)
    moment_ms = moment_ms_of(written)
    if moment_ms is None:
        taken = "earliest, latest, a time such as 2026-01-31T10:00:00Z, or '10m ago'"
        raise typer.BadParameter(f"{name} must be {taken}, not {quoted(written)}", param_hint=_SET)
    return moment_ms


def _topic(name: str, written: str) -> str:
    if written:
        _check_topic(written, f"{_SET} {name}")
    return written


def _check_topic(name: str, option: str) -> None:
    try:
        check_name(name)
    except Invalid as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


_READERS: Mapping[str, Callable[[str, str], SettingValue]] = {
    "visibility_timeout": _visibility,
    "retries": _whole,
    "backoff": _delay,
    "backoff_factor": _number,
    "backoff_max": _delay,
    "in_flight_max": _whole,
    "ordering": _ordering,
    "start": _start,
    "dead_letters": _topic,
    "breaker_ratio": _number,
}
