"""Start positions of reads, as users write them.

| written                             | position                                                    |
|-------------------------------------|-------------------------------------------------------------|
| `beginning`, `end`                  | the oldest message; the end                                 |
| `1234`                              | this offset of each partition                               |
| `-10`                               | ten offsets before the end of each partition                |
| `2026-01-31`, `2026-01-31T10:00:00` | the first message at or after this local time               |
| `2026-01-31T10:00:00Z`              | the same, with a zone                                       |
| `10m ago`                           | the first message of the last ten minutes                   |
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import NamedTuple

from goqueue.errors import Invalid
from goqueue.model.units import parse_duration_ms

_NUMBER = re.compile(r"-?[0-9]{1,18}")
_AGO = re.compile(r"(.*\S)\s+ago")


class AtOffset(NamedTuple):
    """An offset of each partition."""

    offset: int


class FromEnd(NamedTuple):
    """A number of offsets before the end of each partition."""

    distance: int


class AtTime(NamedTuple):
    """A time in milliseconds since 1970."""

    timestamp_ms: int


Start = AtOffset | FromEnd | AtTime

BEGINNING = AtOffset(0)
END = FromEnd(0)


def parse_start(written: str, *, now_ms: int, beginning: str = "beginning") -> Start:
    """Return a start position; ValueError lists what is valid, with the command's word for the beginning."""
    text = written.strip()
    if text in {"beginning", "start"}:
        return BEGINNING
    if text == "end":
        return END
    if _NUMBER.fullmatch(text):
        number = int(text)
        return AtOffset(number) if number >= 0 and text != "-0" else FromEnd(-number)
    try:
        if match := _AGO.fullmatch(text):
            return AtTime(max(now_ms - parse_duration_ms(match[1]), 0))
        return AtTime(round(datetime.fromisoformat(text).astimezone().timestamp() * 1000))
    except (Invalid, ValueError, OverflowError, OSError):
        raise ValueError(
            f"{written!r} is neither {beginning}, end, an offset, a time such as 2026-01-31T10:00:00Z, nor '10m ago'"
        ) from None
