"""JSON values, with the rules of Spark's own reader, but outside of its Java.

msgspec parses a value in one call into an object with a field for each column; dates, decimals and base64 are converted
when columns are built. Unlike Spark's reader, this one refuses everything outside of the JSON standard: single quotes,
text after the object, NaN without quotes, unpaired surrogate escapes.

Conversions to types that JSON does not have, as in Spark's reader:

| column        | from                                                                             |
|---------------|----------------------------------------------------------------------------------|
| STRING        | a text; anything else as JSON without blanks                                     |
| FLOAT, DOUBLE | a number, or the texts NaN, Infinity, INF, with a sign or without                |
| DECIMAL       | a number or the text of one, rounded half up                                     |
| BINARY        | a text in base64                                                                 |
| DATE          | a text such as 2030-01-31                                                        |
| TIMESTAMP     | a text such as 2030-01-31T08:00:00.5Z, in UTC if it names no zone; a number of seconds since 1970 |
| TIMESTAMP_NTZ | such a text without a zone                                                       |

Other values raise ValueError.
"""

from __future__ import annotations

import math
import re
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from operator import attrgetter
from typing import Annotated, Any, Final

import msgspec
import pyarrow as pa
from pyarrow import types
from pyspark.sql.pandas.types import from_arrow_type
from typing_extensions import override

from goqueue.errors import Invalid
from goqueue.spark.sql.ddl import ColumnType, SchemaColumn, parse_columns
from goqueue.spark.sql.tokens import SqlError
from goqueue.spark.values.format import (
    LOCAL_TIMESTAMP,
    TIMESTAMP,
    ArrowColumn,
    BadValue,
    Take,
    ValueFormat,
    converted_column,
    list_column,
    list_type,
    map_column,
    map_type,
    plain_column,
    struct_column,
)

EXCERPT_CHARACTERS: Final = 200

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_NOT_NUMBERS: Final[Mapping[str, float]] = {
    "NaN": math.nan,
    **dict.fromkeys(("INF", "+INF", "Infinity", "+Infinity"), math.inf),
    **dict.fromkeys(("-INF", "-Infinity"), -math.inf),
}
_exact: Final = Context(prec=76, rounding=ROUND_HALF_UP)
_DECIMAL: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_DAY: Final = r"(\d{4})-(\d{1,2})-(\d{1,2})"
_DATE: Final = re.compile(_DAY + r"(?:[T ].*)?", re.ASCII | re.DOTALL)
_MOMENT: Final = re.compile(
    _DAY + r"(?:[T ](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?(?: ?(Z|UTC|[+-]\d{1,2}:\d{2}))?)?", re.ASCII
)


