"""Avro schemas: the column type of each Avro type, and its reader.

| Avro                                        | column                                             |
|---------------------------------------------|----------------------------------------------------|
| boolean, int, long, float, double           | BOOLEAN, INT, BIGINT, FLOAT, DOUBLE                |
| string, enum                                | STRING                                             |
| bytes, fixed                                | BINARY                                             |
| array, map, record                          | ARRAY, MAP with keys of STRING, STRUCT             |
| union of null and one other                 | that one                                           |
| date                                        | DATE                                               |
| timestamp-millis, -micros, -nanos           | TIMESTAMP                                          |
| local-timestamp-millis, -micros, -nanos     | TIMESTAMP_NTZ                                      |
| time-millis, time-micros                    | INT, BIGINT                                        |
| decimal                                     | DECIMAL                                            |
| uuid                                        | STRING                                             |

Other unions, null by itself, records without fields, records inside of themselves and types of no size are refused,
with the field. Logical types that are not in the table, or stand at a type where they mean nothing, are passed over, as
Avro's specification wants it.

Names in an Avro schema: types are defined once, with a name, and referred to by it from then on.

A name without dots is in the namespace of what it stands in. A type that is used inside of its own definition would
nest without end, so it is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any, Final
from uuid import UUID

import msgspec
import pyarrow as pa
from typing_extensions import override

from goqueue.errors import Invalid
from goqueue.model.units import quoted
from goqueue.spark.values import avro_binary as wire
from goqueue.spark.values.format import (
    DEPTH_MAX,
    FIELDS_MAX,
    LOCAL_TIMESTAMP,
    TIMESTAMP,
    BadValue,
    ValueFormat,
    list_type,
    map_type,
)

_DIGITS_MAX: Final = 38
# So many digits have 16 bytes; some more may repeat the sign.
_DECIMAL_BYTES_MAX: Final = 64
_exact = Context(prec=200)

_UNION_HINT: Final = "a union can have null and one other type"


@dataclass(frozen=True, slots=True)
class _Column:
    type: pa.DataType
    read: wire.Read


_PRIMITIVES: Final[Mapping[str, _Column]] = {
    "boolean": _Column(pa.bool_(), wire.read_boolean),
    "int": _Column(pa.int32(), wire.read_int),
    "long": _Column(pa.int64(), wire.read_long),
    "float": _Column(pa.float32(), wire.read_float),
    "double": _Column(pa.float64(), wire.read_double),
    "bytes": _Column(pa.binary(), wire.read_bytes),
    "string": _Column(pa.string(), wire.read_string),
}

_LOGICAL: Final[Mapping[tuple[str, str], tuple[pa.DataType, Callable[[int], int] | None]]] = {
    ("int", "date"): (pa.date32(), None),
    ("long", "timestamp-millis"): (TIMESTAMP, lambda number: number * 1000),
    ("long", "timestamp-micros"): (TIMESTAMP, None),
    ("long", "timestamp-nanos"): (TIMESTAMP, lambda number: number // 1000),
    ("long", "local-timestamp-millis"): (LOCAL_TIMESTAMP, lambda number: number * 1000),
    ("long", "local-timestamp-micros"): (LOCAL_TIMESTAMP, None),
    ("long", "local-timestamp-nanos"): (LOCAL_TIMESTAMP, lambda number: number // 1000),
}


class AvroFormat(ValueFormat):
    """Values of one record type."""

    def __init__(self, schema: str) -> None:
        """Read a schema in JSON; Invalid if it is none, or has no columns."""
        try:
            written = msgspec.json.decode(schema)
        except (msgspec.DecodeError, RecursionError) as error:
            raise Invalid(f"the Avro schema is not JSON: {error}", hint='write {"type": "record", ...}') from None
        if not isinstance(written, dict) or written.get("type") not in ("record", "error"):
            raise Invalid("the Avro schema is not that of a record", hint='write {"type": "record", ...}')
        try:
            column = _Schema().column(written, "", ())
        except RecursionError:
            raise Invalid("the Avro schema nests too deeply", hint="take a flatter one") from None
        self.type = column.type
        self.name = f"Avro of {full_name(written['name'], written.get('namespace'))}"
        self._read = wire.whole(column.read)

    @override
    def read(self, value: bytes) -> Any:
        """Return a record."""
        return self._read(value)

    @override
    def build(self, found: Sequence[Any]) -> pa.Array:
        """Return a column of records."""
        return pa.array(found, self.type)


class _Schema:
    """A walk through a schema; `path` leads from the record to the field that is looked at."""

    def __init__(self) -> None:
        self._names = TypeNames()
        self._fields = 0

    def column(self, written: Any, space: str, path: tuple[str, ...]) -> _Column:
        if len(path) > DEPTH_MAX:
            raise wrong(path[:3], "nests too deeply", f"at most {DEPTH_MAX} types can be inside of each other")
        match written:
            case str():
                return self._named(written, space, path)
            case list():
                return self._union(written, space, path)
            case {"type": str() as kind}:
                return self._complex(kind, written, space, path)
            case {"type": dict() | list() as inner}:
                return self.column(inner, space, path)
            case _:
                raise wrong(path, f"has no type that Avro knows: {quoted(str(written))}")

    def _named(self, name: str, space: str, path: tuple[str, ...]) -> _Column:
        if name == "null":
            raise wrong(path, "is null by itself, which is no column", "make it a union of null and another type")
        if primitive := _PRIMITIVES.get(name):
            return primitive
        definition, its_space = self._names.find(name, space, path)
        return self._complex(definition["type"], definition, its_space, path)

    def _union(self, written: list[Any], space: str, path: tuple[str, ...]) -> _Column:
        nulls = [index for index, each in enumerate(written) if each == "null"]
        others = [each for each in written if each != "null"]
        if len(others) != 1 or len(nulls) > 1:
            told = ", ".join(_word(each) for each in written)
            raise wrong(path, f"is a union of {told or 'nothing'}, which is no column", _UNION_HINT)
        if isinstance(others[0], list):
            raise wrong(path, "is a union inside of a union", _UNION_HINT)
        item = self.column(others[0], space, path)
        read = wire.nullable(item.read, nulls[0]) if nulls else wire.single(item.read)
        return _Column(item.type, read)

    def _complex(self, kind: str, written: Mapping[str, Any], space: str, path: tuple[str, ...]) -> _Column:
        match kind:
            case "record" | "error":
                with self._names.defined(written, space, path) as its_space:
                    return self._record(written, its_space, path)
            case "enum" | "fixed":
                with self._names.defined(written, space, path):
                    return _enum(written, path) if kind == "enum" else _fixed(written, path)
            case "array":
                item = self.column(_needed(written, "items", path), space, (*path, "[]"))
                return _Column(list_type(item.type), wire.array(item.read))
            case "map":
                item = self.column(_needed(written, "values", path), space, (*path, "{}"))
                return _Column(map_type(pa.string(), item.type), wire.mapping(item.read))
            case _:
                return _logical(kind, written, self._named(kind, space, path), path)

    def _record(self, written: Mapping[str, Any], space: str, path: tuple[str, ...]) -> _Column:
        fields = _needed(written, "fields", path)
        if not isinstance(fields, list) or not fields:
            raise wrong(path, "is a record without fields, which is no column")
        self._count(len(fields))
        columns: dict[str, _Column] = {}
        for field in fields:
            name = field.get("name") if isinstance(field, dict) else None
            if not isinstance(name, str) or not name:
                raise wrong(path, "has a field without a name")
            if name in columns:
                raise wrong(path, f"has two fields {name}")
            columns[name] = self.column(_needed(field, "type", (*path, name)), space, (*path, name))
        return _Column(
            pa.struct([pa.field(name, column.type) for name, column in columns.items()]),
            wire.record([(name, column.read) for name, column in columns.items()]),
        )

    def _count(self, fields: int) -> None:
        """Bound the whole: types that are used again count again, and could double at every level."""
        self._fields += fields
        if self._fields > FIELDS_MAX:
            raise Invalid(f"the Avro schema has more than {FIELDS_MAX} fields", hint="take a smaller one")


def _enum(written: Mapping[str, Any], path: tuple[str, ...]) -> _Column:
    symbols = _needed(written, "symbols", path)
    if not isinstance(symbols, list) or not symbols or not all(isinstance(each, str) for each in symbols):
        raise wrong(path, "is an enum without symbols")
    return _Column(pa.string(), wire.enum(symbols))


def _fixed(written: Mapping[str, Any], path: tuple[str, ...]) -> _Column:
    size = _needed(written, "size", path)
    if not isinstance(size, int) or size <= 0:
        raise wrong(path, f"is fixed with a size of {quoted(str(size))}", "write a whole number above 0")
    read = wire.fixed(size)
    if written.get("logicalType") == "uuid" and size == 16:
        return _Column(pa.string(), wire.converted(read, lambda raw: str(UUID(bytes=raw))))
    return _logical("fixed", written, _Column(pa.binary(), read), path)


def _logical(kind: str, written: Mapping[str, Any], plain: _Column, path: tuple[str, ...]) -> _Column:
    logical = written.get("logicalType")
    if logical == "decimal" and kind in {"bytes", "fixed"}:
        return _decimal(written, plain, path)
    found = _LOGICAL.get((kind, logical)) if isinstance(logical, str) else None
    if found is None:
        return plain
    kept, convert = found
    return _Column(kept, wire.converted(plain.read, convert) if convert else plain.read)


def _decimal(written: Mapping[str, Any], plain: _Column, path: tuple[str, ...]) -> _Column:
    precision, scale = written.get("precision"), written.get("scale", 0)
    if not (isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision <= _DIGITS_MAX) or (
        precision == 0
    ):
        raise wrong(
            path,
            f"is a decimal with precision {precision} and scale {scale}",
            f"a DECIMAL has 1 to {_DIGITS_MAX} digits, and at most that many after the point",
        )

    def exact(raw: bytes) -> Decimal:
        if len(raw) > _DECIMAL_BYTES_MAX:
            # Making a number of a megabyte takes minutes, and it would not fit anyway.
            raise BadValue(f"a decimal has {len(raw):,} bytes")
        return Decimal(int.from_bytes(raw, "big", signed=True)).scaleb(-scale, _exact)

    return _Column(pa.decimal128(precision, scale), wire.converted(plain.read, exact))


def _needed(written: Mapping[str, Any], key: str, path: tuple[str, ...]) -> Any:
    if key not in written:
        raise wrong(path, f"has no {key}")
    return written[key]


def _word(written: object) -> str:
    if isinstance(written, dict):
        return str(written.get("name") or written.get("type"))
    return str(written)


class TypeNames:
    """The types that were defined so far."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Mapping[str, Any], str]] = {}
        self._open: list[str] = []

    @contextmanager
    def defined(self, written: Mapping[str, Any], space: str, path: tuple[str, ...]) -> Iterator[str]:
        """Note a definition, and return the namespace inside of it."""
        name = written.get("name")
        if not isinstance(name, str) or not name:
            raise wrong(path, f"is a {written['type']} without a name")
        full = full_name(name, written.get("namespace") or space)
        known = self._known.get(full)
        if known is not None and known[0] is not written:
            raise wrong(path, f"defines {full}, which is defined before")
        inside = full.rpartition(".")[0]
        self._known[full] = (written, space)
        self._open.append(full)
        yield inside
        self._open.pop()

    def find(self, name: str, space: str, path: tuple[str, ...]) -> tuple[Mapping[str, Any], str]:
        """Return the definition of a name, and the namespace that it stands in."""
        full = full_name(name, space)
        if full not in self._known:
            raise wrong(path, f"is of the type {quoted(name)}, which is not defined before")
        if full in self._open:
            raise wrong(path, f"is a {full} inside of a {full}: a column cannot nest without end")
        return self._known[full]


def full_name(name: str, space: str | None) -> str:
    """Return a name with its namespace."""
    return name if "." in name or not space else f"{space}.{name}"


def wrong(path: tuple[str, ...], what: str, hint: str = "") -> Invalid:
    """Return what is wrong with a schema, and in which field."""
    where = f"field {'.'.join(path)}" if path else "the record"
    return Invalid(f"Avro schema: {where} {what}", hint=hint or "correct the schema")
