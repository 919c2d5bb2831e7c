"""Pauses of threads that compute for long.

Python runs one thread at a time, and one that computes gives way every 5 ms only: those who serve would wait as long
for each of their many small steps. So whoever computes for long in a thread breathes in between.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from goqueue.errors import Draining

Breath = Callable[[], None]
"""Called between two small pieces of work."""

_WORK_S = 0.001
# It takes a sixth of the time at most, or half of it if it is in a hurry.
_PAUSES_PER_WORK = 5
_HURRIED_PAUSES_PER_WORK = 1


def no_breath() -> None:
    """Go on: nobody else is there."""


class ThreadBreath:
    """The breath of one thread: after each millisecond of work it pauses for five, until nobody wants the work."""

    def __init__(self) -> None:
        self._since = 0.0
        self._pauses_per_work = _PAUSES_PER_WORK
        self._is_stopped = False

    def hurry(self) -> None:
        """Pause less: others would have to wait longer for work that is not done."""
        self._pauses_per_work = _HURRIED_PAUSES_PER_WORK

    def stop(self) -> None:
        """Have the work end at its next breath, by Draining; may be called from another thread."""
        self._is_stopped = True

    def __call__(self) -> None:
        if self._is_stopped:
            raise Draining("nobody waits for this work any more")
        worked = time.thread_time() - self._since
        # The first time, or in another thread.
        if not 0 <= worked < 1:
            worked = _WORK_S
        if worked >= _WORK_S:
            time.sleep(worked * self._pauses_per_work)
            self._since = time.thread_time()
