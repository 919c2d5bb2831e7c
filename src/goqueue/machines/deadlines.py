"""When things are due, by name. A deadline that moves later is found out when the earlier one is reached."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Any, Generic, TypeVar

NameT = TypeVar("NameT", bound=tuple[Any, ...] | str)

# What was due and could not be done is due again after this time.
_AGAIN_MS = 1_000


class Deadlines(Generic[NameT]):
    """The next deadline of each name; all moments are monotonic."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, NameT]] = []
        self._known: dict[NameT, int] = {}

    def note(self, name: NameT, moment_ms: int | None, *, is_past: bool = False) -> None:
        """Take note of a deadline, or that there is none; `is_past` says that what was due has been done."""
        if moment_ms is None:
            self._known.pop(name, None)
            return
        known = self._known.get(name)
        if known is None or is_past or moment_ms < known:
            self._known[name] = moment_ms
            heappush(self._heap, (moment_ms, name))

    def next_ms(self) -> int | None:
        """Return the earliest deadline."""
        while self._heap and self._known.get(self._heap[0][1]) != self._heap[0][0]:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def due(self, now_ms: int) -> Iterator[NameT]:
        """Yield the names whose time has come; each is due again a little later, unless it is noted otherwise."""
        names = []
        while (moment := self.next_ms()) is not None and moment <= now_ms:
            _, name = heappop(self._heap)
            names.append(name)
            self._known[name] = now_ms + _AGAIN_MS
            heappush(self._heap, (now_ms + _AGAIN_MS, name))
        yield from names
