"""Cuts a stream of bytes into frames, in place.

    +----------------+---------------------------+
    | size, 4 bytes  | `size` bytes: one request | ...
    +----------------+---------------------------+

All connections read into one shared buffer, since each is done with it before the next one reads. Only what is left
of an incomplete frame (or of requests that must wait) moves to a buffer of the connection's own, which grows with
what has arrived and not with what was announced. Knows nothing of sockets.
"""

from __future__ import annotations

import struct

from goqueue.errors import MalformedRequest

SHARED_BYTES = 256 * 1024
"""Bytes that are read at once, unless a frame is larger."""

_SIZE = struct.Struct(">i")
_SIZE_BYTES = 4
# Room for a frame grows in steps, so that it costs no more than a few times what has arrived.
_SMALL_BYTES = 4096
_LARGE_BYTES = 2 * 1024 * 1024
_GROWTH = 16
_POOL_BUFFERS = 16


class BufferPool:
    """The buffer that all connections read into, and a few large ones that have been used and may be again."""

    def __init__(self) -> None:
        self.shared = memoryview(bytearray(SHARED_BYTES))
        self._free: list[bytearray] = []

    def take(self, size: int) -> bytearray:
        """Return a buffer with room for at least `size` bytes."""
        if _LARGE_BYTES // _GROWTH < size <= _LARGE_BYTES:
            return self._free.pop() if self._free else bytearray(_LARGE_BYTES)
        return bytearray(size)

    def give_back(self, buffer: bytearray) -> None:
        """Keep a large buffer for the next connection that needs one."""
        if len(buffer) == _LARGE_BYTES and len(self._free) < _POOL_BUFFERS:
            self._free.append(buffer)


class Frames:
    """The incoming side of one connection."""

    __slots__ = ("_end", "_frame_bytes_max", "_limit", "_own", "_pool", "_start", "_view")

    def __init__(self, pool: BufferPool, *, frame_bytes_max: int) -> None:
        self._pool = pool
        self._frame_bytes_max = frame_bytes_max
        self._own: bytearray | None = None
        self._view = pool.shared
        self._start = 0
        self._end = 0
        self._limit = SHARED_BYTES

    @property
    def unread(self) -> int:
        """The number of bytes that have arrived and were not taken yet."""
        return self._end - self._start

    def peek(self, count: int) -> bytes:
        """Return the first bytes that were not taken yet, at most so many."""
        return bytes(self._view[self._start : min(self._start + count, self._end)])

    def buffer(self) -> memoryview:
        """Return the memory for the next bytes; never empty after `keep`."""
        return self._view[self._end : self._limit]

    def received(self, count: int) -> None:
        """Note that bytes were put there."""
        self._end += count

    def next(self) -> memoryview | None:
        """Return the next whole frame without its size, valid until `keep`; MalformedRequest for a bad size."""
        if self._end - self._start < _SIZE_BYTES:
            return None
        size = self._size()
        begin = self._start + _SIZE_BYTES
        if begin + size > self._end:
            return None
        self._start = begin + size
        return self._view[begin : begin + size]

    def take_over(self, frame: memoryview) -> memoryview:
        """Return the frame that came last in memory that stays valid after `keep`."""
        if self._own is None:
            return memoryview(bytearray(frame))
        # No other connection gets this buffer; the rest of it moves elsewhere.
        self._own = None
        return frame

    def keep(self) -> None:
        """Move the rest out of the shared buffer; call it after each round of `next`."""
        left = self._end - self._start
        if not left:
            self._release()
            return
        wanted = self._room_for(left)
        if self._own is not None and self._start == 0 and wanted <= self._limit:
            return
        own = self._pool.take(wanted)
        view = memoryview(own)
        view[:left] = self._view[self._start : self._end]
        self._release()
        self._own, self._view, self._end, self._limit = own, view, left, wanted

    def _size(self) -> int:
        (size,) = _SIZE.unpack_from(self._view, self._start)
        if not 0 <= size <= self._frame_bytes_max:
            raise MalformedRequest(f"a frame announces {size} bytes, allowed are 0 to {self._frame_bytes_max}")
        return int(size)

    def _room_for(self, left: int) -> int:
        """Return the room that the rest needs: for the frame that it begins, or for more requests that have to wait."""
        frame = self._size() + _SIZE_BYTES if left >= _SIZE_BYTES else _SMALL_BYTES
        if frame <= left:
            return max(2 * left, _SMALL_BYTES)
        growth = _GROWTH if left * _GROWTH <= _LARGE_BYTES else 2
        return min(frame, max(left * growth, _SMALL_BYTES))

    def _release(self) -> None:
        if self._own is not None:
            self._pool.give_back(self._own)
            self._own = None
        self._view, self._start, self._end, self._limit = self._pool.shared, 0, 0, SHARED_BYTES
