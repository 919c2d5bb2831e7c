"""From a pipeline to DataFrames: plans that Spark carries out later. Nothing here starts anything.

What a query needs is compiled for that query alone, so that each has its own group at the broker and its own counts:

    compile_rows       what a sink writes: its input, and whatever that reads
    compile_letters    the dead letters of the whole pipeline

Only the latter carries whole messages from the sources to the rules; all others read just the columns that they use.
Steps are views of the session, under their names: every pipeline needs a session of its own (`newSession`, which
shares everything else).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, assert_never

from goqueue.errors import Invalid
from goqueue.spark.pipelines.checks.graph import upstream
from goqueue.spark.pipelines.checks.nondeterminism import MOVE_HINT, WHY
from goqueue.spark.pipelines.compile.dead_letters import MESSAGE_COLUMN
from goqueue.spark.pipelines.compile.decode import Decoder, decode
from goqueue.spark.pipelines.compile.expectations import Observe, judge
from goqueue.spark.pipelines.compile.nondeterminism import chance_of
from goqueue.spark.pipelines.compile.sources import Ground, read_files, read_messages
from goqueue.spark.pipelines.compile.steps import aggregated, call_function, deduplicated, joined, with_watermark
from goqueue.spark.pipelines.spec.model import (
    FileSource,
    JoinTransform,
    PipelineSpec,
    PythonTransform,
    Sink,
    Source,
    SqlTransform,
    Step,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True, slots=True)
class _Table:
    """A source or step: its rows, maybe with their messages beside them, and its dead letters, if it can have any."""

    rows: DataFrame
    dead: DataFrame | None = None
    has_watermark: bool = False


def compile_rows(spec: PipelineSpec, sink: Sink, ground: Ground, observe: Observe) -> DataFrame:
    """Return what a sink is to write."""
    tables = _tables(spec, [sink.input], ground, observe, is_whole=False)
    return tables[sink.input].rows


def compile_letters(spec: PipelineSpec, ground: Ground) -> DataFrame | None:
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
    """Refuse letters that could be others than the rows which the sinks leave out; see `check_chance`."""
    reads = _reads(spec)
    for step in spec.steps:
        if step.name not in tables:
            continue
        behind = next((name for name in dying if step.name in upstream(reads, reads[name])), None)
        looked_at = tables[step.name].rows if behind else tables[step.name].dead
        if looked_at is not None and (chance := chance_of(looked_at)):
            raise Invalid(
                f"step {step.name} depends on {chance}, and step {behind or step.name} makes dead letters behind that: "
                f"{WHY}",
                hint=MOVE_HINT,
            )


def _count_nothing(rows: DataFrame, name: str, counted: Mapping[str, Column]) -> DataFrame:
    del name, counted
    return rows


def _tables(
    spec: PipelineSpec, wanted: Sequence[str], ground: Ground, observe: Observe, *, is_whole: bool
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


def _source(spec: PipelineSpec, source: Source, ground: Ground, observe: Observe, *, is_whole: bool) -> _Table:
    if isinstance(source, FileSource):
        return _Table(read_files(source, ground))
    messages = read_messages(source, ground, is_whole=is_whole)
    decoded = decode(messages, source.decode, Decoder(spec.name, source.name, observe))
    return _Table(decoded.kept, decoded.dead)


def _step(spec: PipelineSpec, step: Step, tables: Mapping[str, _Table], ground: Ground, observe: Observe) -> _Table:
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


def _transformed(step: Step, inputs: Sequence[_Table], ground: Ground) -> DataFrame:
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
