"""Walks the records of a payload field by field and names the first thing that is wrong.

This is the strict and slow (some microseconds per record) description of the payload's grammar:

    record  = length:varint attributes:int8=0 timestamp_delta:varlong offset_delta:varint
              key:bytes? value:bytes? header_count:varint header*
    header  = key:string value:bytes?
    string  = length:varint utf-8          bytes? = length:varint content, where -1 stands for null

`payload` decodes with compiled code and comes here for whatever that code finds odd. Varints are
zigzag-encoded, of at most 5 bytes (varlong: 10); a longer form than needed is read, a value outside of 32
(64) bits is refused.
"""

from __future__ import annotations

from goqueue.errors import CorruptBatch

_VARINT_BYTES_MAX = 5
_VARINT_BITS = 32
_VARLONG_BYTES_MAX = 10
_VARLONG_BITS = 64


class _MalformedError(Exception):
    """The fault of a record; `check` adds which record it is."""


def check(payload: bytes, record_count: int) -> None:
    """Raise CorruptBatch unless the payload is `record_count` well-formed records and nothing else."""
    position = 0
    for index in range(record_count):
        try:
            position = _check_record(payload, position)
        except _MalformedError as error:
            raise CorruptBatch(f"record {index} of {record_count} at byte {position} of the records: {error}") from None
    if position != len(payload):
        raise CorruptBatch(f"{len(payload) - position} bytes follow the last of {record_count} records")


def spans(payload: bytes, record_count: int) -> list[slice]:
    """Return where each record lies in a payload that passed `check`."""
    found = []
    start = 0
    for _ in range(record_count):
        length, body = _read_varint(payload, start, len(payload))
        found.append(slice(start, body + length))
        start = body + length
    return found


def skip(payload: bytes, position: int, count: int) -> int:
    """Return where the record begins that follows `count` others, by their lengths alone."""
    size = len(payload)
    for _ in range(count):
        if position < size and payload[position] < 0x80:
            # The length of a short record is one byte. A million records may have to be skipped.
            position += (payload[position] >> 1) + 1
            continue
        try:
            length, position = _read_varint(payload, position, size)
        except _MalformedError as error:
            raise CorruptBatch(f"the record at byte {position} of the records: {error}") from None
        position += max(length, 0)
    if position > size:
        raise CorruptBatch(f"the records end {position - size} bytes before their lengths say")
    return position


def _check_record(payload: bytes, position: int) -> int:
    length, position = _read_varint(payload, position, len(payload))
    end = position + length
    if not position < end <= len(payload):
        raise _MalformedError(f"its length is {length}, {len(payload) - position} bytes are left")
    if payload[position]:
        raise _MalformedError(f"its attributes are {payload[position]:#04x}, all bits are reserved")
    _, position = _read_varint(payload, position + 1, end, _VARLONG_BYTES_MAX, _VARLONG_BITS)
    _, position = _read_varint(payload, position, end)
    _, position = _skip_bytes(payload, position, end, "key")
    _, position = _skip_bytes(payload, position, end, "value")
    header_count, position = _read_varint(payload, position, end)
    if header_count < 0:
        raise _MalformedError(f"its header count is {header_count}")
    for _ in range(header_count):
        position = _check_header(payload, position, end)
    if position != end:
        raise _MalformedError(f"its fields end {end - position} bytes before its length says")
    return end


def _check_header(payload: bytes, position: int, end: int) -> int:
    start, position = _skip_bytes(payload, position, end, "header key")
    if start is None:
        raise _MalformedError("a header key is null")
    try:
        payload[start:position].decode()
    except UnicodeDecodeError:
        raise _MalformedError("a header key is not UTF-8") from None
    _, position = _skip_bytes(payload, position, end, "header value")
    return position


def _skip_bytes(payload: bytes, position: int, end: int, name: str) -> tuple[int | None, int]:
    """Return where the field's content starts, or None if it is null, and where it ends."""
    length, start = _read_varint(payload, position, end)
    if length == -1:
        return None, start
    if not 0 <= length <= end - start:
        raise _MalformedError(f"the length of its {name} is {length}, {end - start} bytes are left")
    return start, start + length


def _read_varint(
    payload: bytes, position: int, end: int, bytes_max: int = _VARINT_BYTES_MAX, bits: int = _VARINT_BITS
) -> tuple[int, int]:
    zigzag = 0
    for shift in range(0, 7 * bytes_max, 7):
        if position >= end:
            raise _MalformedError("it is cut off")
        byte = payload[position]
        position += 1
        zigzag |= (byte & 0x7F) << shift
        if byte < 0x80:
            if zigzag >> bits:
                break
            return (zigzag >> 1) ^ -(zigzag & 1), position
    raise _MalformedError(f"the number that ends at byte {position} exceeds {bits} bits")
