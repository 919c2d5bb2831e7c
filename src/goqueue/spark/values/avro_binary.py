"""Avro's binary encoding, read from bytes: one small function per type, each takes bytes and a position.

fastavro is no replacement: it accepts damaged bytes and is no faster. The functions return the value and the position
after it, and trust nothing: a length beyond the end, a number of too many bytes, a boolean that is neither, the number
of a branch or symbol that does not exist are all BadValue. A read beyond the end may also be an IndexError or
struct.error; `record` and `whole` turn these into BadValue. Every item of an array or a map takes at least a byte
(`avro` refuses others), so a count that is too large runs into the end of the value.

| type            | bytes                                                                          |
|-----------------|--------------------------------------------------------------------------------|
| int, long       | zigzag varint                                                                  |
| float, double   | 4 or 8 bytes, little-endian                                                    |
| boolean         | 0 or 1                                                                         |
| bytes, string   | length as long, then the bytes                                                 |
| enum, union     | index as long; for a union, then the value                                     |
| array, map      | blocks: count as long, then items; below zero, its size in bytes as long follows; 0 ends |
| record          | its fields, one after the other                                                |
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from goqueue.spark.values.format import BadValue

Read = Callable[[bytes, int], tuple[Any, int]]

_CUT = "the value ends here"

_float = struct.Struct("<f")
_double = struct.Struct("<d")


def whole(read: Read) -> Callable[[bytes], Any]:
    """Return a reader of whole values: nothing may be left over."""

    def read_whole(value: bytes) -> Any:
        try:
            found, end = read(value, 0)
        except (IndexError, struct.error):
            raise BadValue(_CUT) from None
        if end != len(value):
            raise BadValue(f"{len(value) - end} bytes are left over")
        return found

    return read_whole


def read_long(value: bytes, position: int) -> tuple[int, int]:
    """Read a number of up to 64 bits."""
    byte = value[position]
    position += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position
    number = byte & 0x7F
    shift = 7
    while (byte := value[position]) >= 0x80:
        number |= (byte & 0x7F) << shift
        position += 1
        shift += 7
        if shift > 63:
            raise BadValue("a number is longer than 64 bits")
    number |= byte << shift
    if number >> 64:
        raise BadValue("a number is longer than 64 bits")
    return (number >> 1) ^ -(number & 1), position + 1


def read_int(value: bytes, position: int) -> tuple[int, int]:
    """Read a number of up to 32 bits."""
    number, position = read_long(value, position)
    if not -(2**31) <= number < 2**31:
        raise BadValue(f"{number} is longer than 32 bits")
    return number, position


def read_float(value: bytes, position: int) -> tuple[float, int]:
    """Read a float."""
    return _float.unpack_from(value, position)[0], position + 4


def read_double(value: bytes, position: int) -> tuple[float, int]:
    """Read a double."""
    return _double.unpack_from(value, position)[0], position + 8


def read_boolean(value: bytes, position: int) -> tuple[bool, int]:
    """Read a boolean."""
    byte = value[position]
    if byte > 1:
        raise BadValue(f"a boolean is 0 or 1, not {byte}")
    return byte == 1, position + 1


def read_bytes(value: bytes, position: int) -> tuple[bytes, int]:
    """Read bytes."""
    size, position = read_long(value, position)
    end = position + size
    if size < 0 or end > len(value):
        raise BadValue(f"a length is {size}, and {len(value) - position} bytes are left")
    return value[position:end], end


def read_string(value: bytes, position: int) -> tuple[str, int]:
    """Read a text."""
    found, position = read_bytes(value, position)
    try:
        return found.decode(), position
    except UnicodeDecodeError:
        raise BadValue("a text is not UTF-8") from None


def fixed(size: int) -> Read:
    """Return a reader of so many bytes."""

    def read(value: bytes, position: int) -> tuple[bytes, int]:
        end = position + size
        if end > len(value):
            raise BadValue(_CUT)
        return value[position:end], end

    return read


def enum(symbols: Sequence[str]) -> Read:
    """Return a reader of a symbol."""
    known = dict(enumerate(symbols))

    def read(value: bytes, position: int) -> tuple[str, int]:
        number, position = read_long(value, position)
        symbol = known.get(number)
        if symbol is None:
            raise BadValue(f"there is no symbol {number}, only 0 to {len(known) - 1}")
        return symbol, position

    return read


def nullable(item: Read, null_index: int) -> Read:
    """Return a reader of a union of null and something else."""
    item_index = 1 - null_index

    def read(value: bytes, position: int) -> tuple[Any, int]:
        number, position = read_long(value, position)
        if number == item_index:
            return item(value, position)
        if number != null_index:
            raise BadValue(f"a union has no type {number}")
        return None, position

    return read


def single(item: Read) -> Read:
    """Return a reader of a union of one type."""

    def read(value: bytes, position: int) -> tuple[Any, int]:
        number, position = read_long(value, position)
        if number != 0:
            raise BadValue(f"a union has no type {number}")
        return item(value, position)

    return read


def converted(item: Read, convert: Callable[[Any], Any]) -> Read:
    """Return a reader that makes something else of what it reads."""

    def read(value: bytes, position: int) -> tuple[Any, int]:
        found, position = item(value, position)
        return convert(found), position

    return read


def array(item: Read) -> Read:
    """Return a reader of an array."""

    def read(value: bytes, position: int) -> tuple[list[Any], int]:
        found: list[Any] = []
        count, position = _block(value, position)
        while count:
            for _ in range(count):
                each, position = item(value, position)
                found.append(each)
            count, position = _block(value, position)
        return found, position

    return read


def mapping(item: Read) -> Read:
    """Return a reader of a map, as pairs; of a key that is there twice, the last one counts."""

    def read(value: bytes, position: int) -> tuple[list[tuple[str, Any]], int]:
        found: dict[str, Any] = {}
        count, position = _block(value, position)
        while count:
            for _ in range(count):
                key, position = read_string(value, position)
                found[key], position = item(value, position)
            count, position = _block(value, position)
        return list(found.items()), position

    return read


def record(fields: Sequence[tuple[str, Read]]) -> Read:
    """Return a reader of a record; errors inside it carry the name of the field."""
    kept = tuple(fields)

    def read(value: bytes, position: int) -> tuple[dict[str, Any], int]:
        found: dict[str, Any] = {}
        name = ""
        try:
            for name, item in kept:
                found[name], position = item(value, position)
        except BadValue as error:
            raise error.inside(name) from None
        except (IndexError, struct.error):
            raise BadValue(_CUT).inside(name) from None
        return found, position

    return read


def _block(value: bytes, position: int) -> tuple[int, int]:
    """Read how many items follow; a size in bytes, which helps only those who skip, is passed over."""
    count, position = read_long(value, position)
    if count < 0:
        _, position = read_long(value, position)
        return -count, position
    return count, position
