"""Lists of columns and types as Spark SQL writes them: `order_id STRING, amount DECIMAL(10, 2), tags ARRAY<STRING>`.

    schema = column { "," column }
    column = name [":"] type [ "NOT" "NULL" ] [ "COMMENT" text ]
    type   = simple | DECIMAL(p, s) | CHAR(n) | VARCHAR(n) | ARRAY<type> | MAP<type, type> | STRUCT<columns>
           | "STRING" "COLLATE" name | "INTERVAL" unit [ "TO" unit ]

Spark has a parser for these, but only in its Java. Pipelines are checked without Java, with the place of each mistake;
and a task of a read that decodes JSON needs the types although it has no Java and its schema may name only `error`.
"""

from __future__ import annotations

from typing import NamedTuple

from goqueue.spark.sql.tokens import SqlError, Token, TokenKind, tokens_of
from goqueue.spark.suggestions import suggestion

_SIMPLE = ("STRING", "INT", "INTEGER", "BIGINT", "LONG", "SMALLINT", "SHORT", "TINYINT", "BYTE", "DOUBLE", "FLOAT",
           "REAL", "BOOLEAN", "BINARY", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "TIME",
           "VARIANT", "VOID")  # fmt: skip
_SIZED = {"DECIMAL": (0, 2), "DEC": (0, 2), "NUMERIC": (0, 2), "CHAR": (1, 1), "CHARACTER": (1, 1), "VARCHAR": (1, 1)}
_NESTED = ("ARRAY", "MAP", "STRUCT")
_INTERVAL_UNITS = ("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND")
_TYPES = [*_SIMPLE, *_SIZED, *_NESTED, "INTERVAL"]
_DEPTH_MAX = 50
_END = Token(TokenKind.SYMBOL, "", -1)


class ColumnType(NamedTuple):
    """A type as it is written: `name` in capitals, then the content of its brackets."""

    name: str
    sizes: tuple[int, ...] = ()
    items: tuple[ColumnType, ...] = ()
    """The element of an array; the key and the value of a map."""
    columns: tuple[SchemaColumn, ...] = ()
    """The fields of a struct."""
    is_collated: bool = False


class SchemaColumn(NamedTuple):
    """A column, or a field of a struct."""

    name: str
    type: ColumnType


def parse_columns(schema: str) -> tuple[SchemaColumn, ...]:
    """Return the columns of a schema; SqlError with the place of the first mistake."""
    return _Reader(schema).columns()


def column_names(schema: str) -> list[str]:
    """Return the names of the columns of a schema; SqlError with the place of the first mistake."""
    return [column.name for column in parse_columns(schema)]


class _Reader:
    """A cursor over the tokens of a schema."""

    def __init__(self, schema: str) -> None:
        self._tokens = tokens_of(schema)
        self._length = len(schema)
        self._index = 0

    def columns(self) -> tuple[SchemaColumn, ...]:
        if not self._tokens:
            raise SqlError("the schema has no columns", 0)
        columns = self._fields(depth=0)
        if self._index < len(self._tokens):
            raise self._error("a comma and the next column, or the end,")
        return columns

    def _fields(self, depth: int) -> tuple[SchemaColumn, ...]:
        columns: list[SchemaColumn] = []
        while True:
            token = self._next()
            if token.kind not in {TokenKind.WORD, TokenKind.NAME}:
                raise self._error("the name of a column", token)
            if token.text.casefold() in (column.name.casefold() for column in columns):
                raise SqlError(f"the column {token.text} is there twice", token.offset)
            self._skip_symbol(":")
            columns.append(SchemaColumn(token.text, self._type(depth)))
            self._remarks()
            if not self._skip_symbol(","):
                return tuple(columns)

    def _type(self, depth: int) -> ColumnType:
        token = self._next()
        if token.kind is not TokenKind.WORD:
            raise self._error("a type", token)
        name = token.text.upper()
        if name not in _TYPES:
            hint = suggestion(name, _TYPES)
            raise SqlError(f"{token.text} is no type" + (f"; {hint}" if hint.startswith("did") else ""), token.offset)
        if depth > _DEPTH_MAX:
            raise SqlError("the schema nests too deeply", token.offset)
        if name in _SIZED:
            return ColumnType(name, self._sizes(token, *_SIZED[name]))
        if name in _NESTED:
            return self._nested(name, depth + 1)
        if name == "INTERVAL":
            self._interval()
        if name == "STRING" and self._peek().is_word("COLLATE"):
            self._next()
            self._collation()
            return ColumnType(name, is_collated=True)
        return ColumnType(name)

    def _collation(self) -> None:
        name = self._next()
        if name.kind is not TokenKind.WORD:
            raise self._error("a name after COLLATE", name)

    def _interval(self) -> None:
        while True:
            unit = self._next()
            if not unit.is_word(*_INTERVAL_UNITS):
                raise self._error("a unit such as DAY", unit)
            if not self._peek().is_word("TO"):
                return
            self._next()

    def _nested(self, name: str, depth: int) -> ColumnType:
        self._expect("<")
        if name == "STRUCT":
            found = ColumnType(name, columns=self._fields(depth))
        else:
            items = [self._type(depth)]
            if name == "MAP":
                self._expect(",")
                items.append(self._type(depth))
            found = ColumnType(name, items=tuple(items))
        self._expect(">")
        return found

    def _sizes(self, token: Token, least: int, most: int) -> tuple[int, ...]:
        sizes: list[int] = []
        if self._skip_symbol("("):
            while len(sizes) < most:
                size = self._next()
                if size.kind is not TokenKind.NUMBER or not size.text.isdecimal() or len(size.text) > 9:
                    raise self._error("a whole number", size)
                sizes.append(int(size.text))
                if not self._skip_symbol(","):
                    break
            self._expect(")")
        if len(sizes) < least:
            raise SqlError(f"{token.text} needs a length, such as {token.text}(20)", token.offset)
        if most == 2 and sizes and not (0 < sizes[0] <= 38 and (sizes[1:] or [0])[0] <= sizes[0]):
            raise SqlError(f"{token.text} has 1 to 38 digits, and at most that many after the point", token.offset)
        return tuple(sizes)

    def _remarks(self) -> None:
        if self._peek().is_word("NOT"):
            self._next()
            null = self._next()
            if not null.is_word("NULL"):
                raise self._error("NULL after NOT", null)
        if self._peek().is_word("COMMENT"):
            self._next()
            token = self._next()
            if token.kind is not TokenKind.TEXT:
                raise self._error("a text in quotes after COMMENT", token)

    def _peek(self) -> Token:
        return self._tokens[self._index] if self._index < len(self._tokens) else _END

    def _next(self) -> Token:
        token = self._peek()
        self._index += 1
        return token

    def _skip_symbol(self, symbol: str) -> bool:
        is_there = self._peek().is_symbol(symbol)
        self._index += is_there
        return is_there

    def _expect(self, symbol: str) -> None:
        if not self._skip_symbol(symbol):
            raise self._error(symbol)

    def _error(self, wanted: str, found: Token | None = None) -> SqlError:
        found = found or self._peek()
        if found.text == "":
            return SqlError(f"{wanted} is missing at the end of the schema", self._length)
        return SqlError(f"{wanted} should be here instead of {found.text}", found.offset)
