"""Decodes batches of values to the columns `data` and `error`.

A value that cannot be read has an error and no data; a null value has neither. `Decoding` is small and picklable; each
process creates one reader for it (`reader_of`).

With the prefix `confluent`, these bytes precede each value:

| bytes | what it is                                                                   |
|-------|------------------------------------------------------------------------------|
| 1     | 0, the magic byte                                                            |
| 4     | the id of the schema in a registry, big-endian                               |
| ...   | only Protobuf: which message of the schema it is, see below                  |

A message is named by its number at each level, as zigzag varints: how many numbers, then these. A lone 0 stands for
`[0]`, the first message.

The id is ignored: values must be written with the given schema.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, assert_never

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from goqueue.errors import Invalid
from goqueue.spark.values.avro_binary import read_long
from goqueue.spark.values.decoding import Decoding, FormatName, Prefix
from goqueue.spark.values.format import BadValue, ValueFormat

DATA: Final = "data"
ERROR: Final = "error"

# Python's objects take a multiple of the bytes they are made of, so few values are read at a time.
_ROWS_MAX: Final = 10_000
_BYTES_MAX: Final = 1024 * 1024

PREFIX_BYTES: Final = 5
_INDEXES_MAX: Final = 64


class Decoded(NamedTuple):
    """The two columns."""

    data: pa.Array
    error: pa.Array


# # Errors from building columns: values too large, of another type, or nested too deeply.
_MISFITS = (ValueError, TypeError, ArithmeticError, RecursionError, msgspec.DecodeError)


class ValueReader:
    """Reads columns of values of one kind."""

    def __init__(self, decoding: Decoding) -> None:
        """Take a schema; Invalid if it is malformed."""
        self._format = _format_of(decoding)
        self._prefix = decoding.prefix

    @property
    def name(self) -> str:
        """The format of the values, for messages."""
        return self._format.name

    @property
    def type(self) -> pa.StructType:
        """The type of `data`."""
        return self._format.type

    def decode(self, values: pa.Array) -> Decoded:
        """Return data and errors, a row each for every value."""
        parts = [self._decode(values.slice(start, count)) for start, count in _parts(values)]
        if len(parts) == 1:
            return parts[0]
        return Decoded(
            pa.concat_arrays([part.data for part in parts] or [pa.array([], self.type)]),
            pa.concat_arrays([part.error for part in parts] or [pa.array([], pa.string())]),
        )

    def _decode(self, values: pa.Array) -> Decoded:
        found: list[Any] = []
        errors: list[str | None] = []
        raw: list[bytes | None] = values.to_pylist()
        for value in raw:
            error = None
            item = None
            if value is not None:
                try:
                    item = self._read(value)
                except BadValue as bad:
                    error = self._words(value, bad)
            found.append(item)
            errors.append(error)
        try:
            data = self._format.build(found)
        except _MISFITS:
            data = self._build_what_fits(raw, found, errors)
        return Decoded(data, pa.array(errors, pa.string()))

    def _read(self, value: bytes) -> Any:
        if self._prefix is Prefix.CONFLUENT:
            value = skip_schema_id(value)
            if self._format.indexes:
                value = skip_message_indexes(value, self._format.indexes)
        return self._format.read(value)

    def _build_what_fits(self, values: list[bytes | None], found: list[Any], errors: list[str | None]) -> pa.Array:
        """Build again without values that do not fit the column, such as dates out of range."""
        for index, (value, item) in enumerate(zip(values, found, strict=True)):
            try:
                self._format.build([item])
            except _MISFITS as bad:
                found[index] = None
                errors[index] = self._words(value or b"", bad)
        return self._format.build(found)

    def _words(self, value: bytes, bad: Exception) -> str:
        told = self._format.explain(value, bad)
        if self._prefix is Prefix.NONE and value[:1] == b"\0" and len(value) > PREFIX_BYTES:
            told += "; it begins like one with the prefix confluent"
        return told


@lru_cache(maxsize=32)
def reader_of(decoding: Decoding) -> ValueReader:
    """Return the cached reader of a decoding; Invalid if the schema is malformed."""
    return ValueReader(decoding)


def fields_of(decoding: Decoding) -> list[pa.Field]:
    """Return the columns that decoding adds."""
    return [pa.field(DATA, reader_of(decoding).type), pa.field(ERROR, pa.string())]


class ValueColumns:
    """The columns of a read: columns of the log, and `data` and `error` decoded from `value`."""

    def __init__(self, columns: Sequence[str], decoding: Decoding | None) -> None:
        self._columns = tuple(columns)
        self._reader = None
        self.stored = tuple(name for name in columns if decoding is None or name not in {DATA, ERROR})
        """The columns that `add` needs."""
        if decoding is not None and len(self.stored) < len(self._columns):
            self._reader = reader_of(decoding)
            if "value" not in self.stored:
                self.stored = (*self.stored, "value")

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a batch with all requested columns, in order."""
        if self._reader is None:
            yield batch
            return
        for start, count in _parts(batch.column("value")):
            part = batch.slice(start, count)
            decoded = self._reader.decode(part.column("value"))
            arrays = {DATA: decoded.data, ERROR: decoded.error}
            columns = [arrays[name] if name in arrays else part.column(name) for name in self._columns]
            yield pa.RecordBatch.from_arrays(columns, names=list(self._columns))


