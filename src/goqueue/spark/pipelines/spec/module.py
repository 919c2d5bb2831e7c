"""Pipelines written in Python: the same keys as in a file, with functions where SQL is not enough.

    from goqueue.spark.pipelines import Pipeline

    pipeline = Pipeline("orders", trigger="5s")
    pipeline.source("orders", topic="orders", decode={"format": "json", "schema": "id STRING, amount DOUBLE"})

    @pipeline.step(expect_or_dlq={"positive_amount": "amount > 0"})
    def taxed(orders: DataFrame) -> DataFrame:
        return orders.withColumn("tax", orders.amount * 0.19)

    pipeline.sink("lake", inputs="taxed", parquet="out/orders")

A step that is a function reads the sources and steps that its parameters name, unless `inputs` says otherwise; so it is
tested by calling it. Calls are only recorded: the parser of files checks them all together, and its mistakes name the
line of the call.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import PurePath
from typing import Any, TypeVar, overload

from goqueue.spark.pipelines.spec.nodes import (
    ListNode,
    MappingEntry,
    MappingNode,
    Node,
    Notes,
    ScalarNode,
    SourceLocation,
)

F = TypeVar("F", bound=Callable[..., Any])

Setting = str | int | float | bool | datetime | timedelta | PurePath | Sequence["Setting"] | Mapping[str, "Setting"]
"""The value of a key; a timedelta is a duration."""


class Pipeline:
    """A pipeline in the making; the keys of all calls are those of pipeline files, with `inputs` for `from`."""

    def __init__(self, name: str, **settings: Setting) -> None:
        self._place = _place_of_caller()
        self._settings: dict[str, Setting] = {"pipeline": name, **settings}
        self._sections: dict[str, list[MappingEntry]] = {"sources": [], "steps": [], "sinks": []}

    def source(self, name: str, **settings: Setting) -> None:
        """Read from somewhere: `pipeline.source("orders", topic="orders", decode=...)`."""
        self._add("sources", name, settings, _place_of_caller())

    def sql(self, name: str, query: str, **settings: Setting) -> None:
        """Add a step that is a query over sources and steps."""
        self._add("steps", name, {"sql": query, **settings}, _place_of_caller())

    def apply(self, name: str, *, inputs: str, **settings: Setting) -> None:
        """Add a step that needs no function: expectations, a watermark, a join, deduplication, an aggregation."""
        self._add("steps", name, {"inputs": inputs, **settings}, _place_of_caller())

    @overload
    def step(self, function: F, /) -> F: ...

    @overload
    def step(self, *, name: str = "", **settings: Setting) -> Callable[[F], F]: ...

    def step(self, *functions: Any, name: str = "", **settings: Any) -> Any:
        """Make a step of a function from DataFrames to a DataFrame, which stays the function that it is."""

        def decorate(decorated: F) -> F:
            self._add_function(decorated, name, settings)
            return decorated

        # Without brackets, `@pipeline.step`, the function comes at once.
        return decorate(functions[0]) if functions else decorate

    def sink(self, name: str, *, inputs: str, **settings: Setting) -> None:
        """Write a source or step to somewhere: `pipeline.sink("lake", inputs="orders", parquet="out/orders")`."""
        self._add("sinks", name, {"inputs": inputs, **settings}, _place_of_caller())

    def foreach_batch(self, *, inputs: str, name: str = "", **settings: Setting) -> Callable[[F], F]:
        """Make a sink of a function that is called with each batch, as a DataFrame, and its number."""

        def decorate(function: F) -> F:
            place = _place_of(function)
            target = MappingEntry(ScalarNode(place, "foreach_batch"), _function_node(function, place))
            self._add("sinks", name or function.__name__, {"inputs": inputs, **settings}, place, target)
            return function

        return decorate

    def tree(self, notes: Notes) -> MappingNode:
        """Return what was called as the nodes that a file would have."""
        entries = [_entry(key, setting, self._place, notes) for key, setting in self._settings.items()]
        for section, parts in self._sections.items():
            for number, part in enumerate(parts):
                if any(part.key.text == other.key.text for other in parts[:number]):
                    notes.error(part.key.place, f"{part.key.text} is there twice in the {section}")
            if parts:
                place = parts[0].key.place
                entries.append(MappingEntry(ScalarNode(place, section), MappingNode(place, tuple(parts))))
        return MappingNode(self._place, tuple(entries))

    def _add_function(self, function: Callable[..., Any], name: str, settings: Mapping[str, Setting]) -> None:
        place = _place_of(function)
        inputs = {} if "inputs" in settings else {"inputs": list(inspect.signature(function).parameters)}
        target = MappingEntry(ScalarNode(place, "python"), _function_node(function, place))
        self._add("steps", name or function.__name__, {**inputs, **settings}, place, target)

    def _add(
        self, section: str, name: str, settings: Mapping[str, Setting], place: SourceLocation, *more: MappingEntry
    ) -> None:
        renamed = {"from" if key == "inputs" else key: setting for key, setting in settings.items()}
        notes = Notes()
        entries = [_entry(key, setting, place, notes) for key, setting in renamed.items()]
        if notes.mistakes:
            raise TypeError(notes.mistakes[0].message)
        self._sections[section].append(MappingEntry(ScalarNode(place, name), MappingNode(place, (*more, *entries))))


def _place_of_caller() -> SourceLocation:
    """Return the line that calls a method of ours."""
    return SourceLocation(sys._getframe(2).f_lineno, 1)


def _place_of(function: Callable[..., Any]) -> SourceLocation:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return SourceLocation(code.co_firstlineno if code else 1, 1)


def _function_node(function: Callable[..., Any], place: SourceLocation) -> ScalarNode:
    return ScalarNode(place, getattr(function, "__name__", "function"), target=function)


def _entry(key: str, setting: Setting, place: SourceLocation, notes: Notes) -> MappingEntry:
    return MappingEntry(ScalarNode(place, key), _node(key, setting, place, notes))


def _node(key: str, setting: object, place: SourceLocation, notes: Notes) -> Node:
    match setting:
        case bool():
            return ScalarNode(place, "true" if setting else "false")
        case str() | int() | float() | PurePath():
            return ScalarNode(place, str(setting))
        case datetime():
            return ScalarNode(place, setting.isoformat())
        case timedelta():
            return ScalarNode(place, f"{setting // timedelta(milliseconds=1)}ms")
        case Mapping():
            return MappingNode(place, tuple(_entry(str(name), inner, place, notes) for name, inner in setting.items()))
        case Sequence():
            return ListNode(place, tuple(_node(key, inner, place, notes) for inner in setting))
    notes.error(place, f"{key} cannot be a {type(setting).__name__}")
    return ScalarNode(place, "", is_null=True)
