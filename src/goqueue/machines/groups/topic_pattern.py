"""Patterns over names of topics, matched in linear time.

Members bring patterns, and clients are believed nothing: a matcher that tries one way after another can be kept busy
for years by twenty characters. So a pattern becomes an automaton of *positions*, the places of the pattern at which
one character is taken. A set of positions is an int with a bit for each; position 0 is the start. Which set a
character leads to is remembered, so that many names cost little. Internal topics are never matched.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple, assert_never
from weakref import WeakValueDictionary

from goqueue.errors import InvalidPattern
from goqueue.machines.groups.topic_pattern_syntax import Branch, Chars, Choice, Node, Repeat, parse_pattern
from goqueue.model.topic import is_internal

_POSITIONS_MAX = 1000
_STEPS_MAX = 20_000
_MOVES_REMEMBERED = 2_000


@lru_cache(maxsize=32)
def topic_pattern(text: str) -> TopicPattern:
    """Return the pattern that a text stands for; InvalidPattern if it is none.

    A pattern that somebody keeps is not compiled again.
    """
    found = _kept.get(text)
    if found is None:
        found = _kept[text] = TopicPattern(text)
    return found


class TopicPattern:
    """A pattern that was understood."""

    def __init__(self, text: str) -> None:
        automaton = _Automaton()
        whole = automaton.build(parse_pattern(text))
        self._chars = automaton.chars
        self._follow = automaton.follow
        self._follow[0] = whole.first
        self._last = whole.last | int(whole.is_empty)
        self._moves: dict[tuple[int, str], int] = {}

    def matches(self, name: str) -> bool:
        """Tell whether the topic of that name is meant."""
        if is_internal(name):
            return False
        places = 1
        for char in name:
            known = self._moves.get((places, char))
            places = self._move(places, char) if known is None else known
            if not places:
                return False
        return bool(places & self._last)

    def _move(self, places: int, char: str) -> int:
        following = 0
        for position in _bits(places):
            following |= self._follow[position]
        reached = following & self._chars.get(char, 0)
        if len(self._moves) >= _MOVES_REMEMBERED:
            self._moves.clear()
        self._moves[places, char] = reached
        return reached


_kept: WeakValueDictionary[str, TopicPattern] = WeakValueDictionary()


class _Piece(NamedTuple):
    """A part of an automaton: can it be passed without a character, and at which positions does it begin and end."""

    is_empty: bool
    first: int
    last: int


_NOTHING = _Piece(is_empty=True, first=0, last=0)


class _Automaton:
    """Positions: `follow` has what can come next to each of them, `chars` where each character is taken."""

    def __init__(self) -> None:
        self.follow = [0]
        self.chars: dict[str, int] = {}
        self._steps = 0

    def build(self, node: Node) -> _Piece:
        self._steps += 1
        if self._steps > _STEPS_MAX or len(self.follow) > _POSITIONS_MAX:
            raise InvalidPattern("the pattern is too large", hint="use * and + rather than large counts")
        match node:
            case Chars(chars):
                return self._position(chars)
            case Branch(parts):
                piece = _NOTHING
                for part in parts:
                    piece = self._joined(piece, self.build(part))
                return piece
            case Choice(branches):
                piece = self.build(branches[0])
                for branch in branches[1:]:
                    other = self.build(branch)
                    piece = _Piece(piece.is_empty or other.is_empty, piece.first | other.first, piece.last | other.last)
                return piece
            case Repeat(inner, least, most):
                return self._repeated(inner, least, most)
            case _:
                assert_never(node)

    def _position(self, chars: frozenset[str]) -> _Piece:
        bit = 1 << len(self.follow)
        self.follow.append(0)
        for char in chars:
            self.chars[char] = self.chars.get(char, 0) | bit
        return _Piece(is_empty=False, first=bit, last=bit)

    def _joined(self, left: _Piece, right: _Piece) -> _Piece:
        for position in _bits(left.last):
            self.follow[position] |= right.first
        return _Piece(
            left.is_empty and right.is_empty,
            left.first | right.first if left.is_empty else left.first,
            left.last | right.last if right.is_empty else right.last,
        )

    def _repeated(self, node: Node, least: int, most: int | None) -> _Piece:
        """Build as many copies as have to be there, and behind them what may be there."""
        piece = _NOTHING
        if most is None:
            piece = self.build(node)
            self._joined(piece, piece)
            piece = piece._replace(is_empty=True)
        else:
            for _ in range(most - least):
                piece = self._joined(self.build(node), piece)._replace(is_empty=True)
        for _ in range(least):
            piece = self._joined(self.build(node), piece)
        return piece


def _bits(places: int) -> Iterator[int]:
    while places:
        lowest = places & -places
        yield lowest.bit_length() - 1
        places ^= lowest
