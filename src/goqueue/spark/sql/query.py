"""Finds the tables that a query reads, and whether it groups rows or uses time windows.

This is not a parser: Spark's needs a JVM, and sqlglot misreads some of Spark's SQL. It follows brackets, `FROM`, `JOIN`
and the commas after them, and `WITH`:

- the name of a common table expression is visible after its definition, up to the closing bracket around it;
- `FROM` inside of a function (`extract(hour FROM t)`, `trim(BOTH ' ' FROM s)`) and `IS DISTINCT FROM` name no table;
- a word after a dot is a column;
- a recursive expression is visible inside of its own definition;
- a name before a bracket is a function, and one with dots is a table of Spark's catalogue, which is not looked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from goqueue.spark.sql.tokens import SqlError, Token, TokenKind, tokens_of

_FIRST_WORDS = ("SELECT", "WITH", "FROM", "VALUES", "TABLE")
_BEHIND_TABLES = ("WHERE", "GROUP", "HAVING", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET", "WINDOW",
                  "UNION", "EXCEPT", "INTERSECT", "MINUS", "SELECT", "QUALIFY", "VIEW")  # fmt: skip
_BETWEEN_QUERIES = ("UNION", "EXCEPT", "INTERSECT", "MINUS", "ALL", "DISTINCT")
_NO_TABLE = ("LATERAL", "VALUES", "SELECT", "WITH", "STREAM", "TABLE", "VIEW")
_WINDOW_FUNCTIONS = ("WINDOW", "SESSION_WINDOW")


class TableName(NamedTuple):
    """A table that a query reads, as written, with its offset in the text."""

    name: str
    offset: int


@dataclass(frozen=True, slots=True)
class SqlQuery:
    """The tables and clauses of a query; each table is listed once."""

    tables: tuple[TableName, ...]
    groups: bool
    has_windows: bool


@dataclass(slots=True)
class _Level:
    """The state inside one pair of brackets."""

    defined: set[str] = field(default_factory=set)
    is_query: bool = False
    is_in_tables: bool = False
    is_in_with: bool = False
    is_recursive: bool = False
    defines: str = ""


def check_expression(text: str) -> None:
    """Raise SqlError unless all quotes, comments and brackets are closed, and there is something at all."""
    tokens = tokens_of(text)
    if not tokens:
        raise SqlError("the condition is empty", 0)
    for token in tokens:
        if token.is_symbol(";"):
            raise SqlError("an expression has no semicolon", token.offset)


def read_query(text: str) -> SqlQuery:
    """Return the tables and clauses of a query; SqlError if the text is not a query."""
    tokens = tokens_of(text)
    while tokens and tokens[-1].is_symbol(";"):
        tokens.pop()
    _check_is_query(tokens)
    unique = {table.name.casefold(): table for table in reversed(list(_tables(tokens)))}
    pairs = list(pairwise(tokens))
    return SqlQuery(
        tables=tuple(sorted(unique.values(), key=lambda table: table.offset)),
        groups=any(first.is_word("GROUP") and second.is_word("BY") for first, second in pairs),
        has_windows=any(first.is_word(*_WINDOW_FUNCTIONS) and second.is_symbol("(") for first, second in pairs),
    )


def _check_is_query(tokens: Sequence[Token]) -> None:
    words = [token for token in tokens if not token.is_symbol("(")]
    if not words:
        raise SqlError("the query is empty", 0)
    if not words[0].is_word(*_FIRST_WORDS):
        raise SqlError(f"a query begins with SELECT or WITH, not with {words[0].text}", words[0].offset)
    for token in tokens:
        if token.is_symbol(";"):
            raise SqlError("a step has one query; this is a second one", token.offset)


def _tables(tokens: Sequence[Token]) -> Iterator[TableName]:
    levels = [_Level()]
    expects_table = False
    for index, token in enumerate(tokens):
        level = levels[-1]
        if token.is_symbol("("):
            if level.is_recursive:
                level.defined |= {level.defines} - {""}
            # # Brackets in place of a table contain a query or a table.
            levels.append(_Level(is_in_tables=expects_table))
            continue
        if token.is_symbol(")"):
            levels.pop()
            expects_table = False
            levels[-1].defined |= {levels[-1].defines} - {""}
            levels[-1].defines = ""
            continue
        if expects_table and token.kind in {TokenKind.WORD, TokenKind.NAME} and not token.is_word(*_NO_TABLE):
            expects_table = False
            if _is_table(tokens, index) and not any(token.text.casefold() in known.defined for known in levels):
                yield TableName(token.text, token.offset)
            continue
        expects_table = _follow(level, tokens, index, was_bracket=index > 0 and tokens[index - 1].is_symbol("("))


def _follow(level: _Level, tokens: Sequence[Token], index: int, *, was_bracket: bool) -> bool:
    """Update the state of the level; return whether a table comes next."""
    token = tokens[index]
    if index and tokens[index - 1].is_symbol("."):
        return False
    if level.is_in_with and _begins_definition(tokens, index):
        level.defines = token.text.casefold()
    if token.is_word("WITH"):
        level.is_in_with = True
        level.is_recursive = index + 1 < len(tokens) and tokens[index + 1].is_word("RECURSIVE")
    elif token.is_word("SELECT"):
        level.is_query, level.is_in_tables, level.is_in_with = True, False, False
    elif token.is_word("FROM"):
        is_distinct = index > 1 and tokens[index - 1].is_word("DISTINCT") and tokens[index - 2].is_word("IS", "NOT")
        if is_distinct or not (level.is_query or was_bracket or index == 0 or level.is_in_with):
            return False
        level.is_query = level.is_in_tables = True
        return True
    elif token.is_word("JOIN") or (token.is_word("TABLE") and _begins_query(tokens, index)):
        return True
    elif token.is_word(*_BEHIND_TABLES):
        level.is_in_tables = False
    elif token.is_symbol(","):
        return level.is_in_tables
    # # LATERAL and STREAM stand before a table.
    return token.is_word("LATERAL", "STREAM") and level.is_in_tables


def _begins_query(tokens: Sequence[Token], index: int) -> bool:
    """Return whether a query may begin here: at the start, in brackets, after definitions or another query."""
    before = tokens[index - 1] if index else None
    return before is None or before.is_symbol("(") or before.is_symbol(")") or before.is_word(*_BETWEEN_QUERIES)


def _begins_definition(tokens: Sequence[Token], index: int) -> bool:
    """Return whether this is the name of a common table expression: after WITH, RECURSIVE or a comma."""
    before = tokens[index - 1] if index else None
    is_name = tokens[index].kind in {TokenKind.WORD, TokenKind.NAME} and not tokens[index].is_word("RECURSIVE")
    return is_name and before is not None and (before.is_word("WITH", "RECURSIVE") or before.is_symbol(","))


def _is_table(tokens: Sequence[Token], index: int) -> bool:
    following = tokens[index + 1] if index + 1 < len(tokens) else None
    return following is None or not (following.is_symbol("(") or following.is_symbol("."))
