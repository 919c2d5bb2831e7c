"""Batches on their way into a log: checked, without an offset yet."""

from __future__ import annotations

from typing import NamedTuple

from goqueue.errors import TooLarge
from goqueue.records.layout import PREFIX_BYTES, BatchHeader, read_header, validate


class NewBatch(NamedTuple):
    """A checked batch in a buffer that may be written to, since the log puts its offset there."""

    header: BatchHeader
    data: bytearray | memoryview


def own_batch(data: bytearray) -> NewBatch:
    """Return a batch that was built here a moment ago, so that nothing about it is in doubt."""
    return NewBatch(read_header(data), data)


def check_batches(buffer: bytearray | memoryview, *, bytes_max: int) -> list[NewBatch]:
    """Split a buffer into its batches and check each; CorruptBatch or TooLarge if one is not fit to be stored."""
    view = memoryview(buffer)
    batches = []
    while view:
        header = validate(view)
        size = header.length + PREFIX_BYTES
        if size > bytes_max:
            raise TooLarge(f"a batch has {size} bytes, the limit is {bytes_max}", hint="max.message.bytes")
        if size == len(view):
            batches.append(NewBatch(header, view))
            break
        batches.append(NewBatch(header, view[:size]))
        view = view[size:]
    return batches
