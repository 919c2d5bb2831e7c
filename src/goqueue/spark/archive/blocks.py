"""Checksums of the blocks of a file, so that a reader of some places detects damage.

Parquet has checksums of pages, but not of page headers: with one changed bit there, a reader finds fewer or other rows
and no error. So a file of an archive has the CRC-32 of all of its blocks in its footer, under `goqueue.blocks`, in
hexadecimal digits, and the commit that names the file has a checksum of the footer.
"""

from __future__ import annotations

from typing import Any, Final
from zlib import crc32

import pyarrow as pa

BLOCK_BYTES: Final = 64 * 1024
BLOCKS_KEY: Final = "goqueue.blocks"
_DIGITS: Final = 8


class BlockChecksums:
    """Computes checksums of the blocks of a file while it is written."""

    def __init__(self) -> None:
        self._done: list[int] = []
        self._last = 0
        self._last_bytes = 0

    def update(self, raw: memoryview) -> None:
        """Add bytes."""
        while raw:
            part = raw[: BLOCK_BYTES - self._last_bytes]
            self._last = crc32(part, self._last)
            self._last_bytes += len(part)
            if self._last_bytes == BLOCK_BYTES:
                self._done.append(self._last)
                self._last = self._last_bytes = 0
            raw = raw[len(part) :]

    def text(self) -> str:
        """Return the checksums of all blocks, the last of which may be a short one, as the footer has them."""
        last = [self._last] if self._last_bytes else []
        return "".join(f"{each:0{_DIGITS}x}" for each in (*self._done, *last))


class CheckedFile:
    """A random-access file up to its footer, for pyarrow; a block with a wrong checksum is an OSError."""

    def __init__(self, opened: pa.NativeFile, end: int, checksums: str) -> None:
        """Wrap a file whose footer begins at `end` and has these checksums."""
        self._opened = opened
        self._end = end
        self._checksums = [int(checksums[start : start + _DIGITS], 16) for start in range(0, len(checksums), _DIGITS)]
        self._position = 0
        self.closed = False

    def read(self, size: int = -1) -> Any:
        """Return the next bytes; all of them by default."""
        start = self._position
        stop = self._end if size < 0 else min(start + size, self._end)
        if start >= stop:
            return b""
        first, last = start // BLOCK_BYTES, (stop - 1) // BLOCK_BYTES
        place = first * BLOCK_BYTES
        raw = memoryview(self._opened.read_at(min((last + 1) * BLOCK_BYTES, self._end) - place, place))
        for number in range(first, last + 1):
            block = raw[(number - first) * BLOCK_BYTES :][:BLOCK_BYTES]
            if crc32(block) != self._checksums[number]:
                raise OSError(f"the {BLOCK_BYTES} bytes from {number * BLOCK_BYTES} on are not what was written")
        self._position = stop
        return raw[start - place : stop - place]

    def seek(self, place: int, whence: int = 0) -> int:
        """Go to a place, from the start (0), from here (1) or from the end (2)."""
        self._position = place + (0, self._position, self._end)[whence]
        return self._position

    def tell(self) -> int:
        """Return where the next bytes are read."""
        return self._position

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    def writable(self) -> bool:
        """Tell that it cannot be written."""
        return False

    def seekable(self) -> bool:
        """Tell that it can be read at any place."""
        return True

    def close(self) -> None:
        """Read no more; the file itself stays open."""
        self.closed = True
