"""How long a connection is waited for: for its first byte, the rest of a request, the next one, and for its reading.

Owns the timers of one connection; whoever owns the connection says what happens on it, and is told once that patience
is over, and why.

| what is awaited       | for how long                                                           | then       |
|-----------------------|------------------------------------------------------------------------|------------|
| the first byte        | `first_byte_timeout_ms` from `start`                                   | `SILENT`   |
| the rest of a request | the same from its first part on, and longer the more of it has arrived | `SLOW`     |
| the next request      | `idle_timeout_ms` since it was heard, or answered                      | `IDLE`     |
| room to write         | `slow_reader_timeout_ms`                                               | `UNREAD`   |

Time in which the client waits for us does not count against it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import StrEnum

from goqueue.protocols.connection_limiter import Limits

_LOOK_S_MIN = 0.1


class Reason(StrEnum):
    """Why patience with a connection is over."""

    SILENT = "it sent nothing for too long"
    SLOW = "it took too long to send a request"
    IDLE = "it was idle for too long"
    UNREAD = "it does not read its replies"


class Patience:
    """The patience with one connection, from `start` to `end`."""

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
        limits: Limits,
        *,
        is_owed: Callable[[], bool],
        drop: Callable[[Reason], None],
        slowest_bytes_per_s: int = 4096,
    ) -> None:
        """`is_owed` tells whether the client waits for a reply: then its silence is no fault of its own.

        Whoever sends a request more slowly than `slowest_bytes_per_s`, once the time for the first byte is over, holds
        a buffer for nothing.
        """
        self._loop = loop
        self._is_owed = is_owed
        self._limits = limits
        self._drop = drop
        self._slowest_bytes_per_s = slowest_bytes_per_s
        self._timer: asyncio.TimerHandle | None = None
        self._slow_timer: asyncio.TimerHandle | None = None
        # What will be said if nothing changes, and from when on its time is counted.
        self._running_out = Reason.SILENT
        self._since = loop.time()
        self._arrived_bytes = 0

    def start(self) -> None:
        """Begin to watch."""
        self._look()

    def heard(self) -> None:
        """Take note that bytes have arrived; that is no excuse for a request that does not end."""
        if self._running_out is Reason.IDLE:
            self._since = self._loop.time()

    def answered(self) -> None:
        """Take note that a reply has left: it is the client's turn, whatever is awaited."""
        self._since = self._loop.time()

    def expects_rest(self, arrived_bytes: int) -> None:
        """Take note that only a part of a request has arrived."""
        self._arrived_bytes = arrived_bytes
        if self._running_out is not Reason.SLOW:
            self._running_out = Reason.SLOW
            self._since = self._loop.time()

    def expects_nothing(self) -> None:
        """Take note that no request is on its way, or that it is not the client that is waited for."""
        if self._running_out is not Reason.IDLE:
            self._running_out = Reason.IDLE
            self._since = self._loop.time()

    def reading_stopped(self) -> None:
        """Take note that the client does not read what it is sent."""
        timeout_s = self._limits.slow_reader_timeout_ms / 1000
        self._slow_timer = self._loop.call_later(timeout_s, self._drop, Reason.UNREAD)

    def reading_resumed(self) -> None:
        """Take note that the client reads again."""
        if self._slow_timer is not None:
            self._slow_timer.cancel()

    def end(self) -> None:
        """Watch no more."""
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
        # What is awaited may change at any time, and must not have to wait for the end of a long pause.
        pause_ms_max = min(self._limits.first_byte_timeout_ms, self._limits.idle_timeout_ms)
        self._timer = self._loop.call_later(min(max(left_s, _LOOK_S_MIN), pause_ms_max / 1000), self._look)

    def _grace_s(self) -> float:
        if self._running_out is Reason.IDLE:
            return self._limits.idle_timeout_ms / 1000
        return self._limits.first_byte_timeout_ms / 1000 + self._arrived_bytes / self._slowest_bytes_per_s
