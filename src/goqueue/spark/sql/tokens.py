"""Splits Spark SQL into tokens, to find names and unclosed quotes, comments and brackets.

| kind   | what                                                                    |
|--------|-------------------------------------------------------------------------|
| word   | a keyword or a plain name; kept as written                              |
| name   | a name in backticks, without them                                       |
| text   | a string in single or double quotes                                     |
| number | a number                                                                |
| symbol | one character of anything else                                          |

Comments (`-- ...`, and `/* ... */`, which nest) and blanks are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum, auto
from typing import NamedTuple

_BLANK = re.compile(r"\s+|--[^\n\r]*")
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_STRING = re.compile(r"""[rR]'[^']*'|[rR]"[^"]*"|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*\"""", re.DOTALL)
_QUOTED_NAME = re.compile(r"`((?:[^`]|``)*)`")
_WORD = re.compile(r"[^\W\d]\w*")
_NUMBER = re.compile(r"\d+(?:\.\d*)?(?:[eE][+-]?\d+)?\w*")
_CLOSING = {"(": ")", "[": "]"}


class TokenKind(Enum):
    """The kind of a token."""

    WORD = auto()
    NAME = auto()
    TEXT = auto()
    NUMBER = auto()
    SYMBOL = auto()


class Token(NamedTuple):
    """A token of SQL, with its offset in the text."""

    kind: TokenKind
    text: str
    offset: int

    def is_word(self, *words: str) -> bool:
        """Return whether it is one of these keywords, given in capitals."""
        return self.kind is TokenKind.WORD and self.text.upper() in words

    def is_symbol(self, symbol: str) -> bool:
        """Return whether it is this character."""
        return self.kind is TokenKind.SYMBOL and self.text == symbol


class SqlError(Exception):
    """The text is not valid SQL; `offset` is the position of the mistake."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset


def tokens_of(text: str) -> list[Token]:
    """Return the tokens of a text in which all quotes, comments and brackets are closed; else SqlError."""
    tokens = list(_scan(text))
    _check_brackets(tokens)
    return tokens


def _scan(text: str) -> Iterator[Token]:
    offset = 0
    while offset < len(text):
        if match := _BLANK.match(text, offset):
            offset = match.end()
        elif text.startswith("/*", offset):
            offset = _end_of_comment(text, offset)
        else:
            token, offset = _next(text, offset)
            yield token


def _next(text: str, offset: int) -> tuple[Token, int]:
    # A string comes first: r'...' would be taken for a word otherwise.
    for kind, pattern in ((TokenKind.TEXT, _STRING), (TokenKind.WORD, _WORD), (TokenKind.NUMBER, _NUMBER)):
        if match := pattern.match(text, offset):
            return Token(kind, match[0], offset), match.end()
    if match := _QUOTED_NAME.match(text, offset):
        return Token(TokenKind.NAME, match[1].replace("``", "`"), offset), match.end()
    if text[offset] in "'\"`":
        raise SqlError(f"the quote {text[offset]} is never closed", offset)
    return Token(TokenKind.SYMBOL, text[offset], offset), offset + 1


def _end_of_comment(text: str, start: int) -> int:
    depth = 0
    for edge in _COMMENT_EDGE.finditer(text, start):
        depth += 1 if edge[0] == "/*" else -1
        if depth == 0:
            return edge.end()
    raise SqlError("the comment /* is never closed", start)


def _check_brackets(tokens: list[Token]) -> None:
    is_open: list[Token] = []
    for token in tokens:
        if token.kind is not TokenKind.SYMBOL:
            continue
        if token.text in _CLOSING:
            is_open.append(token)
        elif token.text in _CLOSING.values() and (not is_open or _CLOSING[is_open.pop().text] != token.text):
            raise SqlError(f"the bracket {token.text} closes nothing", token.offset)
    if is_open:
        raise SqlError(f"the bracket {is_open[-1].text} is never closed", is_open[-1].offset)
