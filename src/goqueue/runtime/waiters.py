"""Those who wait for a partition to get on: until it reaches an offset, or until anything changes at all.

Whoever waits gives a callback. It is called from the loop, once, and must not raise: it runs inside of somebody else's
event, whose connection would pay for it.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

Wake = Callable[[], None]


class Waiters:
    """Callbacks by the offset that they wait for, and callbacks that wait for any progress."""

    def __init__(self) -> None:
        self._by_offset: list[tuple[int, int, Wake]] = []
        self._order = count()
        # A dict, not a set: who is woken first must not depend on addresses of objects.
        self._watchers: dict[Wake, None] = {}

    def __len__(self) -> int:
        return len(self._by_offset) + len(self._watchers)

    def wait_for(self, offset: int, wake: Wake) -> None:
        """Call `wake` once the offset is reached, or when all are woken."""
        heappush(self._by_offset, (offset, next(self._order), wake))

    def watch(self, wake: Wake) -> None:
        """Call `wake` at the next progress, whatever it is."""
        self._watchers[wake] = None

    def forget(self, wake: Wake) -> None:
        """Take back a `watch`; harmless if it is over."""
        self._watchers.pop(wake, None)

    def reached(self, offset: int) -> None:
        """Wake those who wait for this offset or an earlier one, and all who watch."""
        heap = self._by_offset
        while heap and heap[0][0] <= offset:
            heappop(heap)[2]()
        self._wake_watchers()

    def wake_all(self) -> None:
        """Wake everybody: what they wait for will not come."""
        heap, self._by_offset = self._by_offset, []
        for _, _, wake in sorted(heap, key=lambda entry: entry[:2]):
            wake()
        self._wake_watchers()

    def _wake_watchers(self) -> None:
        if self._watchers:
            watchers, self._watchers = self._watchers, {}
            for wake in watchers:
                wake()
