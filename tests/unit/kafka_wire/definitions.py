"""The definitions that kio ships, as `messages.txt` of `goqueue.kafka_wire` has them.

    python -m tests.unit.kafka_wire.definitions      write the file again, after a change of what the broker offers

kio has one class per message and version; this merges the versions into one list of fields. Times, error codes and the
like travel as plain numbers, and that is how they are written here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from datetime import timedelta
from enum import Enum
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin

from kio import index
from kio.schema.index import api_key_map

import goqueue.kafka_wire
from goqueue.kafka_wire.shapes import Field, Shape
from goqueue.protocols.kafka.apis import APIS, Api

TARGET = Path(goqueue.kafka_wire.__file__).with_name("messages.txt")
_PLAIN = {"error_code": "int16", "timedelta_i32": "int32", "timedelta_i64": "int64", "datetime_i64": "int64"}
_EMPTY: dict[str, object] = {"string": "", "bytes": b"", "records": b"", "bool": False, "uuid": None, "{}": None}
_LOADERS = {"request": index.load_request_schema, "response": index.load_response_schema}


@cache
def shape(kind: str, api_key: int, version: int) -> Shape:
    """Return the shape of a message in one version."""
    return _shape(_LOADERS[kind](api_key, version))


def _shape(entity: Any) -> Shape:
    return Shape(tuple(_field(each) for each in fields(entity)), entity.__flexible__)


def _field(definition: Any) -> Field:
    inner, is_nullable = _without_none(definition.type)
    is_array = get_origin(inner) is tuple
    if is_array:
        inner, _ = _without_none(get_args(inner)[0])
    part = _shape(inner) if is_dataclass(inner) else None
    kafka_type = "{}" if part else definition.metadata["kafka_type"]
    kind = _PLAIN.get(kafka_type, kafka_type)
    if kafka_type == "datetime_i64":
        # kio's null is a time of -1, which the wire has in any case.
        is_nullable = False
    default = _default(definition.default, kafka_type, is_array=is_array, is_nullable=is_nullable)
    return Field(definition.name, kind, part, is_array, is_nullable, definition.metadata.get("tag"), default)


def _without_none(kind: Any) -> tuple[Any, bool]:
    if get_origin(kind) in {Union, UnionType}:
        return next(each for each in get_args(kind) if each is not type(None)), True
    return kind, False


def _default(given: object, kafka_type: str, *, is_array: bool, is_nullable: bool) -> object:
    if given is MISSING:
        return _implicit(_PLAIN.get(kafka_type, kafka_type), is_array=is_array, is_nullable=is_nullable)
    if isinstance(given, timedelta):
        return given // timedelta(milliseconds=1)
    if kafka_type in _PLAIN and given is None:
        return -1
    if is_dataclass(given):
        return None
    return given.value if isinstance(given, Enum) else given


def _implicit(kind: str, *, is_array: bool, is_nullable: bool) -> object:
    if is_array:
        return ()
    return None if is_nullable else _EMPTY.get(kind, 0)


@dataclass(frozen=True, slots=True)
class _Merged:
    """A field in several versions."""

    fields: dict[int, Field]

    @property
    def name(self) -> str:
        return next(iter(self.fields.values())).name


class _Range(NamedTuple):
    """The versions of the message, to which those of a field are relative."""

    first: int
    last: int

    def text(self, versions: Iterable[int]) -> str:
        listed = sorted(versions)
        first, last = listed[0], listed[-1]
        assert listed == list(range(first, last + 1)), f"versions with a gap: {listed}"
        if last == self.last:
            return f"{first}+"
        return str(first) if first == last else f"{first}-{last}"


def messages(apis: Iterable[Api]) -> str:
    """Return the text of the file."""
    found = [_message(api, kind) for api in apis for kind in _LOADERS]
    return "\n\n".join(found) + "\n"


def _message(api: Api, kind: str) -> str:
    of = _Range(api.first, api.last)
    shapes = {version: shape(kind, api.key, version) for version in range(api.first, api.last + 1)}
    flexible = [version for version, each in shapes.items() if each.is_flexible]
    head = f"{api.key} {api_key_map[api.key]} {kind} {of.first}-{of.last}"
    if flexible:
        head += f" flexible={flexible[0]}"
    return "\n".join([head, *_lines(shapes, of)])


def _lines(shapes: dict[int, Shape], of: _Range) -> list[str]:
    lines = []
    for merged in _in_order(shapes):
        lines.append(_line(merged, of))
        parts = {version: field.shape for version, field in merged.fields.items() if field.shape is not None}
        lines += ["  " + line for line in _lines(parts, of)]
    return lines


def _in_order(shapes: dict[int, Shape]) -> Sequence[_Merged]:
    """Return the fields of all versions in an order that each version keeps."""
    names: list[str] = []
    for each in reversed(shapes.values()):
        position = 0
        for field in each.fields:
            if field.name in names:
                position = names.index(field.name) + 1
            else:
                names.insert(position, field.name)
                position += 1
    by_name: dict[str, dict[int, Field]] = {name: {} for name in names}
    for version, each in shapes.items():
        on_the_wire = [field.name for field in each.fields if field.tag is None]
        assert on_the_wire == sorted(on_the_wire, key=names.index), f"no order of {on_the_wire} and {names}"
        for field in each.fields:
            by_name[field.name][version] = field
    return [_Merged(each) for each in by_name.values()]


def _line(merged: _Merged, of: _Range) -> str:
    kinds = {replace_kind(field) for field in merged.fields.values()}
    tags = {field.tag for field in merged.fields.values()}
    assert len(kinds) == len(tags) == 1, f"{merged.name} is of several types or has several tags: {kinds}, {tags}"
    (kind,), (tag,) = kinds, tags
    words = [merged.name, kind, of.text(merged.fields)]
    nullable = [version for version, field in merged.fields.items() if field.is_nullable]
    if nullable:
        words.append(f"nullable={of.text(nullable)}")
    if tag is not None:
        words.append(f"tag={tag}")
    given = {field.default for field in merged.fields.values() if field.default != _implied(field)}
    if given:
        assert {field.default for field in merged.fields.values()} == given, f"{merged.name} has several defaults"
        words.append(f"default={json.dumps(given.pop())}")
    return " ".join(words)


def _implied(field: Field) -> object:
    return _implicit(field.kind, is_array=field.is_array, is_nullable=field.is_nullable)


def replace_kind(field: Field) -> str:
    """Return the type of a field as the file has it."""
    if field.is_array:
        return "[]" if field.shape else "[]" + field.kind
    return field.kind


if __name__ == "__main__":
    TARGET.write_text(messages(APIS.values()), "utf-8")
