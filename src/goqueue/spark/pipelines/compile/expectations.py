"""Expectations: rules that rows should keep, and what becomes of those that break them.

All rules of a step look at the same rows, so a row is counted by each rule that it breaks. A rule that is neither true
nor false, since a column is NULL, is broken. Of a row that breaks several rules the gravest decides: it is a dead
letter if any rule says so, else it is dropped if any says so, else it is kept.

A query asks each rule once for a row, and keeps the verdicts beside it: so what is counted is what is dropped, also if
a rule draws lots. The letters are made by another query, whose rules must not (`check_nondeterminism`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - its usual name

from goqueue.spark.pipelines.compile.dead_letters import DeadRowCause, DeadRowReason, dead_letters_of
from goqueue.spark.pipelines.render.describe import one_line
from goqueue.spark.pipelines.run.progress import RULES_PREFIX, WARNINGS_PREFIX
from goqueue.spark.pipelines.spec.model import Action, Expectation

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_VERDICTS: Final = "__goqueue_verdicts"
"""Beside the columns of a row, for each rule of a step whether it is broken."""

Observe = Callable[["DataFrame", str, Mapping[str, "Column"]], "DataFrame"]
"""Counts something about the rows that pass, under the name of a metric and those of what is counted."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The rows that go on, and those that are dead, as letters; None if no rule makes any."""

    kept: DataFrame
    dead: DataFrame | None


def judge(rows: DataFrame, rules: Sequence[Expectation], *, pipeline: str, step: str, observe: Observe) -> Judged:
    """Count the rows that break rules, and tell those that go on from those that do not."""
    if not rules:
        return Judged(rows, None)
    judged = rows.withColumn(_VERDICTS, F.array(*map(_is_broken, rules)))
    verdicts = [F.col(_VERDICTS)[index] for index in range(len(rules))]
    counted = judged
    for prefix, is_warning in ((RULES_PREFIX, False), (WARNINGS_PREFIX, True)):
        counts = {
            rule.name: F.count_if(broken)
            for rule, broken in zip(rules, verdicts, strict=True)
            if (rule.action is Action.KEEP) == is_warning
        }
        counted = observe(counted, f"{prefix}{step}", counts) if counts else counted
    leaving = [broken for rule, broken in zip(rules, verdicts, strict=True) if rule.action is not Action.KEEP]
    kept = counted.where(~reduce(or_, leaving)) if leaving else counted
    deadly = [rule for rule in rules if rule.action is Action.DLQ]
    dead = _letters(rows, deadly, pipeline, step) if deadly else None
    return Judged(kept.drop(_VERDICTS), dead)


def _letters(rows: DataFrame, rules: Sequence[Expectation], pipeline: str, step: str) -> DataFrame:
    dead = rows.where(reduce(or_, map(_is_broken, rules)))
    cause = DeadRowCause(
        DeadRowReason.BROKEN_RULE,
        pipeline,
        step,
        error=F.concat_ws(
            "; ",
            *(F.when(_is_broken(rule), F.lit(f"{rule.name} is broken: {one_line(rule.condition)}")) for rule in rules),
        ),
        rules=F.concat_ws(",", *(F.when(_is_broken(rule), F.lit(rule.name)) for rule in rules)),
    )
    return dead_letters_of(dead, cause)


def _is_broken(rule: Expectation) -> Column:
    return ~F.coalesce(F.expr(rule.condition), F.lit(False))  # noqa: FBT003 - a value in a column
