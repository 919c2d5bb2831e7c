"""Reads messages by their shape. Trusts nothing: every length and count is checked before anything is allocated.

A request comes out in its newest form, whatever its version: fields that an old version lacks have their defaults, so
a handler knows one form only. A response comes out in the form of its version.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from goqueue.errors import Corrupt, MalformedRequest
from goqueue.kafka_wire.shapes import Field, Shape, newest_version, request_shape, response_shape

ELEMENTS_MAX = 100_000
_VARINT_BYTES_MAX = 5
_UUID_BYTES = 16
# In other versions of a reply, the size of the same string has 16 bits.
_STRING_BYTES_MAX = 32_767
# Sizes below this take one byte.
_SHORT_BYTES = 0x7F
_CAN_BE_NULL = frozenset({"string", "bytes", "records"})


class Cursor:
    """A position in a message, and how many more elements of arrays the message may have."""

    __slots__ = ("data", "elements_left", "position")

    def __init__(self, data: bytes | memoryview, position: int = 0, *, elements_max: int = ELEMENTS_MAX) -> None:
        self.data = data
        self.position = position
        self.elements_left = elements_max

    def take(self, size: int) -> bytes:
        """Return a copy of the next bytes; MalformedRequest if there are fewer."""
        return bytes(self.view(size))

    def view(self, size: int) -> bytes | memoryview:
        """Return the next bytes, of a memoryview without a copy; MalformedRequest if there are fewer."""
        end = self.position + size
        if size < 0 or end > len(self.data):
            raise MalformedRequest(f"{size} bytes are announced at byte {self.position}, but the message ends before")
        taken = self.data[self.position : end]
        self.position = end
        return taken

    def count(self, size: int) -> int:
        """Return a number of elements; MalformedRequest if the message cannot hold them at one byte each."""
        if size > len(self.data) - self.position or size > self.elements_left:
            raise MalformedRequest(f"{size} elements are announced at byte {self.position}, more than can be there")
        self.elements_left -= max(size, 0)
        return size

    def uvarint(self) -> int:
        """Return an unsigned number of variable length."""
        value = self.data[self.position]
        if value < 0x80:
            self.position += 1
            return value
        value = 0
        for number in range(_VARINT_BYTES_MAX):
            byte = self.data[self.position]
            self.position += 1
            value |= (byte & 0x7F) << (7 * number)
            if byte < 0x80:
                return value
        raise MalformedRequest(f"the number at byte {self.position} is too long")


Reader = Callable[[Cursor], Any]


class Decoded(SimpleNamespace):
    """A message or a part of one; its attributes are the fields."""


Request = Decoded
"""A decoded request, with the fields of the newest version."""

Response = Decoded
"""A decoded response, with the fields of its version."""


def decode_request(api_key: int, version: int, cursor: Cursor) -> Request:
    """Read a request's body; MalformedRequest if it is not one.

    Bytes after it are ignored, as in Kafka: librdkafka asks for all topics with three bytes too many.
    """
    request: Request = _read(prepare_request(api_key, version), cursor)
    return request


def decode_response(api_key: int, version: int, body: bytes | memoryview) -> Response:
    """Read a response's body, all of it; Corrupt if it is not one. Records are views of the body."""
    cursor = Cursor(body, elements_max=len(body))
    response: Response = read_reply(_response_reader(api_key, version), cursor)
    if cursor.position != len(body):
        raise Corrupt(f"the reply cannot be read: nothing should follow byte {cursor.position} of {len(body)}")
    return response


def read_reply(reader: Reader, cursor: Cursor) -> Any:
    """Read a part of a reply; Corrupt if that is not possible."""
    try:
        return _read(reader, cursor)
    except MalformedRequest as error:
        raise Corrupt(f"the reply cannot be read: {error.message}") from None


def _read(reader: Reader, cursor: Cursor) -> Any:
    try:
        return reader(cursor)
    except (struct.error, IndexError):
        raise MalformedRequest(f"the message ends at byte {cursor.position}, in the middle of a field") from None
    except UnicodeDecodeError as error:
        raise MalformedRequest(f"a string before byte {cursor.position} is not UTF-8: {error.reason}") from None


def skip_tags(cursor: Cursor) -> None:
    """Skip tagged fields."""
    for _ in range(cursor.count(cursor.uvarint())):
        cursor.uvarint()
        cursor.take(cursor.uvarint())


@cache
def prepare_request(api_key: int, version: int) -> Reader:
    """Return the function that reads a request; the first call builds it."""
    return _struct_reader(request_shape(api_key, version), request_shape(api_key, newest_version(api_key)))


@cache
def _response_reader(api_key: int, version: int) -> Reader:
    return _struct_reader(response_shape(api_key, version), None)


