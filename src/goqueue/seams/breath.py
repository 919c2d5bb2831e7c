"""Pauses of threads that compute for long.

Python runs one thread at a time, and one that computes gives way every 5 ms only: those who serve would wait as long
for each of their many small steps. So whoever computes for long in a thread breathes in between.
"""

from __future__ import annotations

import time
from collections.abc import Callable

Breath = Callable[[], None]
"""Called between two small pieces of work."""

_WORK_S = 0.001
# It takes a sixth of the time at most.
_PAUSES_PER_WORK = 5


def no_breath() -> None:
    """Go on: nobody else is there."""


class ThreadBreath:
    """The breath of one thread: after each millisecond of work it pauses for five."""

    def __init__(self) -> None:
        self._since = 0.0

    def __call__(self) -> None:
        worked = time.thread_time() - self._since
        # The first time, or in another thread.
        if not 0 <= worked < 1:
            worked = _WORK_S
        if worked >= _WORK_S:
            time.sleep(worked * _PAUSES_PER_WORK)
            self._since = time.thread_time()
