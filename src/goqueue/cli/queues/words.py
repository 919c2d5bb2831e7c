"""What people write after `goqueue queue`: durations, settings, names and receipts.

Whatever the broker would refuse because of how it is written is a mistake in the call, and told before anything is
sent: in the words of the command line, and not in those of a request. Which numbers a setting takes is the broker's
business.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Mapping, Sequence

import typer

from goqueue.cli.terminal.moments import moment_ms_of
from goqueue.cli.terminal.streams import require_input
from goqueue.errors import Invalid
from goqueue.model.queue_limits import CONSUMER_CHARS_MAX, PAUSE_CHARS_MAX, REASON_CHARS_MAX, TOPICS_MAX
from goqueue.model.topic import check_name
from goqueue.model.units import parse_duration_ms, quoted

WAIT_MAX, VISIBILITY_MAX, DELAY_MAX = "60s", "12h", "7d"
"""The longest durations that the broker takes."""
MESSAGES_MAX = 10_000
"""How many messages one request is about."""

_SET = "--set"
_UNSET = "--unset"
_WHOLE = re.compile(r"-?[0-9]{1,9}")
_NUMBER = re.compile(r"-?[0-9]{1,9}(\.[0-9]{1,9})?")
_MILLISECONDS = re.compile(r"[0-9]{1,15}")

SettingValue = str | int | float


def parse_duration_s(written: str, option: str, most: str) -> float:
    """Return a duration in seconds; a mistake in the call if it has no unit, is none, or is longer than `most`."""
    return _duration_ms(written.strip(), option, most) / 1000


def _duration_ms(text: str, option: str, most: str) -> int:
    # Nothing is the same in every unit.
    if text.isdecimal() and text.strip("0"):
        raise typer.BadParameter(f"{text[:20]} has no unit: write {text[:20]}s or {text[:20]}ms", param_hint=option)
    try:
        duration_ms = parse_duration_ms(text)
    except Invalid:
        raise typer.BadParameter(
            f"{quoted(text)} is no duration: write 500ms, 30s, 5m or 1h", param_hint=option
        ) from None
    if duration_ms > parse_duration_ms(most):
        raise typer.BadParameter(f"{quoted(text)} is too long: at most {most}", param_hint=option)
    return duration_ms


def check_topics(topics: Sequence[str]) -> Sequence[str]:
    """Return topics; a mistake in the call if one cannot be a topic, or if they are too many."""
    if len(topics) > TOPICS_MAX:
        raise typer.BadParameter(f"{len(topics)} topics are too many: at most {TOPICS_MAX}", param_hint="TOPIC")
    for topic in topics:
        _check_topic(topic, "TOPIC")
    return topics


def check_consumer(written: str) -> str:
    """Return the name of a consumer; a mistake in the call if it is too long."""
    return _short(written, "--consumer", CONSUMER_CHARS_MAX)


def check_reason(written: str) -> str:
    """Return why a message failed; a mistake in the call if it is too long."""
    return _short(written, "--reason", REASON_CHARS_MAX)


def check_pause_reason(written: str) -> str:
    """Return why a group is paused; a mistake in the call if it is too long, or nothing is said."""
    if not written:
        raise typer.BadParameter("say why, for those who receive nothing", param_hint="--reason")
    return _short(written, "--reason", PAUSE_CHARS_MAX)


def _short(written: str, option: str, most: int) -> str:
    if len(written) > most:
        raise typer.BadParameter(f"{len(written):,} characters are too many: at most {most:,}", param_hint=option)
    return written


def own_name() -> str:
    """Return the name of this process as a consumer: what others hold does not count for it."""
    return f"cli-{socket.gethostname()}-{os.getpid()}"[-CONSUMER_CHARS_MAX:]


def given_receipts(arguments: Sequence[str]) -> Sequence[str]:
    """Return receipts: those that are written, or lines of standard input; a mistake in the call if there are none."""
    if list(arguments) != ["-"]:
        return arguments
    given = [line.strip() for line in require_input() if line.strip()]
    if not given:
        raise typer.BadParameter("standard input has no receipts; `goqueue queue receive` prints them")
    return given


def parse_changes(pairs: Sequence[str], unset: Sequence[str]) -> Mapping[str, SettingValue | None]:
    """Return changes of settings of a queue group by name, with None for what goes back to its default.

    A mistake in the call says what there is, and how it is written.
    """
    changes: dict[str, SettingValue | None] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator:
            raise typer.BadParameter(f"{quoted(pair)} is not written as NAME=VALUE", param_hint=_SET)
        _check_setting(name, _SET)
        if name in changes:
            raise typer.BadParameter(f"{name} is there twice", param_hint=_SET)
        changes[name] = _READERS[name](name, value)
    for name in unset:
        _check_setting(name, _UNSET)
        if changes.get(name) is not None:
            raise typer.BadParameter(f"{name} is set as well", param_hint=_UNSET)
        changes[name] = None
    return changes


def _check_setting(name: str, option: str) -> None:
    if name not in _READERS:
        known = ", ".join(_READERS)
        raise typer.BadParameter(f"{quoted(name)} is no setting of a queue group; there are {known}", param_hint=option)


def _visibility(name: str, written: str) -> str:
    return f"{_duration_ms(written.strip(), f'{_SET} {name}', VISIBILITY_MAX)}ms"


def _delay(name: str, written: str) -> str:
    return f"{_duration_ms(written.strip(), f'{_SET} {name}', DELAY_MAX)}ms"


def _whole(name: str, written: str) -> int:
    if not _WHOLE.fullmatch(written):
        raise typer.BadParameter(f"{name} is {quoted(written)}, and has to be a whole number", param_hint=_SET)
    return int(written)


def _number(name: str, written: str) -> float:
    if not _NUMBER.fullmatch(written):
        raise typer.BadParameter(f"{name} is {quoted(written)}, and has to be a number", param_hint=_SET)
    return float(written)


def _ordering(name: str, written: str) -> str:
    if written not in {"none", "key"}:
        raise typer.BadParameter(f"{name} is {quoted(written)}, and has to be none or key", param_hint=_SET)
    return written


def _start(name: str, written: str) -> str | int:
    if written in {"earliest", "latest"}:
        return written
    if _MILLISECONDS.fullmatch(written):
        return int(written)
    moment_ms = moment_ms_of(written)
    if moment_ms is None:
        taken = "earliest, latest, a time such as 2026-01-31T10:00:00Z, or '10m ago'"
        raise typer.BadParameter(f"{name} is {quoted(written)}, and has to be {taken}", param_hint=_SET)
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
