"""The shapes of Kafka's messages, taken from the definitions that kio ships; one per message and version.

kio's own decoder is not used on what clients send: it reserves memory for as many elements as a request claims to
have, so a frame of ten bytes can end the process. `decode` reads by the same shapes and believes nothing.

kio is imported when the first shape is needed: it takes longer than all the rest of a start.
"""

from __future__ import annotations

from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin

# Times, error codes and the like travel as plain numbers, and that is how they are handled here.
_PLAIN = {
    "error_code": "int16",
    "timedelta_i32": "int32",
    "timedelta_i64": "int64",
    "datetime_i64": "int64",
    "records": "bytes",
}
_IMPLICIT: dict[str, object] = {"string": "", "bytes": b"", "bool": False, "float64": 0.0, "uuid": None}
_TIME_DEFAULTS = {"timedelta_i32", "timedelta_i64", "datetime_i64"}


class Field(NamedTuple):
    """One field: a primitive `kind`, or a `shape` of its own; `tag` is None unless it is optional on the wire."""

    name: str
    kind: str
    shape: Shape | None
    is_array: bool
    is_nullable: bool
    tag: int | None
    default: object


class Shape(NamedTuple):
    """The fields of a message or of a part of it, in their order on the wire."""

    fields: tuple[Field, ...]
    is_flexible: bool


@cache
def request_shape(api_key: int, version: int) -> Shape:
    """Return the shape of a request."""
    from kio import index

    return _shape(index.load_request_schema(api_key, version))


@cache
def response_shape(api_key: int, version: int) -> Shape:
    """Return the shape of a response."""
    from kio import index

    return _shape(index.load_response_schema(api_key, version))


@cache
def newest_version(api_key: int) -> int:
    """Return the newest version of an API that there is a definition for."""
    from kio.schema.index import api_key_map, schema_name_map
    from kio.static.constants import EntityType

    versions = schema_name_map[api_key_map[api_key]]
    return max(version for version, kinds in versions.items() if EntityType.request in kinds)


def _shape(entity: Any) -> Shape:
    return Shape(tuple(_field(each) for each in fields(entity)), entity.__flexible__)


def _field(definition: Any) -> Field:
    inner, is_nullable = _without_none(definition.type)
    is_array = get_origin(inner) is tuple
    if is_array:
        inner, _ = _without_none(get_args(inner)[0])
    shape = _shape(inner) if is_dataclass(inner) else None
    kind = "" if shape else definition.metadata["kafka_type"]
    plain = _PLAIN.get(kind, kind)
    default = _default(definition.default, kind, is_array=is_array, is_nullable=is_nullable)
    return Field(definition.name, plain, shape, is_array, is_nullable, definition.metadata.get("tag"), default)


def _without_none(kind: Any) -> tuple[Any, bool]:
    if get_origin(kind) in {Union, UnionType}:
        inner = [each for each in get_args(kind) if each is not type(None)]
        return inner[0], True
    return kind, False


def _default(given: object, kind: str, *, is_array: bool, is_nullable: bool) -> object:
    if given is MISSING:
        return () if is_array else None if is_nullable else _IMPLICIT.get(_PLAIN.get(kind, kind), 0)
    if kind in _TIME_DEFAULTS:
        return -1 if given is None else int(given.total_seconds() * 1000)  # type: ignore[attr-defined]
    if kind == "error_code":
        return int(given.value)  # type: ignore[attr-defined]
    return given if not is_dataclass(given) else None
