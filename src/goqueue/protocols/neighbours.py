"""Whether several connections have work at the same time, and how much a busy one leaves to the others."""

from __future__ import annotations

import asyncio

from goqueue.runtime.waiters import COURTEOUS_TURNS
from goqueue.seams.cpu import yield_cpu

_RECENT_S = 0.02


class Neighbours:
    """What the connections of all listeners know of each other."""

    def __init__(self) -> None:
        self._last: int | None = None
        self._mixed_s = float("-inf")

    def note(self, connection: object) -> None:
        """Take note that a connection has something to do."""
        if id(connection) != self._last:
            self._last = id(connection)
            self._mixed_s = asyncio.get_running_loop().time()

    def give_way(self) -> int:
        """Give the CPU away; return how many turns of the loop a connection leaves to others: one if it is alone."""
        yield_cpu()
        is_alone = asyncio.get_running_loop().time() - self._mixed_s >= _RECENT_S
        return 1 if is_alone else COURTEOUS_TURNS
