"""Kinds of setting values: how each is parsed, shown and bounded.

A `Kind` knows nothing of any setting or source. It parses text, or the numbers and booleans of a TOML file, and returns
a checked value or None; `allowed` describes the accepted values. It can parse every text that it shows.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Generic, TypeVar

from goqueue.errors import Invalid
from goqueue.model.units import AMOUNT_MAX, bytes_text, duration_text, parse_bytes, parse_duration_ms

T = TypeVar("T")
Choice = TypeVar("Choice", bound=StrEnum)

UNLIMITED = "unlimited"
"""How a setting that has such a value says that there is no limit."""

_WHOLE = re.compile(r"-?[0-9]{1,19}")
_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})
_ORIGIN = re.compile(r"https?://(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?", re.IGNORECASE)
_HOST_NAME = re.compile(r"(?=.{1,253}\Z)[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*")


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """A kind of value; `types` are those of Python, and `metavar` stands for it in the help of a command."""

    metavar: str
    allowed: str
    types: tuple[type, ...]
    parse: Callable[[str], T | None]
    text: Callable[[T], str]
    fits: Callable[[T], bool]

    def read(self, written: object) -> T | None:
        """Return the value that stands in a source; None if it is not one of this kind."""
        if tuple in self.types and isinstance(written, list) and all(isinstance(each, str) for each in written):
            written = ",".join(written)
        if not isinstance(written, str):
            if not self._is_of_type(written):
                return None
            written = _as_text(written)
        value = self.parse(written.strip())
        return value if value is not None and self.accepts(value) else None

    def accepts(self, value: T) -> bool:
        """Return whether a value is of this kind and within its bounds."""
        return self._is_of_type(value) and self.fits(value)

    def _is_of_type(self, value: object) -> bool:
        # A bool is an int to Python, but not to people.
        return isinstance(value, self.types) and isinstance(value, bool) == (bool in self.types)


def whole(low: int, high: int, *, metavar: str = "N") -> Kind[int]:
    """Return the kind of whole numbers between two bounds, both allowed."""
    return Kind(
        metavar,
        f"a whole number from {low} to {high}",
        (int,),
        parse=_parse_whole,
        text=str,
        fits=lambda number: low <= number <= high,
    )


def port() -> Kind[int]:
    """Return the kind of TCP ports, with 0 for one that is chosen later."""
    return whole(0, 65_535, metavar="PORT")


def duration(low: int, high: int = AMOUNT_MAX, *, unlimited: int | None = None) -> Kind[int]:
    """Return the kind of durations in milliseconds; `unlimited` is the number that stands for no limit."""
    such_as = "a duration such as 500ms, 30s or 7d"
    return _amount("TIME", such_as, parse_duration_ms, duration_text, (low, high), unlimited)


def byte_size(low: int, high: int = AMOUNT_MAX, *, unlimited: int | None = None) -> Kind[int]:
    """Return the kind of sizes in bytes; `unlimited` is the number that stands for no limit."""
    such_as = "a size such as 64KiB, 1MiB or 10MB"
    return _amount("SIZE", such_as, parse_bytes, bytes_text, (low, high), unlimited)


def fraction() -> Kind[float]:
    """Return the kind of numbers from 0 to 1."""
    return Kind(
        "0..1",
        "a number from 0 to 1",
        (float, int),
        parse=_parse_number,
        text=lambda number: f"{number:.15g}",
        fits=lambda number: 0 <= number <= 1,
    )


def switch() -> Kind[bool]:
    """Return the kind of booleans."""
    return Kind("", "true or false", (bool,), parse=_parse_switch, text=_switch_text, fits=lambda _: True)


def choice(choices: type[Choice], *, metavar: str) -> Kind[Choice]:
    """Return the kind of the members of an enumeration, in letters of either case."""
    members = {member.value: member for member in choices}
    *others, last = members
    return Kind(
        metavar,
        f"{', '.join(others)} or {last}",
        (choices,),
        # Several at once, as in `compact,delete`, are written in any order.
        parse=lambda text: members.get(",".join(sorted(part.strip() for part in text.lower().split(",")))),
        text=lambda member: member.value,
        fits=lambda _: True,
    )


def directory() -> Kind[Path]:
    """Return the kind of paths of a directory, absolute or relative to where the command is run."""
    return Kind(
        "DIR",
        "the path of a directory, without ~",  # which only a shell understands
        (Path,),
        parse=lambda text: Path(text) if text else None,
        text=str,
        fits=lambda path: not str(path).startswith("~") and "\0" not in str(path),
    )


def listen_address() -> Kind[str]:
    """Return the kind of addresses that a listener can be bound to."""
    return Kind("HOST", "an IP address or localhost", (str,), parse=str, text=str, fits=_is_listen_address)


def reachable_host() -> Kind[str]:
    """Return the kind of advertised hosts; empty for none."""
    return Kind(
        "HOST",
        "a host name or an IP address that clients can connect to, without a port, or nothing",
        (str,),
        parse=str,
        text=str,
        fits=_is_reachable_host,
    )


def host_names() -> Kind[tuple[str, ...]]:
    """Return the kind of lists of host names and IP addresses, or * for all."""
    return _texts("NAMES", "host names without a port, separated by commas, or *", _is_host_or_any)


def web_origins() -> Kind[tuple[str, ...]]:
    """Return the kind of lists of origins of web pages, or * for all."""
    such_as = "origins such as https://app.example.com or http://localhost:3000, separated by commas, or *"
    return _texts("ORIGINS", such_as, _is_origin_or_any)


def is_loopback(host: str) -> bool:
    """Return whether an address can be reached from this machine only."""
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _texts(metavar: str, allowed: str, fits: Callable[[str], bool]) -> Kind[tuple[str, ...]]:
    return Kind(
        metavar,
        allowed,
        (tuple,),
        parse=lambda text: tuple(part.strip() for part in text.split(",")) if text else (),
        text=",".join,
        fits=lambda texts: all(map(fits, texts)),
    )


def _amount(
    metavar: str,
    such_as: str,
    parse: Callable[[str], int],
    text: Callable[[int], str],
    bounds: tuple[int, int],
    unlimited: int | None,
) -> Kind[int]:
    low, high = bounds
    upper = "" if high == AMOUNT_MAX else f" to {text(high)}"
    return Kind(
        metavar,
        f"{such_as}, from {text(low)}{upper}" + ("" if unlimited is None else f", or {UNLIMITED}"),
        (int,),
        parse=lambda written: _parse_amount(written, parse, unlimited),
        text=lambda amount: UNLIMITED if amount == unlimited else text(amount),
        fits=lambda amount: amount == unlimited or low <= amount <= high,
    )


def _parse_amount(written: str, parse: Callable[[str], int], unlimited: int | None) -> int | None:
    if unlimited is not None and written.lower() in (UNLIMITED, str(unlimited)):
        return unlimited
    try:
        return parse(written)
    except Invalid:
        return None


def _parse_whole(text: str) -> int | None:
    return int(text) if _WHOLE.fullmatch(text) else None


def _parse_number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _parse_switch(text: str) -> bool | None:
    return True if text.lower() in _TRUE else False if text.lower() in _FALSE else None


def _switch_text(is_on: bool) -> str:  # noqa: FBT001 - the one value of its kind
    return "true" if is_on else "false"


def _as_text(written: object) -> str:
    if isinstance(written, int) and abs(written) > AMOUNT_MAX:
        return ""  # of which Python may refuse to make text; no kind of number takes it
    return str(written)


def _is_listen_address(host: str) -> bool:
    return host == "localhost" or _address(host) is not None


def _is_reachable_host(host: str) -> bool:
    address = _address(host)
    if address is not None:
        return not address.is_unspecified
    # A name whose last part is a number would be a mistyped address.
    return not host or (_HOST_NAME.fullmatch(host) is not None and not host.rpartition(".")[2].isdigit())


def _is_host_or_any(host: str) -> bool:
    return host == "*" or (bool(host) and _is_reachable_host(host))


def _is_origin_or_any(origin: str) -> bool:
    return origin == "*" or _ORIGIN.fullmatch(origin) is not None


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None
