"""What steps do, each as a function from DataFrames to a DataFrame. No session, no action, nothing read or written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from goqueue.errors import Invalid
from goqueue.spark.pipelines.compile.functions import function_of
from goqueue.spark.pipelines.spec.model import (
    Aggregate,
    Deduplicate,
    JoinKind,
    JoinTransform,
    PythonTransform,
    Watermark,
    Window,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

_JOINS: Final = {JoinKind.SEMI: "left_semi", JoinKind.ANTI: "left_anti", JoinKind.FULL: "full_outer"}


def call_function(transform: PythonTransform, inputs: Sequence[DataFrame], step: str) -> DataFrame:
    """Call the function of a step with its inputs."""
    from pyspark.sql import DataFrame

    made = function_of(transform.function)(*inputs)
    if not isinstance(made, DataFrame):
        raise Invalid(
            f"the function of step {step} returns a {type(made).__name__}, and not a DataFrame",
            hint="return what its last call returned",
        )
    return made


def joined(how: JoinTransform, left: DataFrame, right: DataFrame, names: Sequence[str]) -> DataFrame:
    """Join two inputs; a condition calls them by their names."""
    kind = _JOINS.get(how.kind, how.kind.value)
    if how.columns:
        return left.join(right, list(how.columns), kind)
    return left.alias(names[0]).join(right.alias(names[-1]), F.expr(how.condition), kind)


def with_watermark(rows: DataFrame, mark: Watermark) -> DataFrame:
    """Set how late rows may come."""
    return rows.withWatermark(mark.column, f"{mark.delay_ms} milliseconds")


def deduplicated(rows: DataFrame, by: Deduplicate, *, has_watermark: bool) -> DataFrame:
    """Keep the first of rows that are the same; behind a watermark, of those within its delay."""
    if has_watermark and rows.isStreaming:
        return rows.dropDuplicatesWithinWatermark(list(by.columns))
    return rows.dropDuplicates(list(by.columns))


def aggregated(rows: DataFrame, how: Aggregate) -> DataFrame:
    """Make one row per group."""
    groups = [F.col(column) for column in how.group_by]
    if how.window is not None:
        groups.insert(0, _window(how.window).alias("window"))
    computed = [F.expr(expression).alias(name) for name, expression in how.columns.items()]
    return rows.groupBy(*groups).agg(*computed)


def _window(window: Window) -> Column:
    if window.gap_ms:
        return F.session_window(window.column, f"{window.gap_ms} milliseconds")
    return F.window(window.column, f"{window.size_ms} milliseconds", f"{window.slide_ms} milliseconds")
