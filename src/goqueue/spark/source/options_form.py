"""Options as somebody has written them, in any case, and all that is wrong with them.

Reads and writes fill in the same form: each value is parsed on its own, and a mistake is noted rather than raised, so
that all of them can be told at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import TypeVar

from goqueue.errors import Invalid, SettingMistake

T = TypeVar("T")


class OptionsForm:
    """Options as they were written, and what is wrong with them."""

    def __init__(self, written: Mapping[str, str]) -> None:
        self._written = {name.lower(): (name, text) for name, text in written.items()}
        self.mistakes: list[SettingMistake] = []

    def has(self, name: str) -> bool:
        """Tell whether an option is there."""
        return name.lower() in self._written

    def read(self, name: str, parse: Callable[[str], T], *, default: T) -> T:
        """Return what an option says, or the default if it is not there, or noted as wrong."""
        if not self.has(name):
            return default
        try:
            return parse(self._written[name.lower()][1])
        except Invalid as error:
            self.note(name, str(error))
            return default

    def one_of(self, names: tuple[str, ...]) -> str | None:
        """Return which one is there; more than one is a mistake."""
        present = [name for name in names if self.has(name)]
        if len(present) > 1:
            line = f"{' and '.join(present)} contradict each other: keep one of them"
            self.mistakes.append(SettingMistake(tuple(present), line))
        return present[0] if present else None

    def note(self, name: str, what: str) -> None:
        """Take note of what is wrong with an option: half a sentence that begins with a verb, or a whole one."""
        separator = " " if what.startswith(("is ", "belongs ", "has ")) else ": "
        self.mistakes.append(SettingMistake((name,), f"{name}{separator}{what}"))

    def check_names(
        self, names: Sequence[str], *, of: str, path_fix: Callable[[str], str], others: frozenset[str] = frozenset()
    ) -> None:
        """Note what is no option `of` a read or a write; `others`, in lower case, are somebody else's business.

        `path_fix` says what to do about a path, which Spark's calls take in passing.
        """
        known = {name.lower(): name for name in names}
        for folded, (name, text) in self._written.items():
            if folded in known or folded in others:
                continue
            near = get_close_matches(folded, known, n=1)
            if folded == "path":
                fix = path_fix(text)
            else:
                fix = f"did you mean {known[near[0]]}?" if near else f"there are {', '.join(names)}"
            self.note(name, f"is no option of {of}: {fix}")
