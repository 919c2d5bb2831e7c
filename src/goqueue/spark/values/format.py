"""The interface of value formats: an Arrow type, reading one value, and building a column of many.

Types have the names that pyspark gives them, since Spark compares them by name.

Columns are built from lists of objects, field by field, so that each row needs only one object.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any, Final

import pyarrow as pa
from typing_extensions import override

from goqueue.errors import Invalid

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
LOCAL_TIMESTAMP: Final = pa.timestamp("us")
FIELDS_MAX: Final = 10_000
DEPTH_MAX: Final = 64

Take = Callable[[list[Any]], list[Any]]
"""Takes a field out of each object, with None where it is absent."""


class BadValue(Exception):
    """A value does not fit the schema; `path` is the field."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what
        self.path: list[str] = []

    def inside(self, name: str) -> BadValue:
        """Add an outer field to the path."""
        self.path.insert(0, name)
        return self

    @override
    def __str__(self) -> str:
        return f"field {'.'.join(self.path)}: {self.what}" if self.path else self.what


class UnknownMessage(Invalid):
    """The descriptors do not have the named message."""


class ValueFormat(ABC):
    """A schema of one of the formats, as a reader."""

    name: str
    """The name in messages: `Avro of shop.Order`."""
    type: pa.StructType
    """The type of the column `data`."""
    indexes: tuple[int, ...] = ()
    """The index of the message in its schema, for formats with that in the prefix."""

    @abstractmethod
    def read(self, value: bytes) -> Any:
        """Parse a value for `build`; BadValue if it is malformed."""

    @abstractmethod
    def build(self, found: Sequence[Any]) -> pa.Array:
        """Build a column of parsed values, None for bad ones; ValueError if one does not fit the type."""

    def explain(self, value: bytes, bad: Exception) -> str:  # noqa: ARG002 - others show some of it
        """Return the reason for `error`."""
        return f"the value is no {self.name}: {bad}"


def list_type(item: pa.DataType) -> pa.DataType:
    """Return the type of an array."""
    return pa.list_(pa.field("element", item))


def map_type(key: pa.DataType, value: pa.DataType) -> pa.DataType:
    """Return the type of a map."""
    return pa.map_(pa.field("key", key, nullable=False), pa.field("value", value))


@dataclass(frozen=True, slots=True)
class ArrowColumn:
    """An Arrow type, and a function that builds its column from a list."""

    type: pa.DataType
    build: Callable[[list[Any]], pa.Array]


def plain_column(kind: pa.DataType) -> ArrowColumn:
    """Return a column of values that Arrow takes directly."""
    return ArrowColumn(kind, lambda found: pa.array(found, kind))


def converted_column(kind: pa.DataType, convert: Callable[[Any], Any]) -> ArrowColumn:
    """Return a column of converted values; `convert` gets no None."""
    return ArrowColumn(kind, lambda found: pa.array([None if each is None else convert(each) for each in found], kind))


def list_column(item: ArrowColumn) -> ArrowColumn:
    """Return a column of sequences."""
    kind = list_type(item.type)

    def build(found: list[Any]) -> pa.Array:
        lists = [() if each is None else each for each in found]
        items = item.build(list(chain.from_iterable(lists)))
        return pa.ListArray.from_arrays(_starts(lists), items, type=kind, mask=_nulls(found))

    return ArrowColumn(kind, build)


def map_column(key: ArrowColumn, value: ArrowColumn, *, is_sorted: bool = False) -> ArrowColumn:
    """Return a column of mappings; `is_sorted` by their keys, if their order differs between processes."""
    kind = map_type(key.type, value.type)

    def build(found: list[Any]) -> pa.Array:
        maps = [{} if each is None else each for each in found]
        if is_sorted:
            maps = [{name: each[name] for name in sorted(each)} for each in maps]
        keys = key.build([name for each in maps for name in each])
        values = value.build([each[name] for each in maps for name in each])
        return pa.MapArray.from_arrays(_starts(maps), keys, values, type=kind, mask=_nulls(found))

    return ArrowColumn(kind, build)


def struct_column(columns: Mapping[str, ArrowColumn], takers: Sequence[Take]) -> ArrowColumn:
    """Return a column of objects with these fields, and how to get at each."""
    fields = [pa.field(name, column.type) for name, column in columns.items()]
    parts = list(zip(takers, [column.build for column in columns.values()], strict=True))

    def build(found: list[Any]) -> pa.Array:
        children = [build_part(take(found)) for take, build_part in parts]
        return pa.StructArray.from_arrays(children, fields=fields, mask=_nulls(found))

    return ArrowColumn(pa.struct(fields), build)


def _starts(parts: Sequence[Any]) -> pa.Array:
    return pa.array(list(accumulate(map(len, parts), initial=0)), pa.int32())


def _nulls(found: list[Any]) -> pa.Array:
    return pa.array([each is None for each in found], pa.bool_())
