"""Tells whether the connection of a caller is still open."""

from __future__ import annotations

from goqueue.runtime.waiters import Waiters, Wake


class Presence:
    """One connection of a caller, from its first request until it `is_over`, for good.

    `sessions` is how many share sessions were heard on it last.
    """

    def __init__(self) -> None:
        self.is_over = False
        self.sessions = 0
        self._watchers = Waiters()

    def watch(self, wake: Wake) -> None:
        """Call `wake` once the connection is over; at once if it is."""
        if self.is_over:
            wake()
        else:
            self._watchers.watch(wake)

    def forget(self, wake: Wake) -> None:
        """Take back a `watch`; harmless if there is none."""
        self._watchers.forget(wake)

    def end(self) -> None:
        """Tell all who watch that the connection is over."""
        self.is_over = True
        self._watchers.wake_all()
