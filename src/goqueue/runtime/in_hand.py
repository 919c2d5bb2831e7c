"""How many bytes of messages all requests together have in hand while they wait for something.

A request that waits in the middle of its work, for a decision to become durable, keeps the messages that it has opened.
Each holds a bounded number of bytes; this bounds all of them. When there is no room, a request waits before it opens
anything, and when there is little, it takes less. So none fails, and no more is held than the limit and one message.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from goqueue.runtime.waiters import Wake, arrival

IN_HAND_BYTES_MAX = 64 * 1024 * 1024


class InHand:
    """The bytes that are held, and the requests that wait for room; on one event loop."""

    def __init__(self, bytes_max: int = IN_HAND_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._waiting: deque[Wake] = deque()

    @property
    def room_bytes(self) -> int:
        """How many bytes may be taken now; none if it is 0."""
        return max(self._bytes_max - self._bytes, 0)

    async def room(self) -> None:
        """Wait until some bytes may be taken, or are let go of; look again, since others may come first."""
        if not self.room_bytes:
            await arrival(self._waiting.append)

    @contextmanager
    def hold(self, size_bytes: int) -> Iterator[None]:
        """Hold so many bytes for the length of the block."""
        self._bytes += size_bytes
        try:
            yield
        finally:
            self._bytes -= size_bytes
            while self._waiting:
                self._waiting.popleft()()
