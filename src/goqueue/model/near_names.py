"""Suggestions for names that do not exist, as in "did you mean 'orders'?".

The cost is bounded, however many names there are and however long they are: a client may ask for thousands of names
that do not exist.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice

_NAME_CHARACTERS_MAX = 250
# To compare two names takes the square of their length, and more if they repeat themselves.
_COMPARED_CHARACTERS_MAX = 48
_KNOWN_MAX = 10_000
_COMPARED_MAX = 200
_CUTOFF = 0.65
_PREFIX_CHARACTERS_MIN = 4


def near_name(name: str, known: Iterable[str]) -> str:
    """Return the known name that is most like another one; empty if none is like it."""
    if not 0 < len(name) <= _NAME_CHARACTERS_MAX:
        return ""
    folded = name.casefold()
    names = list(islice(known, _KNOWN_MAX))
    by_folded = {each.casefold(): each for each in names if _may_be_near(name, each)}
    if folded in by_folded:
        return by_folded[folded]
    if len(folded) > _COMPARED_CHARACTERS_MAX:
        return _longer_form(folded, names)
    # Names that begin in the same way come first: if there are too many, the others are left out.
    likely = sorted(by_folded, key=lambda each: (each[:2] != folded[:2], each[:1] != folded[:1]))
    near = get_close_matches(folded, likely[:_COMPARED_MAX], n=1, cutoff=_CUTOFF)
    return by_folded[near[0]] if near else _longer_form(folded, names)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the question whether the most similar known name is meant; empty if none is similar."""
    near = near_name(name, known)
    return f"did you mean {near!r}?" if near else ""


def _longer_form(folded: str, names: Iterable[str]) -> str:
    """Return a name that begins with the given one, as `visibility_timeout` does with `visibility`; or nothing."""
    if len(folded) < _PREFIX_CHARACTERS_MIN or folded in names:
        return ""
    return next((each for each in names if each.casefold().startswith(folded) and each.casefold() != folded), "")


def _may_be_near(name: str, other: str) -> bool:
    """Tell whether two names are similar in length; the others need not be compared."""
    return 3 * abs(len(name) - len(other)) <= 2 * min(len(name), len(other)) and name != other
