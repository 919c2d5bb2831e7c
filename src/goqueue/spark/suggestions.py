"""Hints for names that do not exist."""

from __future__ import annotations

from difflib import get_close_matches

NAMES_SHOWN_MAX = 12


def nearest(written: str, known: list[str]) -> str:
    """Return which of some names was probably meant; nothing if none is near."""
    by_folded = {name.casefold(): name for name in known}
    near = get_close_matches(written.casefold(), by_folded, n=1, cutoff=0.6)
    return by_folded[near[0]] if near else ""


def suggestion(written: str, known: list[str]) -> str:
    """Return a hint that names what was probably meant, or else what there is to choose from."""
    if near := nearest(written, known):
        return f"did you mean {near}?"
    if not known:
        return ""
    shown = ", ".join(known[:NAMES_SHOWN_MAX])
    return f"choose from {shown}{', ...' if len(known) > NAMES_SHOWN_MAX else ''}"
