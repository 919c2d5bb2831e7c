"""Finds the parts of SQL that depend on time or randomness, so that two evaluations of the same rows may differ.

Found by name, without Spark: functions (`rand()`, `now()`), words that are functions without brackets
(`CURRENT_TIMESTAMP`), literals that mean the time of the query (`DATE 'today'`), and `TABLESAMPLE`. A seed does not
help: `rand(1)` depends on the position of a row. User-defined functions are not known here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from goqueue.spark.sql.tokens import SqlError, Token, TokenKind, tokens_of

TIME_FUNCTIONS: Final = frozenset(
    ("curdate", "current_date", "current_time", "current_timestamp", "localtimestamp", "now")
)
RANDOM_FUNCTIONS: Final = frozenset(
    ("monotonically_increasing_id", "rand", "randn", "random", "randstr", "shuffle", "spark_partition_id", "uniform",
     "uuid")
)  # fmt: skip
_TIME_WORDS: Final = ("CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP")
_LITERALS: Final = ("DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ")
_TIMES: Final = ("now", "today", "tomorrow", "yesterday")
_WORD: Final = re.compile(r"\w+")
_NOTHING: Final = Token(TokenKind.SYMBOL, "", 0)


def nondeterminism_in(text: str, columns: Collection[str] = ()) -> str:
    """Return the first expression that depends on time or randomness; an empty text if there is none.

    A word without brackets that is one of the `columns`, in small letters, means that column.
    """
    try:
        tokens = tokens_of(text)
    except SqlError:
        # # The parser of the step reports this.
        return ""
    return next(filter(None, (_nondeterminism_at(tokens, index, columns) for index in range(len(tokens)))), "")


def is_time(chance: str) -> bool:
    """Return whether an expression depends on time, and not on randomness."""
    return chance.removesuffix("()").lower() not in RANDOM_FUNCTIONS | {"tablesample"}


def is_bare(chance: str) -> bool:
    """Return whether it is a word without brackets, as columns are."""
    return chance.upper() in _TIME_WORDS


def columns_in(schema: str) -> Iterator[str]:
    """Yield the columns of a schema whose names otherwise mean the current time."""
    return (word for word in map(str.lower, _WORD.findall(schema)) if is_bare(word))


def _nondeterminism_at(tokens: Sequence[Token], index: int, columns: Collection[str]) -> str:
    token, before, behind, second = (
        tokens[at] if 0 <= at < len(tokens) else _NOTHING for at in (index, index - 1, index + 1, index + 2)
    )
    if token.kind is not TokenKind.WORD:
        return ""
    name = token.text.lower()
    if behind.is_symbol("("):
        # Of the functions with that name, the one without an argument asks the clock.
        is_clock = name == "unix_timestamp" and second.is_symbol(")")
        return f"{name}()" if is_clock or name in TIME_FUNCTIONS | RANDOM_FUNCTIONS else _sample(token)
    if token.is_word(*_TIME_WORDS) and not before.is_symbol(".") and not before.is_word("AS"):
        return "" if name in columns else name
    if token.is_word(*_LITERALS) and behind.kind is TokenKind.TEXT and behind.text[1:-1].strip().lower() in _TIMES:
        return f"{name} {behind.text.lower()}"
    return ""


def _sample(token: Token) -> str:
    return "tablesample" if token.is_word("TABLESAMPLE") else ""
