"""Gives the CPU to other threads during long computations.

Python runs one thread at a time, and a thread that computes yields only every 5 ms. Threads that serve requests would
wait that long for each of their many small steps. So a long computation pauses after each millisecond of work.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from goqueue.errors import Draining

Pause = Callable[[], None]
"""Called between two small pieces of work."""

_WORK_S = 0.001
# The work takes a sixth of the time at most, or half of it if it is in a hurry.
_PAUSES_PER_WORK = 5
_HURRIED_PAUSES_PER_WORK = 1


def no_pause() -> None:
    """Continue without a pause: no other thread waits."""


class ThreadPauses:
    """Pauses one thread for five milliseconds after each millisecond of work; ends the work when it is stopped."""

    def __init__(self) -> None:
        self._since = 0.0
        self._pauses_per_work = _PAUSES_PER_WORK
        self._is_stopped = False

    def hurry(self) -> None:
        """Pause less: the work falls behind what arrives."""
        self._pauses_per_work = _HURRIED_PAUSES_PER_WORK

    def stop(self) -> None:
        """End the work at its next pause with Draining; may be called from another thread."""
        self._is_stopped = True

    def __call__(self) -> None:
        if self._is_stopped:
            raise Draining("this work was stopped")
        worked = time.thread_time() - self._since
        # The first time, or in another thread.
        if not 0 <= worked < 1:
            worked = _WORK_S
        if worked >= _WORK_S:
            time.sleep(worked * self._pauses_per_work)
            self._since = time.thread_time()


def yield_cpu() -> None:
    """Let others run on this CPU that are ready to."""
    # Windows has no such call.
    if hasattr(os, "sched_yield"):
        os.sched_yield()
