"""Kafka's messages as plain values, written and read by kio: an oracle that shares no code with the broker's codec.

A message is a dict of its fields; structures are dicts, arrays lists. Times are milliseconds, error codes numbers, and
no id is the zero UUID: what travels, not what kio makes of it.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from types import UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin
from uuid import UUID

from kio import index
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

Plain = dict[str, Any]

NO_ID = UUID(int=0)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EMPTY: dict[str, Any] = {"string": "", "bytes": b"", "records": b"", "bool": False, "float64": 0.0, "uuid": NO_ID}


class Member(NamedTuple):
    """One field of a message: a primitive `kind`, or an `entity` of its own."""

    name: str
    kind: str
    entity: Any
    is_array: bool
    is_nullable: bool
    default: object


@cache
def request_class(api: int, version: int) -> Any:
    """Return kio's class of a request."""
    return index.load_request_schema(api, version)


@cache
def response_class(api: int, version: int) -> Any:
    """Return kio's class of a response."""
    return index.load_response_schema(api, version)


@cache
def members(entity: Any) -> tuple[Member, ...]:
    """Return the fields of a message or of a part of it."""
    return tuple(_member(each) for each in fields(entity))


def _member(definition: Any) -> Member:
    inner, is_nullable = _without_none(definition.type)
    is_array = get_origin(inner) is tuple
    if is_array:
        inner, _ = _without_none(get_args(inner)[0])
    entity = inner if is_dataclass(inner) else None
    kind = "" if entity else definition.metadata["kafka_type"]
    return Member(definition.name, kind, entity, is_array, is_nullable, definition.default)


def _without_none(kind: Any) -> tuple[Any, bool]:
    if get_origin(kind) in {Union, UnionType}:
        return next(each for each in get_args(kind) if each is not type(None)), True
    return kind, False


def build(entity: Any, values: Mapping[str, Any]) -> Any:
    """Return a message of kio's; what is not given has its default, or is empty."""
    given = {}
    for member in members(entity):
        if member.name in values:
            given[member.name] = _built(member, values[member.name])
        elif member.default is MISSING:
            given[member.name] = _built(member, _nothing(member))
    return entity(**given)


def _nothing(member: Member) -> Any:
    if member.is_array:
        return []
    if member.is_nullable and member.kind != "uuid":
        return None
    return {} if member.entity else _EMPTY.get(member.kind, 0)


def _built(member: Member, value: Any) -> Any:
    if value is None:
        return None
    if member.is_array:
        return tuple(_built_one(member, each) for each in value)
    return _built_one(member, value)


def _built_one(member: Member, value: Any) -> Any:
    if member.entity:
        return build(member.entity, value)
    match member.kind:
        case "timedelta_i32" | "timedelta_i64":
            return timedelta(milliseconds=value)
        case "datetime_i64":
            return None if value == -1 else _EPOCH + timedelta(milliseconds=value)
        case "error_code":
            return ErrorCode(value)
        case "uuid":
            return None if value == NO_ID else value
    return value


def _kind(message: Any) -> Any:
    return type(message)


def plain(message: Any) -> Plain:
    """Return the plain values of a message of kio's."""
    return {member.name: _plain(member, getattr(message, member.name)) for member in members(_kind(message))}


def _plain(member: Member, value: Any) -> Any:
    if member.is_array:
        return None if value is None else [_plain_one(member, each) for each in value]
    return _plain_one(member, value)


def _plain_one(member: Member, value: Any) -> Any:
    if member.entity:
        return None if value is None else plain(value)
    match member.kind:
        case "timedelta_i32" | "timedelta_i64":
            return value // timedelta(milliseconds=1)
        case "datetime_i64":
            return -1 if value is None else (value - _EPOCH) // timedelta(milliseconds=1)
        case "error_code":
            return value.value
        case "uuid":
            return value or NO_ID
    return value


def write(message: Any) -> bytes:
    """Return a message of kio's as bytes."""
    out = io.BytesIO()
    entity_writer(type(message))(out, message)
    return out.getvalue()


def read(entity: Any, data: bytes) -> Plain:
    """Return the plain values of a message, all of whose bytes must belong to it."""
    message, size = entity_reader(entity)(data, 0)
    assert size == len(data), f"{len(data) - size} bytes follow the message"
    return plain(message)


def request_bytes(api: int, version: int, values: Mapping[str, Any]) -> bytes:
    """Return the body of a request."""
    return write(build(request_class(api, version), values))


def response_values(api: int, version: int, data: bytes) -> Plain:
    """Return the plain values of a response's body."""
    return read(response_class(api, version), data)
