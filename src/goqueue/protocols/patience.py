"""How long a connection is waited for: for its first byte, the rest of a request, the next one, and for its reading.

Owns the timers of one connection; whoever owns the connection says what happens on it, and is told once to drop it,
and why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from goqueue.protocols.door import Limits

# Whoever sends a request more slowly than this, once the time for the first byte is over, holds a buffer for nothing.
_SLOWEST_BYTES_PER_S = 4096
_LOOK_S_MIN = 1.0


class Patience:
    """The patience with one connection, from `start` to `end`."""

    __slots__ = (
        "_drop",
        "_heard_at",
        "_is_owed",
        "_limits",
        "_loop",
        "_slow_timer",
        "_timer",
        "_unread_bytes",
        "_waiting_since",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        limits: Limits,
        *,
        is_owed: Callable[[], bool],
        drop: Callable[[str], None],
    ) -> None:
        """`is_owed` tells whether the client waits for a reply: then its silence is no fault of its own."""
        self._loop = loop
        self._is_owed = is_owed
        self._limits = limits
        self._drop = drop
        self._timer: asyncio.TimerHandle | None = None
        self._slow_timer: asyncio.TimerHandle | None = None
        self._heard_at = loop.time()
        # When we began to wait for the rest of a request, or for the first one.
        self._waiting_since: float | None = self._heard_at
        self._unread_bytes = 0

    def start(self) -> None:
        """Begin to watch."""
        self._look()

    def heard(self) -> None:
        """Take note that bytes have arrived."""
        self._heard_at = self._loop.time()

    def expects_rest(self, unread_bytes: int) -> None:
        """Take note that only a part of a request has arrived."""
        self._unread_bytes = unread_bytes
        if self._waiting_since is None:
            self._waiting_since = self._heard_at

    def expects_nothing(self) -> None:
        """Take note that no request is on its way, or that it is not the client that is waited for."""
        self._waiting_since = None

    def reading_stopped(self) -> None:
        """Take note that the client does not read what it is sent."""
        self._slow_timer = self._loop.call_later(
            self._limits.slow_reader_timeout_ms / 1000, self._drop, "it does not read its replies"
        )

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
        limits = self._limits
        if self._waiting_since is None:
            reason = "it was idle for too long"
            end = self._heard_at + limits.idle_timeout_ms / 1000
        else:
            reason = "it took too long to send a request" if self._unread_bytes else "it sent nothing"
            grace_s = limits.first_byte_timeout_ms / 1000 + self._unread_bytes / _SLOWEST_BYTES_PER_S
            end = self._waiting_since + grace_s
        left_s = end - self._loop.time()
        if left_s <= 0 and not self._is_owed():
            self._drop(reason)
            return
        # A request may begin to arrive at any time, and must not have to wait for the end of a long pause.
        look_s = min(max(left_s, _LOOK_S_MIN), limits.first_byte_timeout_ms / 1000)
        self._timer = self._loop.call_later(look_s, self._look)
