"""Remembers recent reports, so that lasting trouble is reported once an hour and not all the time."""

from __future__ import annotations

from collections.abc import Hashable

REMIND_EVERY_S = 3600.0


class Reminders:
    """The moments at which things were reported; forgets what is due to be reported again."""

    def __init__(self, every_s: float = REMIND_EVERY_S) -> None:
        self._every_s = every_s
        self._told: dict[Hashable, float] = {}

    def __len__(self) -> int:
        return len(self._told)

    def is_due(self, what: Hashable, now: float) -> bool:
        """Tell whether something is to be reported now, and take it for reported."""
        told = self._told.get(what)
        if told is not None and now - told < self._every_s:
            return False
        # At the end, so that the oldest come first.
        self._told.pop(what, None)
        self._told[what] = now
        return True

    def prune(self, now: float) -> None:
        """Forget what is due anyway."""
        for what, told in list(self._told.items()):
            if now - told < self._every_s:
                return
            del self._told[what]
