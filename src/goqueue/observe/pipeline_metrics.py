"""Metrics of pipelines: the last reports of their runs.

The speed and the lag of a pipeline are shown only while it runs. At most 1,000 pipelines are known, and at most 1,000
queries and 1,000 pairs of query and rule have series of their own; queries beyond that are only counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from goqueue.broker.broker import Broker
from goqueue.broker.runs import seen_pipelines
from goqueue.machines.runs.values import QueryProgress

QUERIES_MAX = 1000
RULES_MAX = 1000


class QueryRow(NamedTuple):
    """A query of a pipeline."""

    pipeline: str
    progress: QueryProgress
    is_running: bool


class RuleRow(NamedTuple):
    """How many rows have broken a rule in a query of a pipeline."""

    labels: tuple[str, str, str]
    rows: int


@dataclass(frozen=True, slots=True)
class PipelineSnapshot:
    """All pipelines, as they were at one moment."""

    up: Sequence[tuple[str, bool]]
    restarts: Sequence[tuple[str, int]]
    queries: Sequence[QueryRow]
    rules: Sequence[RuleRow]
    warnings: Sequence[RuleRow]
    queries_omitted: int


def look_at_pipelines(broker: Broker) -> PipelineSnapshot:
    """Return the snapshot."""
    found = seen_pipelines(broker.runs)
    queries = [QueryRow(view.name, each, view.is_running) for view in found for each in view.report.queries]
    told = queries[:QUERIES_MAX]
    return PipelineSnapshot(
        up=[(view.name, view.is_running) for view in found],
        restarts=[(view.name, view.report.restarts) for view in found],
        queries=told,
        rules=_by_rule(told, lambda progress: progress.bad_rows),
        warnings=_by_rule(told, lambda progress: progress.warned_rows),
        queries_omitted=len(queries) - len(told),
    )


def _by_rule(rows: Sequence[QueryRow], counts: Callable[[QueryProgress], Mapping[str, int]]) -> list[RuleRow]:
    found = (
        RuleRow((row.pipeline, row.progress.name, rule), count)
        for row in rows
        for rule, count in sorted(counts(row.progress).items())
    )
    return list(islice(found, RULES_MAX))
