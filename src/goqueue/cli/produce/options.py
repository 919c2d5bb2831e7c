"""Options of `goqueue produce` as people write them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import typer

_ESCAPES = {r"\t": "\t", r"\n": "\n", r"\0": "\0", r"\\": "\\"}


class AcksChoice(StrEnum):
    """Whom to wait for; as the client has it, which takes a while to import."""

    ALL = "all"
    LEADER = "leader"
    NONE = "none"


def parse_headers(pairs: Sequence[str]) -> list[tuple[str, str]]:
    """Return headers in their order; a mistake in the call if one is not written as NAME=VALUE."""
    headers = []
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name:
            raise typer.BadParameter(f"{pair!r} is not written as NAME=VALUE", param_hint="--header")
        headers.append((name, value))
    return headers


def unescaped(text: str) -> str:
    r"""Return a separator with \t, \n, \0 and \\ as the characters that they stand for."""
    for written, meant in _ESCAPES.items():
        if text == written:
            return meant
    return text
