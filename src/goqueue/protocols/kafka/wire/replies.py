"""The replies of one connection, in the order of its requests.

A slot is taken when a request is read, and filled when its reply is ready; later replies wait. Knows no socket: the
connection takes the replies that are ready.
"""

from __future__ import annotations

import struct
from collections import deque

Parts = list[bytes]

_FRAME_HEAD = struct.Struct(">ii")
_FRAME_HEAD_FLEXIBLE = struct.Struct(">iib")


class Slot:
    """The slot of a reply, or of the replies to several consecutive requests; `parts` is None until they are ready."""

    __slots__ = ("parts", "request_bytes", "requests")

    def __init__(self, request_bytes: int) -> None:
        self.parts: Parts | None = None
        self.requests = 1
        self.request_bytes = request_bytes


class Replies:
    """The replies that a client waits for, and those that are ready.

    `owed` counts requests without a reply, `owed_bytes` how large these requests are, and `ready_bytes` the bytes of
    replies that were not taken.
    """

    __slots__ = ("_ready", "_slots", "owed", "owed_bytes", "ready_bytes")

    def __init__(self) -> None:
        self._slots: deque[Slot] = deque()
        self._ready: Parts = []
        self.owed = 0
        self.owed_bytes = 0
        self.ready_bytes = 0

    def expect(self, request_bytes: int = 0) -> Slot:
        """Return a slot for the reply to a request that was read."""
        slot = Slot(request_bytes)
        self._slots.append(slot)
        self.owed += 1
        self.owed_bytes += request_bytes
        return slot

    def expect_more(self, request_bytes: int = 0) -> None:
        """Let one more request be answered in the last slot."""
        last = self._slots[-1]
        last.requests += 1
        last.request_bytes += request_bytes
        self.owed += 1
        self.owed_bytes += request_bytes

    def fill(self, slot: Slot, parts: Parts) -> None:
        """Put a reply into its slot."""
        slot.parts = parts
        slots = self._slots
        while slots and (ready := slots[0].parts) is not None:
            answered = slots.popleft()
            self.owed -= answered.requests
            self.owed_bytes -= answered.request_bytes
            self._ready += ready
            for part in ready:
                self.ready_bytes += len(part)

    def take(self) -> Parts:
        """Return the ready replies in order, and keep none of them."""
        ready, self._ready, self.ready_bytes = self._ready, [], 0
        return ready

    def forget(self) -> None:
        """Drop all replies and slots: the client has left."""
        self._slots.clear()
        self.owed = self.owed_bytes = 0
        self.take()


def frame_head(correlation: int, body_bytes: int, *, is_flexible: bool) -> bytes:
    """Return the header of a reply."""
    if is_flexible:
        return _FRAME_HEAD_FLEXIBLE.pack(body_bytes + 5, correlation, 0)
    return _FRAME_HEAD.pack(body_bytes + 4, correlation)
