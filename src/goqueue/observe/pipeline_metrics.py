"""Metrics of pipelines: the last reports of their runs.

The speed and the lag of a pipeline are shown only while it runs. At most 1,000 pipelines are known, and at most 1,000
queries and 1,000 pairs of query and rule have series of their own; queries beyond that are only counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

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


_LABELS = ("pipeline", "query")


def tell_pipelines(snapshot: PipelineSnapshot) -> Iterator[Metric]:
    """Yield all metrics about pipelines."""
    up = GaugeMetricFamily(
        "goqueue_pipeline_up", "1 if a run of the pipeline has reported lately and not ended.", labels=("pipeline",)
    )
    for pipeline, is_up in snapshot.up:
        up.add_metric((pipeline,), is_up)
    yield up
    restarts = CounterMetricFamily(
        "goqueue_pipeline_restarts", "Queries that failed and were started again in the run.", labels=("pipeline",)
    )
    for pipeline, count in snapshot.restarts:
        restarts.add_metric((pipeline,), count)
    yield restarts
    yield GaugeMetricFamily(
        "goqueue_pipeline_queries_omitted",
        "Queries of pipelines that have no series of their own.",
        snapshot.queries_omitted,
    )
    yield from _queries(snapshot)
    bad_rows = CounterMetricFamily(
        "goqueue_pipeline_bad_rows", "Rows that broke a rule in the run.", labels=(*_LABELS, "rule")
    )
    for labels, rows in snapshot.rules:
        bad_rows.add_metric(labels, rows)
    yield bad_rows
    warned_rows = CounterMetricFamily(
        "goqueue_pipeline_warned_rows",
        "Rows that broke a rule in the run, and were kept.",
        labels=(*_LABELS, "rule"),
    )
    for labels, rows in snapshot.warnings:
        warned_rows.add_metric(labels, rows)
    yield warned_rows


def _queries(snapshot: PipelineSnapshot) -> Iterator[Metric]:
    rows = CounterMetricFamily("goqueue_pipeline_rows", "Rows that a query has read in the run.", labels=_LABELS)
    speed = GaugeMetricFamily(
        "goqueue_pipeline_rows_per_second", "Rows that a query processes per second.", labels=_LABELS
    )
    lag = GaugeMetricFamily("goqueue_pipeline_lag_messages", "Messages that a query has not read.", labels=_LABELS)
    took = GaugeMetricFamily(
        "goqueue_pipeline_batch_seconds", "How long the last batch of a query took.", labels=_LABELS
    )
    for pipeline, progress, is_running in snapshot.queries:
        labels = (pipeline, progress.name)
        rows.add_metric(labels, progress.rows)
        if not is_running:
            continue
        speed.add_metric(labels, progress.rows_per_second)
        if progress.lag is not None:
            lag.add_metric(labels, progress.lag)
        if progress.batch_seconds is not None:
            took.add_metric(labels, progress.batch_seconds)
    yield from (rows, speed, lag, took)
