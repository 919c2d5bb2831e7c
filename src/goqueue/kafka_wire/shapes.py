"""The shapes of Kafka's messages, read from `messages.txt`; one per message and version.

    18 api_versions request 0-4 flexible=3
    client_software_name string 3+
    topics [] 0+ nullable=1+
      name string 0+

A message begins with its API key, name, kind, versions, and the first flexible version if there is one. A line for each
field follows, in the order on the wire; the fields of a structure are indented below it. A field has a name, a type
(`[]` before the type of an array's elements, `{}` for one structure), its versions, and then, where they apply:
`nullable=` with the versions in which it may be null, `tag=`, and `default=` as JSON. A field without `default` is null
where it may be, and otherwise zero or empty.

`python -m tests.unit.kafka_wire.definitions` writes the file from other definitions; a test compares the two.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import NamedTuple

_EMPTY: dict[str, object] = {"string": "", "bytes": b"", "records": b"", "bool": False, "uuid": None, "{}": None}


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


class _Versions(NamedTuple):
    first: int
    last: int

    def have(self, version: int) -> bool:
        return self.first <= version <= self.last


class _Definition(NamedTuple):
    """A field in all versions of a message."""

    name: str
    kind: str
    is_array: bool
    versions: _Versions
    nullable: _Versions
    tag: int | None
    default: str | None
    fields: list[_Definition]


class _Message(NamedTuple):
    versions: _Versions
    flexible_from: int
    fields: list[_Definition]


_NEVER = _Versions(0, -1)
_LAST = 32_767


@cache
def request_shape(api_key: int, version: int) -> Shape:
    """Return the shape of a request; KeyError for an API or a version that is not defined."""
    return _shape_of("request", api_key, version)


@cache
def response_shape(api_key: int, version: int) -> Shape:
    """Return the shape of a response; KeyError for an API or a version that is not defined."""
    return _shape_of("response", api_key, version)


def newest_version(api_key: int) -> int:
    """Return the newest version of an API that is defined."""
    return _message("request", api_key).versions.last


def _shape_of(kind: str, api_key: int, version: int) -> Shape:
    message = _message(kind, api_key)
    if not message.versions.have(version):
        raise KeyError(f"version {version} of the {kind} with API key {api_key} is not defined")
    return _shape(message.fields, version, is_flexible=version >= message.flexible_from)


def _shape(definitions: list[_Definition], version: int, *, is_flexible: bool) -> Shape:
    present = [_field(each, version, is_flexible=is_flexible) for each in definitions if each.versions.have(version)]
    return Shape(tuple(present), is_flexible)


def _field(definition: _Definition, version: int, *, is_flexible: bool) -> Field:
    shape = _shape(definition.fields, version, is_flexible=is_flexible) if definition.fields else None
    is_nullable = definition.nullable.have(version)
    return Field(
        definition.name,
        definition.kind,
        shape,
        definition.is_array,
        is_nullable,
        definition.tag,
        _default(definition, is_nullable=is_nullable),
    )


def _default(definition: _Definition, *, is_nullable: bool) -> object:
    if definition.default is not None:
        return json.loads(definition.default)
    if definition.is_array:
        return ()
    return None if is_nullable else _EMPTY.get(definition.kind, 0)


@cache
def _message(kind: str, api_key: int) -> _Message:
    head, *lines = _texts()[kind, api_key].splitlines()
    _, _, _, versions, *options = head.split(" ")
    flexible_from = dict(option.split("=") for option in options).get("flexible")
    rows = iter(lines)
    fields = [_definition(line, rows_below) for line, rows_below in _grouped(rows)]
    return _Message(_versions(versions), _LAST if flexible_from is None else int(flexible_from), fields)


@cache
def _texts() -> dict[tuple[str, int], str]:
    """Return the lines of each message; blank lines separate them in the file."""
    found = {}
    for text in files("goqueue.kafka_wire").joinpath("messages.txt").read_text("utf-8").strip().split("\n\n"):
        api_key, _, kind, _ = text.split(" ", 3)
        found[kind, int(api_key)] = text
    return found


def _grouped(lines: Iterator[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield each line that is not indented with the lines that are indented below it, less one step."""
    found: list[tuple[str, list[str]]] = []
    for line in lines:
        if line.startswith("  "):
            found[-1][1].append(line[2:])
        else:
            found.append((line, []))
    yield from found


def _definition(line: str, below: list[str]) -> _Definition:
    name, kind, versions, *options = line.split(" ")
    given = dict(option.split("=", 1) for option in options)
    return _Definition(
        name,
        kind.removeprefix("[]") or "{}",
        kind.startswith("[]"),
        _versions(versions),
        _versions(given["nullable"]) if "nullable" in given else _NEVER,
        int(given["tag"]) if "tag" in given else None,
        given.get("default"),
        [_definition(each, rows) for each, rows in _grouped(iter(below))],
    )


def _versions(text: str) -> _Versions:
    """Return versions that are written as `3`, `0-4` or `3+`."""
    if text.endswith("+"):
        return _Versions(int(text[:-1]), _LAST)
    first, _, last = text.partition("-")
    return _Versions(int(first), int(last or first))
