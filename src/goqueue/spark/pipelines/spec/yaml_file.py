"""YAML as nodes that know their line and column.

Only PyYAML's composer is used: it builds a tree of texts and no objects, whatever tags a file has. Refused are tags,
merge keys, more than one document, keys that are no texts or are there twice, anchors that contain themselves, and
trees of more than `NODES_MAX` nodes, which a few lines of aliases could make.

Environment variables in the values of a pipeline file.

| written            | stands for                                              |
|--------------------|---------------------------------------------------------|
| `${NAME}`          | the variable; a mistake if there is none                |
| `${NAME:-default}` | the variable, or the default if there is none or it is empty |
| `$${NAME}`         | `${NAME}`, as it is                                     |

Everything else with a dollar sign is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import yaml

from goqueue.spark.pipelines.spec.nodes import (
    ListNode,
    MappingEntry,
    MappingNode,
    Node,
    Notes,
    ScalarNode,
    SourceLocation,
)

NODES_MAX = 10_000
TEXT_CHARACTERS_MAX = 1024 * 1024

_START = SourceLocation(1, 1)
_USUAL_TAGS = {f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "float", "bool", "null", "timestamp", "value")}
_NULL = "tag:yaml.org,2002:null"
_MERGE = "tag:yaml.org,2002:merge"
_COLLECTION_TAGS = {"tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"}

_VARIABLE = re.compile(r"(\$?)\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


class _TooMuchError(Exception):
    """The tree has too many nodes."""


def read_yaml(text: str, environ: Mapping[str, str], notes: Notes) -> Node | None:
    """Return the tree of a YAML text; None if there is none, which is noted like every other mistake."""
    if len(text) > TEXT_CHARACTERS_MAX:
        notes.error(_START, f"the file has more than {TEXT_CHARACTERS_MAX:,} characters")
        return None
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        if root is None:
            notes.error(_START, "the file is empty", "`goqueue pipeline init` writes a pipeline to begin with")
            return None
        return _Reader(text.splitlines(), environ, notes).node(root)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = SourceLocation(mark.line + 1, mark.column + 1) if mark else _START
        notes.error(place, f"this is no YAML: {_reason(error)}", _hint(error, text, place))
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        place = SourceLocation(before.count("\n") + 1, error.position - before.rfind("\n"))
        notes.error(place, f"this is no YAML: the character {text[error.position : error.position + 1]!a}")
    except ValueError as error:
        # PyYAML lets some through, such as that of a character escape beyond the last character.
        notes.error(_START, f"this is no YAML: {error}")
    except RecursionError:
        notes.error(_START, "the file nests too deeply")
    except _TooMuchError:
        notes.error(_START, f"the file has more than {NODES_MAX:,} nodes", "aliases count as what they stand for")
    return None


def _reason(error: yaml.MarkedYAMLError) -> str:
    return " ".join(part for part in (error.context, error.problem) if part)


def _hint(error: yaml.MarkedYAMLError, text: str, place: SourceLocation) -> str:
    lines = text.splitlines()
    line = lines[place.line - 1] if place.line <= len(lines) else ""
    if "\t" in line[: place.column] or "'\\t'" in str(error.problem):
        return "YAML indents with spaces, never with tabs"
    if "mapping values are not allowed" in str(error.problem):
        return 'put quotes around a value that has ": " in it'
    return ""


class _Reader:
    """Turns composed nodes into ours."""

    def __init__(self, lines: Sequence[str], environ: Mapping[str, str], notes: Notes) -> None:
        self._lines = lines
        self._environ = environ
        self._notes = notes
        self._open: set[int] = set()
        self._count = 0

    def node(self, node: yaml.Node) -> Node | None:
        self._count += 1
        if self._count > NODES_MAX:
            raise _TooMuchError
        place = _place(node.start_mark)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, place)
        if node.tag not in _COLLECTION_TAGS:
            self._notes.error(place, f"the tag {node.tag} has no meaning here", "leave it out")
        if id(node) in self._open:
            self._notes.error(place, "this anchor contains itself")
            return None
        self._open.add(id(node))
        made: Node
        if isinstance(node, yaml.MappingNode):
            made = MappingNode(place, tuple(self._entries(node)))
        else:
            made = ListNode(place, tuple(item for item in map(self.node, node.value) if item is not None))
        self._open.discard(id(node))
        return made

    def _entries(self, node: yaml.MappingNode) -> Iterator[MappingEntry]:
        seen: dict[str, SourceLocation] = {}
        for key, value in node.value:
            place = _place(key.start_mark)
            inner = self.node(value)
            if not isinstance(key, yaml.ScalarNode):
                self._notes.error(place, "a key has to be a text")
            elif key.tag == _MERGE:
                self._notes.error(place, "merge keys (<<) are not used here", "write the keys out")
            elif key.value in seen:
                self._notes.error(place, f"{key.value} is there twice", f"first in line {seen[key.value].line}")
            else:
                seen[key.value] = place
                if inner is not None:
                    yield MappingEntry(ScalarNode(place, key.value, _lines_of(key, self._lines)), inner)

    def _scalar(self, node: yaml.ScalarNode, place: SourceLocation) -> ScalarNode:
        if node.tag not in _USUAL_TAGS:
            self._notes.error(place, f"the tag {node.tag} has no meaning here", "leave it out")
        scalar = ScalarNode(place, node.value, _lines_of(node, self._lines), is_null=node.tag == _NULL)
        return filled_in(scalar, self._environ, self._notes)


def _place(mark: yaml.Mark) -> SourceLocation:
    return SourceLocation(mark.line + 1, mark.column + 1)


def _lines_of(node: yaml.ScalarNode, lines: Sequence[str]) -> tuple[SourceLocation, ...]:
    """Return where the lines of a scalar begin if the file has them literally; else nothing."""
    start = node.start_mark
    if node.style == "|":
        return _block_lines(node.value.splitlines(), lines, start.line + 1)
    column = start.column + (1 if node.style in {"'", '"'} else 0)
    line = lines[start.line] if start.line < len(lines) else ""
    if line[column : column + len(node.value)] == node.value and "\n" not in node.value:
        return (SourceLocation(start.line + 1, column + 1),)
    return ()


def _block_lines(values: Sequence[str], lines: Sequence[str], first: int) -> tuple[SourceLocation, ...]:
    raw = lines[first : first + len(values)]
    indents = {len(line) - len(value) for line, value in zip(raw, values, strict=False) if value}
    if len(raw) < len(values) or len(indents) != 1:
        return ()
    (indent,) = indents
    if any(value and line[indent:] != value for line, value in zip(raw, values, strict=True)):
        return ()
    return tuple(SourceLocation(first + number + 1, indent + 1) for number in range(len(values)))


def filled_in(scalar: ScalarNode, environ: Mapping[str, str], notes: Notes) -> ScalarNode:
    """Return a text with its variables filled in; what is missing is noted."""

    def fill(match: re.Match[str]) -> str:
        escape, name, default = match.groups()
        if escape:
            return match[0][1:]
        value = environ.get(name)
        if value or (value is not None and default is None):
            return value
        if default is not None:
            return default
        notes.error(
            scalar.at(match.start()),
            f"the environment variable {name} is not set",
            f"set it, or write ${{{name}:-default}}",
        )
        return match[0]

    text = _VARIABLE.sub(fill, scalar.text)
    # Once a variable is filled in, the text is not that of the file any more.
    return scalar if text == scalar.text else replace(scalar, text=text, lines=())