def _parts(values: pa.Array) -> Iterator[tuple[int, int]]:
    """Yield parts of the values, as start and count: decoded values can be a hundred times as large."""
    start = size = 0
    for index, length in enumerate(pc.binary_length(values).to_pylist()):
        size += length or 0
        if index > start and (size > _BYTES_MAX or index - start == _ROWS_MAX):
            yield start, index - start
            start, size = index, length or 0
    if start < len(values):
        yield start, len(values) - start


def _format_of(decoding: Decoding) -> ValueFormat:
    """Make a format; its module is imported only where it is used."""
    match decoding.format:
        case FormatName.JSON:
            from goqueue.spark.values.json import JsonFormat

            return JsonFormat(_text(decoding.schema))
        case FormatName.AVRO:
            from goqueue.spark.values.avro import AvroFormat

            return AvroFormat(_text(decoding.schema))
        case FormatName.PROTOBUF:
            from goqueue.spark.values.protobuf import ProtobufFormat

            schema = decoding.schema
            return ProtobufFormat(schema.encode() if isinstance(schema, str) else schema, decoding.message)
        case _:
            assert_never(decoding.format)


def _text(schema: str | bytes) -> str:
    try:
        return schema if isinstance(schema, str) else schema.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Invalid("the schema is not UTF-8", hint="store it as UTF-8") from None


def skip_schema_id(value: bytes) -> bytes:
    """Return the bytes after magic byte and id."""
    if len(value) < PREFIX_BYTES:
        raise BadValue(f"{len(value)} bytes are too few for the prefix confluent")
    if value[0] != 0:
        raise BadValue(f"it begins with byte {value[0]:02x}, not with 00 as the prefix confluent does")
    return value[PREFIX_BYTES:]


def skip_message_indexes(value: bytes, wanted: tuple[int, ...]) -> bytes:
    """Return the bytes after the message indexes, which must be the wanted ones."""
    found: list[int] = []
    try:
        count, position = read_long(value, 0)
        if not 0 <= count <= _INDEXES_MAX:
            raise BadValue(f"its prefix names a message by {count} numbers")
        for _ in range(count):
            index, position = read_long(value, position)
            found.append(index)
    except IndexError:
        raise BadValue("it ends within the prefix confluent") from None
    if (tuple(found) or (0,)) != wanted:
        told = ", ".join(map(str, found or [0]))
        raise BadValue(f"its prefix says that it is message [{told}] of its schema, not {list(wanted)}")
    return value[position:]
