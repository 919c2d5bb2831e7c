"""Deadlines, and the pauses between attempts. The client pauses nowhere else."""

from __future__ import annotations

import threading

from goqueue.client.conversation import Patience
from goqueue.client.problems import RequestTimedOut
from goqueue.seams.clock import Clock
from goqueue.seams.entropy import Entropy

PATIENCE = Patience(first_pause_s=0.02, pause_s_max=1.0)


class Deadline:
    """The time by which a call has to be over."""

    __slots__ = ("_clock", "_end", "timeout_s")

    def __init__(self, clock: Clock, timeout_s: float) -> None:
        self._clock = clock
        self._end = clock.monotonic() + timeout_s
        self.timeout_s = timeout_s

    @property
    def left_s(self) -> float:
        """The seconds that are left, at least 0."""
        return max(0.0, self._end - self._clock.monotonic())

    @property
    def is_over(self) -> bool:
        """Whether no time is left."""
        return self.left_s == 0.0

    def sooner(self, timeout_s: float) -> Deadline:
        """Return this deadline, or an earlier one after so many seconds."""
        return self if self.left_s <= timeout_s else Deadline(self._clock, timeout_s)

    def require(self, what: str) -> float:
        """Return the seconds that are left; RequestTimedOut if there are none."""
        left_s = self.left_s
        if not left_s:
            raise RequestTimedOut(f"{what} took longer than {self.timeout_s:g} s")
        return left_s


class Waiting:
    """Makes deadlines and pauses; after `close`, pauses end at once."""

    def __init__(self, clock: Clock, entropy: Entropy) -> None:
        self._clock = clock
        self._entropy = entropy
        self._closed = threading.Event()

    def deadline(self, timeout_s: float) -> Deadline:
        """Return the deadline in so many seconds."""
        return Deadline(self._clock, timeout_s)

    def pause(self, attempt: int, deadline: Deadline) -> bool:
        """Pause after an attempt, the first of which is 1; False if there is no time for another one."""
        # Later attempts have the longest pause anyway, and the power would overflow.
        pause_s = PATIENCE.pause_s(min(attempt, 30), self._entropy)
        if pause_s >= deadline.left_s:
            return False
        return not self._closed.wait(pause_s)

    def close(self) -> None:
        """End the pause under way, and allow no more attempts."""
        self._closed.set()
