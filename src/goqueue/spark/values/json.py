"""JSON values, with the rules of Spark's own reader, but outside of its Java.

msgspec reads a whole value in one call into an object with a field for each column; what a column needs besides
(dates, decimals, base64) is made when columns are built. What Spark's reader takes beyond JSON is refused here: single
quotes, something behind the object, NaN without quotes, halves of a character as escapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec
import pyarrow as pa
from pyarrow import types
from pyspark.sql.pandas.types import from_arrow_type
from typing_extensions import override

from goqueue.spark.values.ddl import struct_of
from goqueue.spark.values.format import TIMESTAMP, BadValue, ValueFormat
from goqueue.spark.values.json_columns import column_of

EXCERPT_CHARACTERS: Final = 200


class JsonFormat(ValueFormat):
    """Values that are objects with some columns."""

    name = "JSON"

    def __init__(self, schema: str) -> None:
        """Take a list of columns; Invalid if it is none, or has a type that cannot be read here."""
        self.type = struct_of(schema)
        self._strict = msgspec.json.Decoder(_shape(self.type, str))
        # A number where a text belongs is the text of that number, as Spark has it; this is rare, and slower.
        self._loose = msgspec.json.Decoder(_shape(self.type, msgspec.Raw))
        self._build = column_of(self.type).build
        self._misfit = f"the value does not fit {from_arrow_type(self.type, prefer_timestamp_ntz=True).simpleString()}"

    @override
    def read(self, value: bytes) -> Any:
        """Return an object."""
        try:
            value.decode()
            return self._strict.decode(value)
        except msgspec.ValidationError:
            return self._read_loosely(value)
        except UnicodeDecodeError:
            raise BadValue("the value is not UTF-8") from None
        except (msgspec.DecodeError, RecursionError):
            raise _not_json(value) from None

    @override
    def build(self, found: Sequence[Any]) -> pa.Array:
        """Return a column of objects."""
        return self._build(list(found))

    @override
    def explain(self, value: bytes, bad: Exception) -> str:
        return str(bad) if isinstance(bad, BadValue) else f"{self._misfit}: {_excerpt(value)}"

    def _read_loosely(self, value: bytes) -> Any:
        try:
            return self._loose.decode(value)
        except msgspec.ValidationError:
            try:
                msgspec.json.decode(value)
            except (msgspec.DecodeError, RecursionError):
                raise _not_json(value) from None
            raise BadValue(f"{self._misfit}: {_excerpt(value)}") from None
        except (msgspec.DecodeError, RecursionError):
            raise _not_json(value) from None


def _not_json(value: bytes) -> BadValue:
    if not value.strip(b" "):
        return BadValue("the value is empty")
    return BadValue(f"the value is not JSON: {_excerpt(value)}")


def _excerpt(value: bytes) -> str:
    return value.decode(errors="replace")[:EXCERPT_CHARACTERS]


def _shape(kind: pa.DataType, text: Any) -> Any:
    """Return the Python type that msgspec is to read; `text` is what stands for a STRING."""
    if types.is_struct(kind):
        # Columns may have names that no Python name can be.
        fields = [(f"f{index}", _optional(field.type, text), None) for index, field in enumerate(kind)]
        return msgspec.defstruct("Value", fields, rename={f"f{index}": field.name for index, field in enumerate(kind)})
    if types.is_list(kind):
        return list[_optional(kind.value_type, text)]  # type: ignore[misc]
    if types.is_map(kind):
        return dict[str, _optional(kind.item_type, text)]  # type: ignore[misc]
    if types.is_integer(kind):
        end = 1 << (kind.bit_width - 1)
        return Annotated[int, msgspec.Meta(ge=-end, le=end - 1)]
    if types.is_string(kind):
        return text
    if types.is_boolean(kind):
        return bool
    if types.is_floating(kind):
        return float | str
    if types.is_decimal(kind):
        return msgspec.Raw
    return int | str if kind == TIMESTAMP else str


def _optional(kind: pa.DataType, text: Any) -> Any:
    shape = _shape(kind, text)
    # What is raw may be null as well.
    return shape if shape is msgspec.Raw else shape | None
