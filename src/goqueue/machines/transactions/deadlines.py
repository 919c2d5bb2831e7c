"""Which transactional id is due next: an index over their deadlines, cheap to ask and to change.

A deadline that was replaced stays in the heap until it comes up, or until most of the heap is of that kind: so the
index never holds much more than there are ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

_STALE_MIN = 64


class Deadlines:
    """At most one deadline for each id."""

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
        """Give an id another deadline, or none."""
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
        """Return the ids whose deadline has come, the earliest first; they stay due until they get another one."""
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
        """Check that the heap has every deadline, and is not much larger; AssertionError if not."""
        assert {(deadline, each) for each, deadline in self._deadlines.items()} <= set(self._heap)
        assert len(self._heap) <= 2 * len(self._deadlines) + _STALE_MIN

    def _is_current(self, entry: tuple[int, str]) -> bool:
        deadline, transactional_id = entry
        return self._deadlines.get(transactional_id) == deadline
