"""The fields of flexible messages: written as bytes, and read from a reply that is believed nothing.

Whatever a reply says about its own lengths is checked against the bytes that are there before anything is done with
it, so a damaged or hostile one costs a `BadReply` and never memory or an endless loop.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar
from uuid import UUID

from goqueue.client.problems import BadReply
from goqueue.errors import Invalid

T = TypeVar("T")

INT8, INT16, INT32, INT64 = (struct.Struct(">" + kind) for kind in "bhiq")
NO_TAGS = b"\0"
NULL = b"\0"

_VARINT_BITS_MAX = 35
_UUID_BYTES = 16


class Fields:
    """A reply that is read from its beginning to its end."""

    __slots__ = ("_data", "_position")

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._position = 0

    @property
    def left(self) -> int:
        """How many bytes have not been read."""
        return len(self._data) - self._position

    def unpack(self, layout: struct.Struct) -> tuple[int, ...]:
        """Read numbers of fixed sizes."""
        start = self._position
        self._skip(layout.size)
        return layout.unpack_from(self._data, start)

    def number(self, layout: struct.Struct) -> int:
        """Read one number of a fixed size."""
        return self.unpack(layout)[0]

    def flag(self) -> bool:
        """Read a boolean."""
        return self.number(INT8) != 0

    def varint(self) -> int:
        """Read a number of a size of its own, which is never negative."""
        value = 0
        for shift in range(0, _VARINT_BITS_MAX, 7):
            if self._position >= len(self._data):
                break
            byte = self._data[self._position]
            self._position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise self._wrong("a number does not end")

    def view(self) -> memoryview:
        """Read bytes without a copy; null is empty."""
        size = max(self.varint() - 1, 0)
        start = self._position
        self._skip(size)
        return self._data[start : self._position]

    def text(self) -> str:
        """Read a string; null is empty."""
        try:
            return str(self.view(), "utf-8")
        except UnicodeDecodeError:
            raise self._wrong("a string is not UTF-8") from None

    def nullable_text(self) -> str | None:
        """Read a string that may be null."""
        if self.left and self._data[self._position] == 0:
            self._position += 1
            return None
        return self.text()

    def uuid(self) -> UUID:
        """Read an id."""
        start = self._position
        self._skip(_UUID_BYTES)
        return UUID(bytes=bytes(self._data[start : self._position]))

    def array(self, read: Callable[[], T], *, item_bytes_min: int) -> list[T]:
        """Read items one after another; null is empty. An item takes at least so many bytes."""
        count = self.varint() - 1
        if count * item_bytes_min > self.left:
            raise self._wrong(f"{count} items of at least {item_bytes_min} bytes are announced")
        return [read() for _ in range(count)]

    def tags(self) -> None:
        """Skip the tagged fields at the end of a structure."""
        for _ in range(self.varint()):
            self.varint()
            self._skip(self.varint())

    def end(self) -> None:
        """Make sure that nothing follows."""
        if self.left:
            raise self._wrong("nothing should follow")

    def _skip(self, size: int) -> None:
        if size > len(self._data) - self._position:
            raise self._wrong(f"{size} bytes should follow")
        self._position += size

    def _wrong(self, what: str) -> BadReply:
        return BadReply(f"the reply cannot be read: at byte {self._position} of {len(self._data)}, {what}")


def varint(number: int) -> bytes:
    """Return a number in as many bytes as it needs."""
    if number < 0x80:
        return bytes((number,))
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def text(written: str | None) -> bytes:
    """Return a string, or null; Invalid if it cannot be sent."""
    if written is None:
        return NULL
    try:
        data = written.encode()
    except UnicodeEncodeError:
        raise Invalid(f"{written!r} has characters that cannot be sent") from None
    return varint(len(data) + 1) + data


def array(items: Sequence[bytes]) -> bytes:
    """Return an array of what is bytes already."""
    return varint(len(items) + 1) + b"".join(items)


def numbers(values: Iterable[int]) -> bytes:
    """Return an array of numbers of 32 bits."""
    return array([INT32.pack(value) for value in values])
