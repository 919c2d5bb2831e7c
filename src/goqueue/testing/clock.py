"""Clocks that a test moves: one by hand, one with the virtual time of an event loop.

Both implement `goqueue.seams.clock.Clock` and keep its promise: wall time may jump in both directions,
monotonic time never goes back. Neither ever asks the operating system.
"""

from __future__ import annotations

import asyncio
import itertools

# A round moment in November 2023: far from zero, so that a stamp mistaken for a duration shows.
START_MS = 1_700_000_000_000
_BOOTS = itertools.count(1)


class ManualClock:
    """A clock that moves only when `advance` is called.

    >>> clock = ManualClock(now_ms=1_000)
    >>> clock.advance(1.5)
    >>> clock.now_ms(), clock.monotonic()
    (2500, 1.5)
    """

    def __init__(self, now_ms: int = START_MS, monotonic: float = 0.0) -> None:
        # Whole microseconds, so that many small steps add up to what their sum would be.
        self._wall_us = now_ms * 1000
        self._monotonic = monotonic

    def now_ms(self) -> int:
        return self._wall_us // 1000

    def monotonic(self) -> float:
        return self._monotonic

    def boot_id(self) -> str:
        return "manual"

    def advance(self, seconds: float) -> None:
        """Let time pass, on the wall and for durations."""
        if seconds < 0:
            raise ValueError(f"time passes forwards only, not by {seconds} s; use jump_ms for the wall clock")
        self._wall_us += round(seconds * 1_000_000)
        self._monotonic += seconds

    def jump_ms(self, delta: int) -> None:
        """Set the wall clock forwards or back, as a time server does; durations do not notice."""
        self._wall_us += delta * 1000


class SimClock:
    """The clock of one simulated host: it follows the loop's time; its wall clock has an error of its own."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, start_ms: int = START_MS) -> None:
        self._loop = loop
        self._start_ms = start_ms
        # Every loop begins at 0, as the monotonic time of a machine does that has booted.
        self._boot_id = f"simulated-{next(_BOOTS):08}"

    def now_ms(self) -> int:
        return self._start_ms + round(self._loop.time() * 1_000_000) // 1000

    def monotonic(self) -> float:
        return self._loop.time()

    def boot_id(self) -> str:
        return self._boot_id

    def jump_ms(self, delta: int) -> None:
        """Set this wall clock forwards or back; durations and timers do not notice."""
        self._start_ms += delta
