"""Bounds the bytes of messages that all requests together hold in memory while they wait.

A request that waits for a decision to become durable keeps the messages that it has opened. Each request holds a
bounded number of bytes; this bounds their sum. When the limit is reached, a request waits before it opens a message,
and close to the limit it takes fewer. So no request fails, and at most the limit and one message are held.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from goqueue.runtime.waiters import Wake, arrival

MESSAGE_MEMORY_BYTES_MAX = 64 * 1024 * 1024


class MessageMemory:
    """The held bytes, and the requests that wait for memory; on one event loop."""

    def __init__(self, bytes_max: int = MESSAGE_MEMORY_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._waiting: deque[Wake] = deque()

    @property
    def room_bytes(self) -> int:
        """How many bytes may be taken now."""
        return max(self._bytes_max - self._bytes, 0)

    async def room(self) -> None:
        """Wait until bytes are free or released; check again afterwards, since other requests may come first."""
        if not self.room_bytes:
            await arrival(self._waiting.append)

    @contextmanager
    def hold(self, size_bytes: int) -> Iterator[None]:
        """Hold some bytes for the length of the block."""
        self._bytes += size_bytes
        try:
            yield
        finally:
            self._bytes -= size_bytes
            while self._waiting:
                self._waiting.popleft()()
