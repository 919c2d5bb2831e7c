"""Names in an Avro schema: types are defined once, with a name, and referred to by it from then on.

A name without dots is in the namespace of what it stands in. A type that is used inside of its own definition would
nest without end, so it is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from goqueue.errors import Invalid
from goqueue.model.units import quoted


class Names:
    """The types that were defined so far."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Mapping[str, Any], str]] = {}
        self._open: list[str] = []

    @contextmanager
    def defined(self, written: Mapping[str, Any], space: str, path: tuple[str, ...]) -> Iterator[str]:
        """Note a definition, and return the namespace inside of it."""
        name = written.get("name")
        if not isinstance(name, str) or not name:
            raise wrong(path, f"is a {written['type']} without a name")
        full = full_name(name, written.get("namespace") or space)
        known = self._known.get(full)
        if known is not None and known[0] is not written:
            raise wrong(path, f"defines {full}, which is defined before")
        inside = full.rpartition(".")[0]
        self._known[full] = (written, space)
        self._open.append(full)
        yield inside
        self._open.pop()

    def find(self, name: str, space: str, path: tuple[str, ...]) -> tuple[Mapping[str, Any], str]:
        """Return the definition of a name, and the namespace that it stands in."""
        full = full_name(name, space)
        if full not in self._known:
            raise wrong(path, f"is of the type {quoted(name)}, which is not defined before")
        if full in self._open:
            raise wrong(path, f"is a {full} inside of a {full}: a column cannot nest without end")
        return self._known[full]


def full_name(name: str, space: str | None) -> str:
    """Return a name with its namespace."""
    return name if "." in name or not space else f"{space}.{name}"


def wrong(path: tuple[str, ...], what: str, hint: str = "") -> Invalid:
    """Return what is wrong with a schema, and in which field."""
    where = f"field {'.'.join(path)}" if path else "the record"
    return Invalid(f"Avro schema: {where} {what}", hint=hint or "correct the schema")