_PLAIN_TYPES: Final[Mapping[str, pa.DataType]] = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "BYTE": pa.int8(),
    "SMALLINT": pa.int16(),
    "SHORT": pa.int16(),
    "INT": pa.int32(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "LONG": pa.int64(),
    "FLOAT": pa.float32(),
    "REAL": pa.float32(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "BINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMP": TIMESTAMP,
    "TIMESTAMP_LTZ": TIMESTAMP,
    "TIMESTAMP_NTZ": LOCAL_TIMESTAMP,
}
_SCHEMA_HINT: Final = "write columns and types: id BIGINT, amount DOUBLE"


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


def struct_of(schema: str) -> pa.StructType:
    """Return the Arrow type of a list of columns; Invalid if it is malformed, or has a type that JSON cannot fill."""
    try:
        columns = parse_columns(schema)
    except SqlError as error:
        raise Invalid(f"the schema is no list of columns: {error.message}", hint=_SCHEMA_HINT) from None
    return _struct_type(columns, ())


def _struct_type(columns: Sequence[SchemaColumn], path: tuple[str, ...]) -> pa.StructType:
    return pa.struct([pa.field(name, _arrow_type(kind, (*path, name))) for name, kind in columns])


def _arrow_type(kind: ColumnType, path: tuple[str, ...]) -> pa.DataType:
    plain = _PLAIN_TYPES.get(kind.name)
    if plain is not None and not kind.is_collated:
        return plain
    match kind.name:
        case "DECIMAL" | "DEC" | "NUMERIC":
            precision, scale = (*kind.sizes, *(10, 0)[len(kind.sizes) :])
            return pa.decimal128(precision, scale)
        case "ARRAY":
            return list_type(_arrow_type(kind.items[0], path))
        case "STRUCT":
            return _struct_type(kind.columns, path)
        case "MAP":
            key, value = (_arrow_type(item, path) for item in kind.items)
            if key != pa.string():
                raise Invalid(f"column {'.'.join(path)} is a map whose keys are not STRING", hint=_SCHEMA_HINT)
            return map_type(key, value)
    raise Invalid(
        f"column {'.'.join(path)} is of the type {kind.name}, which the source cannot decode",
        hint="leave the option decode away, and use decode_json on the rows",
    )


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


def column_of(kind: pa.DataType) -> ArrowColumn:
    """Return the column of a type, from what msgspec reads for it."""
    if types.is_struct(kind):
        return struct_column(
            {field.name: column_of(field.type) for field in kind},
            [_taker(f"f{index}") for index in range(kind.num_fields)],
        )
    if types.is_list(kind):
        return list_column(column_of(kind.value_type))
    if types.is_map(kind):
        return map_column(plain_column(pa.string()), column_of(kind.item_type))
    convert = _conversion(kind)
    return plain_column(kind) if convert is None else converted_column(kind, convert)


def _taker(name: str) -> Take:
    take = attrgetter(name)
    return lambda found: [None if each is None else take(each) for each in found]


def _conversion(kind: pa.DataType) -> Callable[[Any], Any] | None:
    if types.is_string(kind):
        return _text
    if types.is_floating(kind):
        return _number
    if types.is_decimal(kind):
        return lambda raw: _decimal(raw, kind.scale)
    if types.is_binary(kind):
        return lambda text: b64decode(text, validate=True)
    if types.is_date(kind):
        return _date
    if kind == TIMESTAMP:
        return _moment
    return _local_moment if kind == LOCAL_TIMESTAMP else None


def _text(found: str | msgspec.Raw) -> str | None:
    if isinstance(found, str):
        return found
    raw = bytes(found)
    if raw == b"null":
        return None
    read = msgspec.json.decode(raw)
    return read if isinstance(read, str) else msgspec.json.encode(read).decode()


def _number(found: float | str) -> float:
    if not isinstance(found, str):
        return found
    if found not in _NOT_NUMBERS:
        raise ValueError(f"{found} is no number")
    return _NOT_NUMBERS[found]


def _decimal(found: msgspec.Raw, scale: int) -> Decimal | None:
    raw = bytes(found)
    # A number as it is written: as a float it would lose digits.
    text = _text(found) if raw[:1] == b'"' or raw == b"null" else raw.decode()
    if text is None:
        return None
    if not _DECIMAL.fullmatch(text):
        raise ValueError(f"{text} is no decimal")
    try:
        return Decimal(text).quantize(Decimal(1).scaleb(-scale), context=_exact)
    except InvalidOperation:
        raise ValueError(f"{text} has too many digits") from None


def _date(text: str) -> date:
    found = _DATE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text} is no date")
    return date(*map(int, found.groups()))


def _moment(found: str | int) -> int:
    if isinstance(found, int):
        return found * 1_000_000
    moment, microseconds = _clock(found)
    return (moment - _EPOCH) // _MICROSECOND + microseconds


def _local_moment(text: str) -> int:
    moment, microseconds = _clock(text, may_have_zone=False)
    return (moment - _EPOCH) // _MICROSECOND + microseconds


def _clock(text: str, *, may_have_zone: bool = True) -> tuple[datetime, int]:
    """Return a moment of whole seconds, and the microseconds beyond it."""
    found = _MOMENT.fullmatch(text.strip())
    if found is None or (found[8] and not may_have_zone):
        raise ValueError(f"{text} is no time")
    year, month, day, hour, minute, second = (int(each or 0) for each in found.groups()[:6])
    zone = _zone(found[8])
    return datetime(year, month, day, hour, minute, second, tzinfo=zone), int((found[7] or "").ljust(6, "0")[:6])


def _zone(text: str | None) -> timezone:
    if text is None or text in {"Z", "UTC"}:
        return UTC
    hours, minutes = text[1:].split(":")
    offset = timedelta(hours=int(hours), minutes=int(minutes))
    return timezone(-offset if text[0] == "-" else offset)
