"""Fairness between connections: a busy one yields to the others, if there are any."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from goqueue.runtime.waiters import COURTEOUS_TURNS
from goqueue.seams.cooperative_yield import yield_cpu

_RECENT_S = 0.02


class Neighbours:
    """Whether more than one connection of all listeners was busy lately."""

    def __init__(self) -> None:
        self._last: int | None = None
        self._mixed_s = float("-inf")

    def note(self, connection: object) -> None:
        """Note that a connection has work."""
        if id(connection) != self._last:
            self._last = id(connection)
            self._mixed_s = asyncio.get_running_loop().time()

    def give_way(self, go_on: Callable[[], None]) -> None:
        """Yield the CPU, and call `go_on` after several turns of the loop, or in the next one if no other is busy."""
        yield_cpu()
        loop = asyncio.get_running_loop()
        is_alone = loop.time() - self._mixed_s >= _RECENT_S
        loop.call_soon(_count_down, loop, 1 if is_alone else COURTEOUS_TURNS, go_on)


def _count_down(loop: asyncio.AbstractEventLoop, turns: int, go_on: Callable[[], None]) -> None:
    if turns > 1:
        loop.call_soon(_count_down, loop, turns - 1, go_on)
    else:
        go_on()
