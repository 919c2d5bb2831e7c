"""Timeouts of one connection: for its first byte, the rest of a request, the next request, and reading its replies.

Owns the timers of one connection. The connection reports what happens on it; `drop` is called once, at a timeout.

| waiting for           | for how long                                                     | reason     |
|-----------------------|------------------------------------------------------------------|------------|
| the first byte        | `first_byte_timeout_ms` from `start`                             | `SILENT`   |
| the rest of a request | the same from its first part on, plus time for each byte arrived | `SLOW`     |
| the next request      | `idle_timeout_ms` since the last byte or reply                   | `IDLE`     |
| room to write         | `slow_reader_timeout_ms`                                         | `UNREAD`   |

While the client waits for a reply, no time counts against it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import StrEnum

from goqueue.protocols.connection_limiter import ConnectionLimits

_LOOK_S_MIN = 0.1


class TimeoutReason(StrEnum):
    """Why a connection timed out."""

    SILENT = "it sent nothing for too long"
    SLOW = "it took too long to send a request"
    IDLE = "it was idle for too long"
    UNREAD = "it does not read its replies"


class ConnectionTimeouts:
    """The timers of one connection, from `start` to `end`."""

    __slots__ = (
        "_arrived_bytes",
        "_drop",
        "_is_owed",
        "_limits",
        "_loop",
        "_running_out",
        "_since",
        "_slow_timer",
        "_slowest_bytes_per_s",
        "_timer",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        limits: ConnectionLimits,
        *,
        is_owed: Callable[[], bool],
        drop: Callable[[TimeoutReason], None],
        slowest_bytes_per_s: int = 4096,
    ) -> None:
        """`is_owed` tells whether the client waits for a reply: then its silence does not count.

        A client that sends a request more slowly than `slowest_bytes_per_s`, after the time for the first byte, is
        dropped: it holds a buffer for nothing.
        """
        self._loop = loop
        self._is_owed = is_owed
        self._limits = limits
        self._drop = drop
        self._slowest_bytes_per_s = slowest_bytes_per_s
        self._timer: asyncio.TimerHandle | None = None
        self._slow_timer: asyncio.TimerHandle | None = None
        # The reason to give if nothing changes, and since when its time counts.
        self._running_out = TimeoutReason.SILENT
        self._since = loop.time()
        self._arrived_bytes = 0

    def start(self) -> None:
        """Start the timers."""
        self._look()

    def heard(self) -> None:
        """Note that bytes arrived. This does not extend the time for the rest of a request."""
        if self._running_out is TimeoutReason.IDLE:
            self._since = self._loop.time()

    def answered(self) -> None:
        """Note that a reply was sent: the client's time counts from now."""
        self._since = self._loop.time()

    def expects_rest(self, arrived_bytes: int) -> None:
        """Note that only a part of a request has arrived."""
        self._arrived_bytes = arrived_bytes
        if self._running_out is not TimeoutReason.SLOW:
            self._running_out = TimeoutReason.SLOW
            self._since = self._loop.time()

    def expects_nothing(self) -> None:
        """Note that no request is incomplete, or that the broker does not wait for the client."""
        if self._running_out is not TimeoutReason.IDLE:
            self._running_out = TimeoutReason.IDLE
            self._since = self._loop.time()

    def reading_stopped(self) -> None:
        """Note that the client does not read its replies."""
        timeout_s = self._limits.slow_reader_timeout_ms / 1000
        self._slow_timer = self._loop.call_later(timeout_s, self._drop, TimeoutReason.UNREAD)

    def reading_resumed(self) -> None:
        """Note that the client reads again."""
        if self._slow_timer is not None:
            self._slow_timer.cancel()

    def end(self) -> None:
        """Stop all timers."""
        for timer in (self._timer, self._slow_timer):
            if timer is not None:
                timer.cancel()

    def _look(self) -> None:
        if self._is_owed():
            self._since = self._loop.time()
        left_s = self._since + self._grace_s() - self._loop.time()
        if left_s <= 0:
            self._drop(self._running_out)
            return
        # Expectations may change at any time, so pauses are never longer than the shortest timeout.
        pause_ms_max = min(self._limits.first_byte_timeout_ms, self._limits.idle_timeout_ms)
        self._timer = self._loop.call_later(min(max(left_s, _LOOK_S_MIN), pause_ms_max / 1000), self._look)

    def _grace_s(self) -> float:
        if self._running_out is TimeoutReason.IDLE:
            return self._limits.idle_timeout_ms / 1000
        return self._limits.first_byte_timeout_ms / 1000 + self._arrived_bytes / self._slowest_bytes_per_s
