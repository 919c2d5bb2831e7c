"""Durations and byte sizes as people write them.

| what      | written as                                                       | is               |
|-----------|------------------------------------------------------------------|------------------|
| duration  | `500ms`, `30s`, `5m`, `1h`, `7d`, or a number of milliseconds    | milliseconds     |
| byte size | `64KiB`, `1MiB` (powers of 1,024), `10MB` (of 1,000), or a number | bytes            |

Numbers are whole and never negative: a value that means "unlimited" belongs to the setting that has it. Units of
durations are written in small letters, since `M` could be a month; those of sizes as one likes. What is written by
`duration_text` and `bytes_text` reads back as the same number. The errors quote what was written, see `quoted`.
"""

from __future__ import annotations

import re

from goqueue.errors import Invalid

AMOUNT_MAX = 2**63 - 1
"""The greatest duration and size: what a signed 64-bit field of the protocols and files can hold."""

# Ascending, each a multiple of the one before.
_MS_BY_UNIT = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_BYTES_BY_BINARY_UNIT = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_BYTES_BY_UNIT = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12} | {
    unit.lower(): size for unit, size in _BYTES_BY_BINARY_UNIT.items()
}
_AMOUNT = re.compile(r"\s*([0-9]{1,19})\s?([A-Za-z]*)\s*")
_QUOTED_CHARACTERS_MAX = 60

_DURATION_HINT = "write 500ms, 30s, 5m, 1h, 7d or a number of milliseconds"
_SIZE_HINT = "write 64KiB, 1MiB, 10MB or a number of bytes"


def parse_duration_ms(written: str | int) -> int:
    """Return a duration in milliseconds; Invalid if it is not written as one."""
    number, unit = _split(written, "duration", _DURATION_HINT)
    if unit and unit not in _MS_BY_UNIT:
        raise Invalid(f"{quoted(written)} has the unknown unit {quoted(unit)}", hint=_DURATION_HINT)
    return _bounded(number * _MS_BY_UNIT.get(unit, 1), written, "duration")


def parse_bytes(written: str | int) -> int:
    """Return a size in bytes; Invalid if it is not written as one."""
    number, unit = _split(written, "byte size", _SIZE_HINT)
    if unit and unit.lower() not in _BYTES_BY_UNIT:
        raise Invalid(f"{quoted(written)} has the unknown unit {quoted(unit)}", hint=_SIZE_HINT)
    return _bounded(number * _BYTES_BY_UNIT.get(unit.lower(), 1), written, "byte size")


def duration_text(duration_ms: int) -> str:
    """Return a duration in the largest unit that needs no fraction: `90s`, not `1.5m`."""
    return _in_largest_unit(duration_ms, _MS_BY_UNIT) or "0ms"


def bytes_text(size: int) -> str:
    """Return a size in the largest binary unit that needs no fraction, or else as a plain number."""
    return _in_largest_unit(size, _BYTES_BY_BINARY_UNIT) or str(size)


def count_text(count: int, noun: str = "") -> str:
    """Return a number with commas, and its noun: `1 message`, `12,345 messages`."""
    if not noun:
        return f"{count:,}"
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def quoted(written: object) -> str:
    """Return what somebody wrote as an error quotes it: on one line, and cut if it is long."""
    if isinstance(written, int) and abs(written) > 10**_QUOTED_CHARACTERS_MAX:
        return "a huge number"  # of which Python refuses to make text
    text = repr(written)
    return text if len(text) <= _QUOTED_CHARACTERS_MAX else text[: _QUOTED_CHARACTERS_MAX - 4] + " ..."


def _split(written: str | int, what: str, hint: str) -> tuple[int, str]:
    if isinstance(written, int):
        # A JSON document may hold true where a number belongs, and Python takes it for 1.
        if written >= 0 and not isinstance(written, bool):
            return written, ""
    elif match := _AMOUNT.fullmatch(written):
        return int(match[1]), match[2]
    raise Invalid(f"{quoted(written)} is no {what}", hint=hint)


def _bounded(amount: int, written: str | int, what: str) -> int:
    if amount > AMOUNT_MAX:
        raise Invalid(f"the {what} {quoted(written)} is too large")
    return amount


def _in_largest_unit(amount: int, units: dict[str, int]) -> str:
    fitting = [unit for unit, size in units.items() if amount and amount % size == 0]
    return f"{amount // units[fitting[-1]]}{fitting[-1]}" if fitting else ""
