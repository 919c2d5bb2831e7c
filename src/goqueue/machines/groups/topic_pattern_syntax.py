r"""How patterns over names of topics are written, and how they are read into a tree.

    pattern = branch *( "|" branch )
    branch  = *( atom [ ( "*" | "+" | "?" | "{n}" | "{n,}" | "{n,m}" ) [ "?" ] ] )
    atom    = character | "." | "\" escape | "[" [ "^" ] class "]" | "(" pattern ")"

This is RE2's language without what means nothing for names of topics. A pattern has to match the whole name, so `^` and
`$` are allowed at the ends, be it in brackets (clients put them there), and say nothing. `(?i)` in front ignores case.
There are neither back references nor looking around.
"""

from __future__ import annotations

import re
import string
from typing import NamedTuple

from goqueue.errors import InvalidPattern

PATTERN_MAX = 1000
"""Characters of a pattern."""

_DEPTH_MAX = 50

_ALPHABET = frozenset(string.ascii_letters + string.digits + "._-")
_ESCAPES = {
    "d": frozenset(string.digits),
    "w": frozenset(string.ascii_letters + string.digits + "_"),
    "s": frozenset[str](),
}
_ESCAPES |= {name.upper(): _ALPHABET - chars for name, chars in _ESCAPES.items()}
_GROUP_START = re.compile(r"\((?:\?:|\?P?<\w+>|(?!\?))")
_REPETITION = re.compile(r"([*+?]|\{(\d{1,4})(?:(,)(\d{0,4}))?\})\??")
_SIMPLE = {"*": (0, None), "+": (1, None), "?": (0, 1)}


class Chars(NamedTuple):
    """One of these characters."""

    chars: frozenset[str]


class Branch(NamedTuple):
    """One part after another."""

    parts: list[Node]


class Choice(NamedTuple):
    """One of these."""

    branches: list[Node]


class Repeat(NamedTuple):
    """The same, at least and at most so many times."""

    node: Node
    least: int
    most: int | None


Node = Chars | Branch | Choice | Repeat


def parse_pattern(text: str) -> Node:
    """Return the tree of a pattern; InvalidPattern if it is none."""
    return _Parser(text).parse()


class _Parser:
    """Reads a pattern from left to right."""

    def __init__(self, text: str) -> None:
        if len(text) > PATTERN_MAX:
            raise InvalidPattern(f"the pattern has {len(text)} characters", hint=f"at most {PATTERN_MAX}")
        self._ignores_case = text.startswith("(?i)")
        self._text = text
        self._at = 4 if self._ignores_case else 0
        self._depth = 0
        # What was read last is anchored at the start, or at the end of the name.
        self._is_first = False
        self._is_last = False

    def parse(self) -> Node:
        node = self._choice(is_at_start=True)
        if self._at < len(self._text):
            raise self._refusal("a ) closes nothing")
        return node

    def _choice(self, *, is_at_start: bool) -> Node:
        branches: list[Node] = []
        is_first = is_last = False
        while not branches or self._takes("|"):
            branches.append(self._branch(is_at_start=is_at_start))
            is_first, is_last = is_first or self._is_first, is_last or self._is_last
        self._is_first, self._is_last = is_first, is_last
        return Choice(branches)

    def _branch(self, *, is_at_start: bool) -> Node:
        parts: list[Node] = []
        is_first = is_at_start and self._takes("^")
        self._is_first = self._is_last = False
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            if self._is_last:
                raise self._refusal("$ is not at the end")
            if self._takes("$"):
                self._is_last = True
                continue
            parts.append(self._repeat(self._atom(is_at_start=is_at_start and not parts)))
            is_first |= self._is_first
        self._is_first = is_first
        return Branch(parts)

    def _repeat(self, node: Node) -> Node:
        found = _REPETITION.match(self._text, self._at)
        if found is None:
            return node
        if self._is_first or self._is_last:
            raise self._refusal("what begins or ends a name cannot be repeated")
        self._at = found.end()
        if _REPETITION.match(self._text, self._at):
            raise self._refusal("a repetition is repeated")
        sign, least, comma, most = found.groups()
        if sign in _SIMPLE:
            return Repeat(node, *_SIMPLE[sign])
        at_most = None if comma and not most else int(most or least)
        if at_most is not None and at_most < int(least):
            raise self._refusal(f"{sign} has its bounds the wrong way round")
        return Repeat(node, int(least), at_most)

    def _atom(self, *, is_at_start: bool) -> Node:
        char = self._text[self._at]
        if char == "(":
            return self._group(is_at_start=is_at_start)
        self._is_first = False
        if char in "*+?^$":
            raise self._refusal(f"{char} is out of place")
        if char == "[":
            return self._class()
        return self._chars(self._single())

    def _group(self, *, is_at_start: bool) -> Node:
        start = _GROUP_START.match(self._text, self._at)
        if start is None:
            raise self._refusal("(? begins something that is not supported")
        self._at = start.end()
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise self._refusal(f"more than {_DEPTH_MAX} brackets are open")
        node = self._choice(is_at_start=is_at_start)
        if not self._takes(")"):
            raise self._refusal("a ) is missing")
        self._depth -= 1
        return node

    def _class(self) -> Node:
        self._at += 1
        is_negated = self._takes("^")
        chars: frozenset[str] = frozenset()
        is_first = True
        while is_first or not self._takes("]"):
            if self._at >= len(self._text):
                raise self._refusal("a ] is missing")
            chars |= self._range()
            is_first = False
        inside = self._chars(chars).chars
        return Chars(_ALPHABET - inside) if is_negated else Chars(inside)

    def _range(self) -> frozenset[str]:
        """Take a member of a class: a character, two of them with a - between, or an escape."""
        if self._text.startswith("[:", self._at):
            raise self._refusal("[: begins a class that is not supported")
        low = self._single(is_in_class=True)
        has_end = self._text[self._at : self._at + 1] == "-" and self._text[self._at + 1 : self._at + 2] not in {
            "",
            "]",
        }
        if not has_end:
            return low
        self._at += 1
        high = self._single(is_in_class=True)
        if len(low) != 1 or len(high) != 1 or min(low) > min(high):
            raise self._refusal("a range in brackets goes from a lower character to a higher one")
        return frozenset(char for char in _ALPHABET if min(low) <= char <= min(high))

    def _single(self, *, is_in_class: bool = False) -> frozenset[str]:
        """Take a character, or an escape."""
        char = self._text[self._at]
        self._at += 1
        if char == "." and not is_in_class:
            return _ALPHABET
        if char != "\\":
            return frozenset(char)
        escaped = self._text[self._at : self._at + 1]
        self._at += 1
        if escaped in _ESCAPES:
            return _ESCAPES[escaped]
        if not escaped or escaped.isalnum():
            raise self._refusal(f"\\{escaped} is not supported")
        return frozenset(escaped)

    def _chars(self, chars: frozenset[str]) -> Chars:
        return Chars(chars | {char.swapcase() for char in chars}) if self._ignores_case else Chars(chars)

    def _takes(self, char: str) -> bool:
        is_next = self._text.startswith(char, self._at)
        self._at += is_next
        return is_next

    def _refusal(self, what: str) -> InvalidPattern:
        shown = self._text if len(self._text) <= 60 else self._text[:60] + "..."
        return InvalidPattern(f"the pattern {shown!r} cannot be read at character {self._at}: {what}")
