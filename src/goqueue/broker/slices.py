"""Long work on the loop, cut into slices: others have a turn in between, and it can be cut short.

Its cost is the sum of its slices, however long the turns of others are.
"""

from __future__ import annotations

from collections.abc import Callable

from goqueue.runtime.waiters import give_way

PIECES_MAX = 500
"""A slice ends after so many pieces of work, or after `SLICE_S` if they take long."""
SLICE_S = 0.003


class CutShort(Exception):
    """The work is not wanted any more."""


class Slices:
    """One piece of long work; `time` is a monotonic clock, and once it `is_over` the work ends at its next pause."""

    def __init__(self, time: Callable[[], float], is_over: Callable[[], bool]) -> None:
        self._time = time
        self._is_over = is_over
        self._pieces = 0
        self._busy_s = 0.0
        self._began = time()

    @property
    def busy_s(self) -> float:
        """How long the work itself has taken until now."""
        return self._busy_s + self._time() - self._began

    def note(self, pieces: int = 1) -> bool:
        """Take note of work that was done; tell whether it is time to give way."""
        self._pieces += pieces
        return self._pieces >= PIECES_MAX or self._time() - self._began >= SLICE_S

    async def give_way(self) -> None:
        """Let others have a turn; CutShort if the work is over."""
        self._busy_s = self.busy_s
        await give_way()
        self._pieces, self._began = 0, self._time()
        if self._is_over():
            raise CutShort
