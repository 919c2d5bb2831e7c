"""Lists of columns, `id BIGINT, tags ARRAY<STRING>`, as types: Spark reads them in its Java, which a task has not.

`pipelines.ddl` owns the grammar and its mistakes; what comes here has passed it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from goqueue.errors import Invalid
from goqueue.spark.sql.ddl import column_names
from goqueue.spark.sql.tokens import SqlError, Token, tokens_of
from goqueue.spark.values.format import LOCAL_TIMESTAMP, TIMESTAMP, list_type, map_type

_PLAIN: Final[Mapping[str, pa.DataType]] = {
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
_HINT: Final = "write columns and types: id BIGINT, amount DOUBLE"


def struct_of(ddl: str) -> pa.StructType:
    """Return the type that a list of columns makes; Invalid if it is none, or has a type that cannot be read here."""
    try:
        column_names(ddl)
    except SqlError as error:
        raise Invalid(f"the schema is no list of columns: {error.message}", hint=_HINT) from None
    return _Reader(tokens_of(ddl)).fields(())


class _Reader:
    """A cursor over the tokens of a schema that is known to be one."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._index = 0

    def fields(self, path: tuple[str, ...]) -> pa.StructType:
        found: list[pa.Field] = []
        while True:
            name = self._next().text
            self._skip(":")
            found.append(pa.field(name, self._type((*path, name))))
            self._remarks()
            if not self._skip(","):
                return pa.struct(found)

    def _type(self, path: tuple[str, ...]) -> pa.DataType:
        word = self._next().text.upper()
        plain = _PLAIN.get(word)
        if plain is not None and not self._at_word("COLLATE"):
            return plain
        match word:
            case "DECIMAL" | "DEC" | "NUMERIC":
                precision, scale = (*self._sizes(), None, None)[:2]
                return pa.decimal128(10 if precision is None else precision, scale or 0)
            case "ARRAY":
                return list_type(self._inside(path))
            case "STRUCT":
                self._next()
                found = self.fields(path)
                self._next()
                return found
            case "MAP":
                return self._map(path)
            case _:
                raise Invalid(
                    f"column {'.'.join(path)} is of the type {word}, which the source cannot decode",
                    hint="leave the option decode away, and use decode_json on the rows",
                )

    def _inside(self, path: tuple[str, ...]) -> pa.DataType:
        self._next()
        found = self._type(path)
        self._next()
        return found

    def _map(self, path: tuple[str, ...]) -> pa.DataType:
        self._next()
        key = self._type(path)
        if key != pa.string():
            raise Invalid(f"column {'.'.join(path)} is a map, whose keys have to be STRING", hint=_HINT)
        self._next()
        found = map_type(key, self._type(path))
        self._next()
        return found

    def _sizes(self) -> list[int]:
        sizes: list[int] = []
        if self._skip("("):
            while not self._skip(")"):
                sizes.append(int(self._next().text))
                self._skip(",")
        return sizes

    def _remarks(self) -> None:
        while self._at_word("NOT") or self._at_word("COMMENT"):
            self._index += 2

    def _at_word(self, word: str) -> bool:
        return self._index < len(self._tokens) and self._tokens[self._index].is_word(word)

    def _next(self) -> Token:
        self._index += 1
        return self._tokens[self._index - 1]

    def _skip(self, symbol: str) -> bool:
        is_there = self._index < len(self._tokens) and self._tokens[self._index].is_symbol(symbol)
        self._index += is_there
        return is_there
