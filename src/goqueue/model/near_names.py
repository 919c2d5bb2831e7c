"""Names near a name that does not exist, for errors: "did you mean 'retries'?"."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question with the known name nearest to a wrong one, or nothing if none is near."""
    names = list(known)
    found = get_close_matches(name, names, n=1, cutoff=0.6)
    # `visibility` for `visibility_timeout`: too short for a close match, and plain to people.
    found = found or [each for each in names if len(name) >= 4 and (each.startswith(name) or name.startswith(each))]
    return f"did you mean {found[0]!r}?" if found else ""
