"""The checksum of record batches, CRC-32C; the only module that knows which library computes it."""

from __future__ import annotations

import crc32c as _library

Buffer = bytes | bytearray | memoryview


def crc32c(buffer: Buffer, start: int = 0, end: int | None = None, *, after: int = 0) -> int:
    """Return the CRC-32C of `buffer[start:end]` without copying it; `after` is the checksum of what came before."""
    view = buffer if isinstance(buffer, memoryview) else memoryview(buffer)
    return _library.crc32c(view[start:end], after)
