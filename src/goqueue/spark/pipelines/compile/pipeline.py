"""Compiles a pipeline to DataFrames. Nothing here starts a query.

Each query is compiled separately, so that it has its own group at the broker and its own counts:

    compile_rows       what a sink writes: its input, and whatever that reads
    compile_letters    the dead letters of the whole pipeline

Only the latter carries whole messages from the sources to the rules; all others read just the columns that they use.
Steps are views of the session, under their names: every pipeline needs a session of its own (`newSession`, which
shares everything else).

The functions of steps map DataFrames to a DataFrame, without a session, actions or I/O.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Final, assert_never

from pyspark.sql import functions as F  # noqa: N812 - its usual name

from goqueue.errors import Invalid
from goqueue.spark.pipelines.checks.nondeterminism import MOVE_HINT, WHY
from goqueue.spark.pipelines.compile.dead_letters import MESSAGE_COLUMN
from goqueue.spark.pipelines.compile.decode import Decoder, decode
from goqueue.spark.pipelines.compile.expectations import Observe, judge
from goqueue.spark.pipelines.compile.nondeterminism import nondeterminism_of
from goqueue.spark.pipelines.compile.sources import QueryContext, read_files, read_messages
from goqueue.spark.pipelines.graph import upstream
from goqueue.spark.pipelines.spec.functions import function_of
from goqueue.spark.pipelines.spec.model import (
    Aggregate,
    Deduplicate,
    FileSource,
    JoinKind,
    JoinTransform,
    PipelineSpec,
    PipelineStep,
    PythonTransform,
    Sink,
    Source,
    SqlTransform,
    TimeWindow,
    Watermark,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame


_JOINS: Final = {JoinKind.SEMI: "left_semi", JoinKind.ANTI: "left_anti", JoinKind.FULL: "full_outer"}


@dataclass(frozen=True, slots=True)
class _Table:
    """A source or step: its rows, maybe with their messages beside them, and its dead letters, if it can have any."""

    rows: DataFrame
    dead: DataFrame | None = None
    has_watermark: bool = False


def compile_rows(spec: PipelineSpec, sink: Sink, ground: QueryContext, observe: Observe) -> DataFrame:
    """Return what a sink is to write."""
    tables = _tables(spec, [sink.input], ground, observe, is_whole=False)
    return tables[sink.input].rows


def compile_dead_letters(spec: PipelineSpec, ground: QueryContext) -> DataFrame | None:
    """Return the dead letters of all parts, None if no part makes any; Invalid if they depend on time or chance."""
    dying = spec.dead_letter_parts
    if not dying:
        return None
    tables = _tables(spec, dying, ground, _count_nothing, is_whole=True)
    _require_sameness(spec, dying, tables)
    found = {name: dead for name in dying if (dead := tables[name].dead) is not None}
    streams = {name for name, dead in found.items() if dead.isStreaming}
    if streams and len(streams) < len(found):
        still = ", ".join(sorted(found.keys() - streams))
        raise Invalid(
            f"pipeline {spec.name} reads streams, but {still} would make dead letters of a table, at every start anew",
            hint="use expect_or_drop there, or check the table in a pipeline of its own",
        )
    return reduce(lambda first, second: first.unionByName(second), found.values()) if found else None


def _require_sameness(spec: PipelineSpec, dying: Sequence[str], tables: Mapping[str, _Table]) -> None:
    """Refuse letters that could be others than the rows which the sinks leave out; see `check_nondeterminism`."""
    reads = _reads(spec)
    for step in spec.steps:
        if step.name not in tables:
            continue
        behind = next((name for name in dying if step.name in upstream(reads, reads[name])), None)
        looked_at = tables[step.name].rows if behind else tables[step.name].dead
        if looked_at is not None and (chance := nondeterminism_of(looked_at)):
            raise Invalid(
                f"step {step.name} depends on {chance}, and step {behind or step.name} makes dead letters after it: "
                f"{WHY}",
                hint=MOVE_HINT,
            )


def _count_nothing(rows: DataFrame, name: str, counted: Mapping[str, Column]) -> DataFrame:
    del name, counted
    return rows


def _tables(
    spec: PipelineSpec, wanted: Sequence[str], ground: QueryContext, observe: Observe, *, is_whole: bool
) -> dict[str, _Table]:
    """Return tables by name: what is wanted, and everything that it reads."""
    needed = upstream(_reads(spec), wanted)
    tables: dict[str, _Table] = {}
    for source in spec.sources:
        if source.name in needed:
            tables[source.name] = _source(spec, source, ground, observe, is_whole=is_whole)
    for step in spec.steps:
        if step.name in needed:
            tables[step.name] = _step(spec, step, tables, ground, observe)
    return tables


def _reads(spec: PipelineSpec) -> dict[str, Sequence[str]]:
    """Return what each part reads."""
    reads: dict[str, Sequence[str]] = {source.name: () for source in spec.sources}
    return reads | {step.name: step.inputs for step in spec.steps}


def _source(spec: PipelineSpec, source: Source, ground: QueryContext, observe: Observe, *, is_whole: bool) -> _Table:
    if isinstance(source, FileSource):
        return _Table(read_files(source, ground))
    messages = read_messages(source, ground, is_whole=is_whole)
    decoded = decode(messages, source.decode, Decoder(spec.name, source.name, observe))
    return _Table(decoded.kept, decoded.dead)


def _step(
    spec: PipelineSpec, step: PipelineStep, tables: Mapping[str, _Table], ground: QueryContext, observe: Observe
) -> _Table:
    """Do what a step has, in the order of the model."""
    inputs = [tables[name] for name in step.inputs]
    rows = _transformed(step, inputs, ground)
    judged = judge(rows, step.expectations, pipeline=spec.name, step=step.name, observe=observe)
    made = _Table(judged.kept, judged.dead, has_watermark=any(each.has_watermark for each in inputs))
    if step.watermark is not None:
        made = replace(made, rows=with_watermark(made.rows, step.watermark), has_watermark=True)
    if step.deduplicate is not None:
        unique = deduplicated(made.rows, step.deduplicate, has_watermark=made.has_watermark)
        made = replace(made, rows=unique)
    if step.aggregate is not None:
        made = replace(made, rows=aggregated(made.rows, step.aggregate))
    return made


def _transformed(step: PipelineStep, inputs: Sequence[_Table], ground: QueryContext) -> DataFrame:
    if step.transform is None:
        # The only way on which a row stays the message that it was.
        return inputs[0].rows
    plain = [each.rows.drop(MESSAGE_COLUMN) for each in inputs]
    match step.transform:
        case SqlTransform(text):
            for name, rows in zip(step.inputs, plain, strict=True):
                rows.createOrReplaceTempView(name)
            return ground.session.sql(text)
        case PythonTransform():
            return call_function(step.transform, plain, step.name)
        case JoinTransform():
            return joined(step.transform, plain[0], plain[-1], step.inputs)
        case _:
            assert_never(step.transform)


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
    """Keep the first of equal rows; with a watermark, compare only rows within its delay."""
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


def _window(window: TimeWindow) -> Column:
    if window.gap_ms:
        return F.session_window(window.column, f"{window.gap_ms} milliseconds")
    return F.window(window.column, f"{window.size_ms} milliseconds", f"{window.slide_ms} milliseconds")
