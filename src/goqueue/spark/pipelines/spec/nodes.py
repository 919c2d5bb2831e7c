"""The syntax tree of a pipeline file: texts, mappings and lists with their locations.

YAML files and Python modules are both turned into these, so there is one parser and one kind of mistake. Texts stay
texts: what is a number or a duration is decided by the key that holds it, so `no` is never taken for a boolean.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


@dataclass(frozen=True, slots=True, order=True)
class SourceLocation:
    """A line and a column of a file, both counted from 1."""

    line: int
    column: int


class MistakeSeverity(StrEnum):
    """Whether a pipeline can run all the same."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Mistake:
    """Something wrong in a file: where, what, and what to do about it."""

    place: SourceLocation
    message: str
    hint: str = ""
    severity: MistakeSeverity = MistakeSeverity.ERROR


@dataclass(frozen=True, slots=True)
class ScalarNode:
    """A text; `lines` has where each of its lines begins, if the file has them as they are.

    In a Python module it may stand for a function, which is then its `target`.
    """

    place: SourceLocation
    text: str
    lines: tuple[SourceLocation, ...] = ()
    is_null: bool = False
    target: Callable[..., Any] | None = None

    def at(self, offset: int) -> SourceLocation:
        """Return where a character of the text stands, or else where the text begins."""
        before = self.text[:offset]
        number = before.count("\n")
        if number >= len(self.lines):
            return self.place
        start = self.lines[number]
        return SourceLocation(start.line, start.column + offset - (before.rfind("\n") + 1))


@dataclass(frozen=True, slots=True)
class MappingEntry:
    """A key with its value."""

    key: ScalarNode
    value: Node


@dataclass(frozen=True, slots=True)
class MappingNode:
    """Keys with values, in the order of the file; no key is there twice."""

    place: SourceLocation
    entries: tuple[MappingEntry, ...]


@dataclass(frozen=True, slots=True)
class ListNode:
    """A list."""

    place: SourceLocation
    items: tuple[Node, ...]


Node = ScalarNode | MappingNode | ListNode


@dataclass(slots=True)
class Notes:
    """Collects the mistakes of one file."""

    mistakes: list[Mistake] = field(default_factory=list)

    def error(self, place: SourceLocation, message: str, hint: str = "") -> None:
        """Note what keeps the pipeline from running."""
        self.mistakes.append(Mistake(place, message, hint))

    def warning(self, place: SourceLocation, message: str, hint: str = "") -> None:
        """Note what is probably not meant."""
        self.mistakes.append(Mistake(place, message, hint, MistakeSeverity.WARNING))

    def in_order(self) -> tuple[Mistake, ...]:
        """Return each mistake once, in the order of the file."""
        return tuple(sorted(dict.fromkeys(self.mistakes), key=lambda mistake: mistake.place))

    @property
    def has_errors(self) -> bool:
        """Whether the pipeline cannot run."""
        return any(mistake.severity is MistakeSeverity.ERROR for mistake in self.mistakes)
