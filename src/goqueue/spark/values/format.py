"""What all formats of values have in common: a type of Arrow, how to read one value, and how to build a column of many.

Types are written the way pyspark derives them from its own, since Spark compares them name by name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
from typing_extensions import override

from goqueue.errors import Invalid

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
LOCAL_TIMESTAMP: Final = pa.timestamp("us")
FIELDS_MAX: Final = 10_000
DEPTH_MAX: Final = 64


class BadValue(Exception):
    """A value is not what the schema says; the text says how, and `path` where."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what
        self.path: list[str] = []

    def inside(self, name: str) -> BadValue:
        """Return the same, seen from outside of a field."""
        self.path.insert(0, name)
        return self

    @override
    def __str__(self) -> str:
        return f"field {'.'.join(self.path)}: {self.what}" if self.path else self.what


class UnknownMessage(Invalid):
    """A message is named that the descriptors do not have."""


class ValueFormat(ABC):
    """A schema of one of the formats, ready to read with."""

    name: str
    """What a value is, in messages: `Avro of shop.Order`."""
    type: pa.StructType
    """The type of the column `data`."""
    indexes: tuple[int, ...] = ()
    """Which message of its schema it is, if the format tells that in front of each value."""

    @abstractmethod
    def read(self, value: bytes) -> Any:
        """Return what a value holds, as `build` takes it; BadValue if it is none."""

    @abstractmethod
    def build(self, found: Sequence[Any]) -> pa.Array:
        """Return a column of what was read, with None for what was not; ValueError if something does not fit it."""

    def explain(self, value: bytes, bad: Exception) -> str:  # noqa: ARG002 - others show some of it
        """Return in words why there is no data."""
        return f"the value is no {self.name}: {bad}"


def list_type(item: pa.DataType) -> pa.DataType:
    """Return the type of an array."""
    return pa.list_(pa.field("element", item))


def map_type(key: pa.DataType, value: pa.DataType) -> pa.DataType:
    """Return the type of a map."""
    return pa.map_(pa.field("key", key, nullable=False), pa.field("value", value))
