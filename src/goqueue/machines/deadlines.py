"""Indexes over deadlines by name: one that may be checked too early, and an exact one.

`Deadlines` notices only at the earlier moment that a deadline has moved to a later one, so most changes cost nothing.
`DeadlineIndex` is exact. Replaced deadlines stay in its heap until they come up or make up most of the heap, so the
heap is never much larger than the number of names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, Generic, TypeVar

NameT = TypeVar("NameT", bound=tuple[Any, ...] | str)
# A due name that was not handled is due again after this time.
_AGAIN_MS = 1_000
_STALE_MIN = 64


class Deadlines(Generic[NameT]):
    """The next deadline of each name; all moments are monotonic."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, NameT]] = []
        self._known: dict[NameT, int] = {}

    def note(self, name: NameT, moment_ms: int | None, *, is_past: bool = False) -> None:
        """Set a deadline, or remove it with None; `is_past` means that the due work is done."""
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
        """Yield the names that are due; each is due again a little later, unless `note` says otherwise."""
        names = []
        while (moment := self.next_ms()) is not None and moment <= now_ms:
            _, name = heappop(self._heap)
            names.append(name)
            self._known[name] = now_ms + _AGAIN_MS
            heappush(self._heap, (now_ms + _AGAIN_MS, name))
        yield from names


class DeadlineIndex:
    """At most one deadline for each transactional id; cheap to query and to change."""

    __slots__ = ("_deadlines", "_heap")

    def __init__(self) -> None:
        self._deadlines: dict[str, int] = {}
        self._heap: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._deadlines)

    def get(self, transactional_id: str) -> int | None:
        """Return the deadline of an id, if it has one."""
        return self._deadlines.get(transactional_id)

    def set(self, transactional_id: str, deadline_ms: int | None) -> None:
        """Replace the deadline of an id, or remove it with None."""
        if deadline_ms == self._deadlines.get(transactional_id):
            return
        if deadline_ms is None:
            del self._deadlines[transactional_id]
        else:
            self._deadlines[transactional_id] = deadline_ms
            heappush(self._heap, (deadline_ms, transactional_id))
        if len(self._heap) > 2 * len(self._deadlines) + _STALE_MIN:
            self._heap = [(deadline, each) for each, deadline in self._deadlines.items()]
            heapify(self._heap)

    def first(self) -> int | None:
        """Return the earliest deadline."""
        while self._heap and not self._is_current(self._heap[0]):
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def due(self, now_ms: int) -> Sequence[str]:
        """Return the ids that are due, the earliest first; they stay due until their deadline is replaced."""
        entries = set()
        while self._heap and self._heap[0][0] <= now_ms:
            entry = heappop(self._heap)
            if self._is_current(entry):
                entries.add(entry)
        found = sorted(entries)
        for entry in found:
            heappush(self._heap, entry)
        return [transactional_id for _, transactional_id in found]

    def validate(self) -> None:
        """Check that the heap has every deadline and is not much larger; AssertionError if not."""
        assert {(deadline, each) for each, deadline in self._deadlines.items()} <= set(self._heap)
        assert len(self._heap) <= 2 * len(self._deadlines) + _STALE_MIN

    def _is_current(self, entry: tuple[int, str]) -> bool:
        deadline, transactional_id = entry
        return self._deadlines.get(transactional_id) == deadline
