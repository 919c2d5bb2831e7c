"""The extent of fetched batches, by their lengths alone.

Checksums and records are the business of the decoder. But a batch that does not advance the offset would make a reader
ask for the same offset forever, so it counts as damage here.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from goqueue.errors import CorruptBatch

PREFIX_BYTES = 12
"""The bytes before those that the length of a batch counts."""

# Base offset, length, leader epoch, magic, checksum, attributes, last offset delta: the beginning of a batch.
_HEAD = struct.Struct(">qiibIhi")
_HEADER_BYTES = 61
_MAGIC = 2


class Extent(NamedTuple):
    """The size of whole batches, and the offset after the last of them."""

    size_bytes: int
    next_offset: int


def extent(records: memoryview, offset: int, what: str) -> Extent:
    """Measure the batches that were fetched from an offset on; a cut batch at the end does not count.

    CorruptBatch, with `what` was read, if there is no whole batch, or anything but batches in order.
    """
    total = len(records)
    position = 0
    next_offset = -1
    while total - position >= _HEADER_BYTES:
        base_offset, length, _, magic, _, _, last_delta = _HEAD.unpack_from(records, position)
        end = position + PREFIX_BYTES + length
        if magic != _MAGIC or length < _HEADER_BYTES - PREFIX_BYTES or last_delta < 0 or base_offset < next_offset:
            raise CorruptBatch(f"{what}: no batch begins at byte {position} of what was fetched from offset {offset}")
        if end > total:
            break
        position = end
        next_offset = base_offset + last_delta + 1
    if next_offset <= offset:
        raise CorruptBatch(f"{what}: {total} bytes were fetched from offset {offset}, and no batch leads beyond it")
    return Extent(position, next_offset)
