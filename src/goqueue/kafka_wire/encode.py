"""Writes messages by their shape, from plain values by field name.

A caller gives all that the newest version has: fields that an old version lacks are left out, and fields that are not
given get their defaults.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any
from uuid import UUID

from goqueue.kafka_wire.shapes import Field, Shape, request_shape, response_shape

Values = Mapping[str, Any]
"""The fields of a message; structures are mappings as well."""

Reply = Values
"""The fields of a response, in its newest form."""

Writer = Callable[[bytearray, Any], None]
_Step = tuple[str, object, int | None, Writer]

_INT8 = struct.Struct(">b")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_NO_UUID = bytes(16)
_SMALL = [bytes([value]) for value in range(0x80)]


def encode_request(api_key: int, version: int, request: Values) -> bytearray:
    """Return a request's body."""
    out = bytearray()
    _request_writer(api_key, version)(out, request)
    return out


def encode_response(api_key: int, version: int, reply: Reply) -> bytearray:
    """Return a response's body."""
    out = bytearray()
    prepare_response(api_key, version)(out, reply)
    return out


def uvarint(value: int) -> bytes:
    """Return an unsigned number of variable length."""
    if value < 0x80:
        return _SMALL[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


@cache
def prepare_response(api_key: int, version: int) -> Writer:
    """Return the function that writes a response; the first call builds it."""
    return _struct_writer(response_shape(api_key, version))


@cache
def _request_writer(api_key: int, version: int) -> Writer:
    return _struct_writer(request_shape(api_key, version))


def _struct_writer(shape: Shape) -> Writer:
    steps: list[_Step] = []
    tagged: list[_Step] = []
    for field in shape.fields:
        writer = _field_writer(field, is_flexible=shape.is_flexible)
        (steps if field.tag is None else tagged).append((field.name, field.default, field.tag, writer))
    is_flexible = shape.is_flexible

    def write(out: bytearray, values: Values) -> None:
        for name, default, _, step in steps:
            step(out, values.get(name, default))
        if is_flexible:
            _write_tags(out, values, tagged)

    return write


def _write_tags(out: bytearray, values: Values, tagged: list[_Step]) -> None:
    if not tagged:
        out.append(0)
        return
    present = [entry for entry in tagged if values.get(entry[0], entry[1]) != entry[1]]
    out += uvarint(len(present))
    for name, _, tag, writer in present:
        content = bytearray()
        writer(content, values[name])
        out += uvarint(tag or 0)
        out += uvarint(len(content))
        out += content


def _field_writer(field: Field, *, is_flexible: bool) -> Writer:
    if field.shape is not None:
        element = _struct_writer(field.shape)
        if not field.is_array:
            return _optional(element) if field.is_nullable else element
    else:
        element = _primitive(field.kind, is_flexible=is_flexible)
    return _array(element, is_flexible=is_flexible) if field.is_array else element


def _optional(element: Writer) -> Writer:
    def write(out: bytearray, value: Any) -> None:
        out += _INT8.pack(-1 if value is None else 1)
        if value is not None:
            element(out, value)

    return write


def _array(element: Writer, *, is_flexible: bool) -> Writer:
    def write(out: bytearray, values: Any) -> None:
        size = -1 if values is None else len(values)
        out += uvarint(size + 1) if is_flexible else _INT32.pack(size)
        for value in values or ():
            element(out, value)

    return write


def _primitive(kind: str, *, is_flexible: bool) -> Writer:
    if kind == "string":
        return _compact_string if is_flexible else _string
    if kind in {"bytes", "records"}:
        return _compact_bytes if is_flexible else _bytes
    if kind == "uuid":
        return _uuid
    code = {"bool": "?", "int8": "b", "int16": "h", "uint16": "H", "int32": "i", "int64": "q"}[kind]
    pack = struct.Struct(">" + code).pack

    def write(out: bytearray, value: Any) -> None:
        out += pack(value)

    return write


def _uuid(out: bytearray, value: UUID | None) -> None:
    out += value.bytes if value is not None else _NO_UUID


def _string(out: bytearray, value: str | None) -> None:
    data = value.encode() if value is not None else b""
    out += _INT16.pack(-1 if value is None else len(data))
    out += data


def _compact_string(out: bytearray, value: str | None) -> None:
    data = value.encode() if value is not None else b""
    out += uvarint(0 if value is None else len(data) + 1)
    out += data


def _bytes(out: bytearray, value: bytes | None) -> None:
    out += _INT32.pack(-1 if value is None else len(value))
    out += value or b""


def _compact_bytes(out: bytearray, value: bytes | None) -> None:
    out += uvarint(0 if value is None else len(value) + 1)
    out += value or b""