def _struct_reader(shape: Shape, newest: Shape | None) -> Reader:
    by_name = {field.name: field for field in newest.fields} if newest else {}
    steps = []
    tagged = {}
    for field in shape.fields:
        known = by_name.get(field.name)
        reader = _field_reader(field, known.shape if known else None, is_flexible=shape.is_flexible)
        if field.tag is None:
            steps.append((field.name, reader))
        else:
            tagged[field.tag] = (field.name, reader)
    defaults = {field.name: field.default for field in (newest.fields if newest else ())}
    defaults |= {field.name: field.default for field in shape.fields}
    is_flexible = shape.is_flexible

    def read(cursor: Cursor) -> Decoded:
        message = Decoded()
        values = message.__dict__
        values.update(defaults)
        for name, step in steps:
            values[name] = step(cursor)
        if is_flexible:
            _read_tags(cursor, tagged, values)
        return message

    return read


def _read_tags(cursor: Cursor, tagged: dict[int, tuple[str, Reader]], values: dict[str, Any]) -> None:
    if not cursor.data[cursor.position]:
        cursor.position += 1
        return
    for _ in range(cursor.count(cursor.uvarint())):
        tag = cursor.uvarint()
        content = cursor.take(cursor.uvarint())
        if tag in tagged:
            name, reader = tagged[tag]
            values[name] = reader(Cursor(content, elements_max=cursor.elements_left))


def _field_reader(field: Field, newest: Shape | None, *, is_flexible: bool) -> Reader:
    if field.shape is None:
        element = _primitive(field.kind, is_flexible=is_flexible)
    else:
        element = _struct_reader(field.shape, newest)
        if field.is_nullable and not field.is_array:
            return _optional(element)
    if field.is_array:
        if field.kind in _CAN_BE_NULL:
            element = _never_null(element, field.name)
        element = _array(element, is_flexible=is_flexible)
    can_be_null = field.is_array or field.kind in _CAN_BE_NULL
    return _never_null(element, field.name) if can_be_null and not field.is_nullable else element


def _never_null(element: Reader, name: str) -> Reader:
    def read(cursor: Cursor) -> Any:
        value = element(cursor)
        if value is None:
            raise MalformedRequest(f"{name} must not be null")
        return value

    return read


def _optional(element: Reader) -> Reader:
    def read(cursor: Cursor) -> Any:
        return None if cursor.take(1)[0] >= 0x80 else element(cursor)

    return read


def _array(element: Reader, *, is_flexible: bool) -> Reader:
    def read(cursor: Cursor) -> Any:
        size = cursor.uvarint() - 1 if is_flexible else _int32(cursor)
        if size < 0:
            return None
        return [element(cursor) for _ in range(cursor.count(size))]

    return read


def _primitive(kind: str, *, is_flexible: bool) -> Reader:
    if kind == "string":
        return _compact_string if is_flexible else _string
    if kind == "bytes":
        return _compact_bytes if is_flexible else _bytes
    if kind == "records":
        return _compact_records if is_flexible else _records
    if kind == "uuid":
        return lambda cursor: UUID(bytes=cursor.take(_UUID_BYTES))
    return _number({"bool": "?", "int8": "b", "int16": "h", "uint16": "H", "int32": "i", "int64": "q"}[kind])


def _number(code: str) -> Reader:
    form = struct.Struct(">" + code)
    unpack_from, size = form.unpack_from, form.size

    def read(cursor: Cursor) -> Any:
        position = cursor.position
        cursor.position = position + size
        return unpack_from(cursor.data, position)[0]

    return read


_int32 = _number("i")
_int16 = _number("h")


def _string(cursor: Cursor) -> str | None:
    size = _int16(cursor)
    return None if size < 0 else cursor.take(size).decode()


def _compact_string(cursor: Cursor) -> str | None:
    data, start = cursor.data, cursor.position + 1
    end = start + data[start - 1] - 1
    # The usual case first: a short string, all of which is there.
    if start <= end <= len(data) and end - start < _SHORT_BYTES:
        cursor.position = end
        return str(data[start:end], "utf-8")
    size = cursor.uvarint() - 1
    if size > _STRING_BYTES_MAX:
        raise MalformedRequest(f"a string has {size} bytes, at most {_STRING_BYTES_MAX} are allowed")
    return None if size < 0 else cursor.take(size).decode()


def _bytes(cursor: Cursor) -> bytes | None:
    size = _int32(cursor)
    return None if size < 0 else cursor.take(size)


def _compact_bytes(cursor: Cursor) -> bytes | None:
    size = cursor.uvarint() - 1
    return None if size < 0 else cursor.take(size)


def _records(cursor: Cursor) -> bytes | memoryview | None:
    size = _int32(cursor)
    return None if size < 0 else cursor.view(size)


def _compact_records(cursor: Cursor) -> bytes | memoryview | None:
    size = cursor.uvarint() - 1
    return None if size < 0 else cursor.view(size)
