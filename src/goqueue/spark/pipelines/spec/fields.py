"""Reads the keys of one mapping: unknown keys and malformed values are mistakes.

Every reader returns something of the right type even then, so that reading goes on and all mistakes are found at
once. A value that is only there to go on never gets out: a file with an error makes no pipeline.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePath
from typing import TypeVar

from goqueue.errors import Invalid
from goqueue.model.units import parse_duration_ms, quoted
from goqueue.spark.pipelines.spec.nodes import ListNode, MappingNode, Node, Notes, ScalarNode, SourceLocation
from goqueue.spark.sql.query import check_expression
from goqueue.spark.sql.tokens import SqlError
from goqueue.spark.suggestions import nearest, suggestion

E = TypeVar("E", bound=StrEnum)

_TRUE_FALSE = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


@dataclass(frozen=True, slots=True)
class Reference:
    """A name that something reads, and where it says so."""

    name: str
    place: SourceLocation


class MappingReader:
    """A mapping that is read key by key; `what` names it in messages."""

    def __init__(self, node: Node, what: str, notes: Notes, *, directory: PurePath) -> None:
        self.what = what
        self.place = node.place
        self.notes = notes
        self.directory = directory
        self._values: dict[str, Node] = {}
        self._keys: dict[str, ScalarNode] = {}
        self._known: list[str] = []
        if isinstance(node, MappingNode):
            self._values = {entry.key.text: entry.value for entry in node.entries}
            self._keys = {entry.key.text: entry.key for entry in node.entries}
        else:
            notes.error(node.place, f"{what} has to be a mapping of keys and values, not {kind_of(node)}")
            self.notes = Notes()  # nothing that is missing besides would be news

    def has(self, name: str) -> bool:
        """Tell whether a key is there."""
        return name in self._keys

    def key_place(self, name: str) -> SourceLocation:
        """Return where a key stands, or else where the mapping begins."""
        return self._keys[name].place if name in self._keys else self.place

    def node(self, name: str) -> Node | None:
        """Return the value of a key, which is known from now on."""
        if name not in self._known:
            self._known.append(name)
        return self._values.get(name)

    def among(self, names: list[str], *, is_needed: bool = True) -> str:
        """Return which one of some keys is there; more than one, or none if one `is_needed`, is a mistake."""
        self._known.extend(names)
        there = [name for name in self._keys if name in names]
        for other in there[1:]:
            self.notes.error(
                self.key_place(other), f"{self.what} has both {there[0]} and {other}", "it can have one of them"
            )
        if not there and is_needed:
            self._miss_one_of(names)
        return there[0] if there else ""

    def _miss_one_of(self, names: list[str]) -> None:
        for name, key in self._keys.items():
            if near := nearest(name, names):
                self.notes.error(key.place, f"{self.what} has no key {quoted(name)}", f"did you mean {near}?")
                return
        self.notes.error(self.place, f"{self.what} does not say what it is", f"add one of {', '.join(names)}")

    def scalar(self, name: str) -> ScalarNode | None:
        """Return a text that is not empty, or None."""
        node = self.node(name)
        if node is None:
            return None
        if not isinstance(node, ScalarNode):
            self.notes.error(node.place, f"{name} of {self.what} has to be a text, not {kind_of(node)}")
            return None
        if node.is_null or not node.text.strip():
            self.notes.error(node.place, f"{name} of {self.what} is empty")
            return None
        return node

    def text(self, name: str, default: str = "") -> str:
        """Return a text."""
        scalar = self.scalar(name)
        return scalar.text if scalar else default

    def needed(self, name: str, example: str) -> ScalarNode:
        """Return a text that has to be there."""
        if not self.has(name):
            self.node(name)
            self.notes.error(self.place, f"{self.what} has no {name}", f"add {name}: {example}")
        return self.scalar(name) or ScalarNode(self.place, "")

    def path(self, name: str) -> str:
        """Return a path; a relative one is relative to the file."""
        text = self.text(name)
        return text if not text or "://" in text else str(self.directory / text)

    def choice(self, name: str, default: E) -> E:
        """Return one of the values that the default's type has."""
        scalar = self.scalar(name)
        return as_choice(scalar, f"{name} of {self.what}", default, self.notes) if scalar else default

    def duration_ms(self, name: str, default: int = 0) -> int:
        """Return a duration of at least a millisecond."""
        scalar = self.scalar(name)
        return as_duration_ms(scalar, f"{name} of {self.what}", self.notes) if scalar else default

    def whole(self, name: str, default: int) -> int:
        """Return a whole number of at least 1."""
        scalar = self.scalar(name)
        if scalar is None:
            return default
        digits = scalar.text.replace("_", "")
        if digits.isascii() and digits.isdecimal() and len(digits) < 16 and int(digits) > 0:
            return int(digits)
        self.notes.error(scalar.place, f"{name} of {self.what} is {quoted(scalar.text)}, not a whole number above 0")
        return default

    def switch(self, name: str) -> bool:
        """Return true or false; false if it is not there."""
        scalar = self.scalar(name)
        if scalar is None:
            return False
        if scalar.text.lower() not in _TRUE_FALSE:
            self.notes.error(scalar.place, f"{name} of {self.what} is {quoted(scalar.text)}, not true or false")
        return _TRUE_FALSE.get(scalar.text.lower(), False)

    def scalars(self, name: str) -> list[ScalarNode]:
        """Return a list of texts; a single text stands for a list of one."""
        node = self.node(name)
        if not isinstance(node, ListNode):
            scalar = self.scalar(name)
            return [scalar] if scalar else []
        if not node.items:
            self.notes.error(node.place, f"{name} of {self.what} is empty")
        found: dict[str, ScalarNode] = {}
        for item in node.items:
            if not isinstance(item, ScalarNode) or not item.text.strip():
                self.notes.error(item.place, f"{name} of {self.what} has to be a list of texts")
            elif item.text in found:
                self.notes.error(item.place, f"{name} of {self.what} has {item.text} twice")
            else:
                found[item.text] = item
        return list(found.values())

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts without their places."""
        return tuple(scalar.text for scalar in self.scalars(name))

    def references(self, name: str) -> tuple[Reference, ...]:
        """Return names of sources or steps."""
        return tuple(Reference(scalar.text, scalar.place) for scalar in self.scalars(name))

    def pairs(self, name: str) -> Iterator[tuple[ScalarNode, ScalarNode]]:
        """Yield the keys and texts of a mapping of texts."""
        node = self.node(name)
        if node is None:
            return
        if not isinstance(node, MappingNode) or not node.entries:
            self.notes.error(node.place, f"{name} of {self.what} has to be a mapping of names to texts")
            return
        for entry in node.entries:
            what = f"{entry.key.text} in {name} of {self.what}"
            if not isinstance(entry.value, ScalarNode):
                self.notes.error(entry.value.place, f"{what} has to be a text, not {kind_of(entry.value)}")
            elif entry.value.is_null or not entry.value.text.strip():
                self.notes.error(entry.value.place, f"{what} is empty")
            else:
                yield entry.key, entry.value

    def conditions(self, name: str) -> Iterator[tuple[str, str]]:
        """Yield names with SQL expressions in which everything is closed."""
        for key, value in self.pairs(name):
            check_sql(value, f"{key.text} in {name} of {self.what}", self.notes)
            yield key.text, value.text

    def inner(self, name: str) -> MappingReader | None:
        """Return a mapping inside of this one."""
        node = self.node(name)
        what = f"{name} of {self.what}"
        return None if node is None else MappingReader(node, what, self.notes, directory=self.directory)

    def finish(self) -> None:
        """Note every unknown key."""
        for name, key in self._keys.items():
            if name not in self._known:
                self.notes.error(key.place, f"{self.what} has no key {quoted(name)}", suggestion(name, self._known))


def kind_of(node: Node) -> str:
    """Return in words what a node is."""
    if isinstance(node, ScalarNode):
        return "nothing" if node.is_null else "a text"
    return "a mapping" if isinstance(node, MappingNode) else "a list"


def as_choice(scalar: ScalarNode, what: str, default: E, notes: Notes) -> E:
    """Return one of the values that the default's type has."""
    known = [member.value for member in type(default)]
    if scalar.text in known:
        return type(default)(scalar.text)
    notes.error(scalar.place, f"{what} cannot be {quoted(scalar.text)}", suggestion(scalar.text, known))
    return default


def as_duration_ms(scalar: ScalarNode, what: str, notes: Notes) -> int:
    """Return a duration of at least a millisecond; what is no duration counts as one of them."""
    try:
        # A bare number could be seconds as well as anything else.
        duration_ms = 0 if scalar.text.isdecimal() else parse_duration_ms(scalar.text)
    except Invalid:
        duration_ms = 0
    if duration_ms:
        return duration_ms
    notes.error(scalar.place, f"{what} is {quoted(scalar.text)}, which is no duration", "write 500ms, 30s, 5m, 1h, 7d")
    return 1


def check_sql(scalar: ScalarNode, what: str, notes: Notes) -> None:
    """Note what is left open in an SQL expression."""
    try:
        check_expression(scalar.text)
    except SqlError as error:
        notes.error(scalar.at(error.offset), f"{what}: {error.message}")
