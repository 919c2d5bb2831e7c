"""Which columns a write takes, and of which types; judged from the schema, before anything is written. Pure.

| column    | type                             | may be missing                 | null in a row       |
|-----------|----------------------------------|--------------------------------|---------------------|
| value     | binary or string                 | no                             | a null value        |
| key       | binary or string                 | yes                            | no key              |
| headers   | array of struct of key and value | yes                            | no headers          |
| topic     | string                           | if there is the option `topic` | refused             |
| partition | a whole number                   | yes                            | chosen by the key   |
| timestamp | timestamp                        | yes                            | the time of writing |
| priority  | a whole number from 0 to 4       | yes                            | none is said        |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from typing import NamedTuple

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from goqueue.errors import SettingMistake

_TEXT = (BinaryType, StringType)
_WHOLE = (ByteType, ShortType, IntegerType, LongType)
_SCHEDULES = ("delay", "deliver_at")
_GIVEN = {
    "offset": "the broker gives offsets",
    "timestampType": "the topic decides it",
    "trace_id": "it is read from the header traceparent, which is written as one of the headers",
    "schema_id": "it is read from the header schema-id, which is written as one of the headers",
}


class _Column(NamedTuple):
    kind: str
    fits: Callable[[DataType], bool]


def _is_headers(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    fields = {field.name: field.dataType for field in kind.elementType.fields}
    return set(fields) == {"key", "value"} and all(isinstance(each, _TEXT) for each in fields.values())


_COLUMNS = {
    "value": _Column("binary or string", lambda kind: isinstance(kind, _TEXT)),
    "key": _Column("binary or string", lambda kind: isinstance(kind, _TEXT)),
    "headers": _Column("array<struct<key: string, value: binary>>", _is_headers),
    "topic": _Column("string", lambda kind: isinstance(kind, StringType)),
    "partition": _Column("int", lambda kind: isinstance(kind, _WHOLE)),
    "timestamp": _Column("timestamp", lambda kind: isinstance(kind, TimestampType)),
    "priority": _Column("int", lambda kind: isinstance(kind, _WHOLE)),
}


def column_mistakes(schema: StructType, *, has_topic: bool) -> Iterator[SettingMistake]:
    """Yield all that is wrong with the columns; `has_topic` says that an option names the topic."""
    counts = Counter(schema.fieldNames())
    for name, count in counts.items():
        if count > 1:
            yield _mistake(name, f"is there {count} times: drop all but one")
    for field in schema.fields:
        column = _COLUMNS.get(field.name)
        if column is None:
            yield _mistake(field.name, _unknown(field.name))
        elif not column.fits(field.dataType):
            yield _mistake(field.name, f"is of type {field.dataType.simpleString()}, not {column.kind}: cast it")
    if "value" not in counts:
        yield _mistake("value", "is missing: name what is written so, for example to_json(struct(*)) AS value")
    if not has_topic and "topic" not in counts:
        yield SettingMistake(
            ("topic",), "no topic is named: set the option topic, or have a column topic that says it for each row"
        )


def _unknown(name: str) -> str:
    if name in _SCHEDULES:
        return "cannot be written: this broker has no schedules, so every message is delivered at once; drop it"
    if name in _GIVEN:
        return f"cannot be written: {_GIVEN[name]}; drop it"
    near = get_close_matches(name.lower(), _COLUMNS, n=1)
    fix = f"did you mean {near[0]}?" if near else f"there are {', '.join(_COLUMNS)}; drop it, or make it part of value"
    return f"is no column of a message: {fix}"


def _mistake(name: str, what: str) -> SettingMistake:
    return SettingMistake((name,), f"column {name} {what}")
