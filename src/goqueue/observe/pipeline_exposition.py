"""Pipelines in the words of Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from goqueue.observe.pipeline_metrics import PipelineSnapshot

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
        "goqueue_pipeline_bad_rows", "Rows that have broken a rule in the run.", labels=(*_LABELS, "rule")
    )
    for labels, rows in snapshot.rules:
        bad_rows.add_metric(labels, rows)
    yield bad_rows
    warned_rows = CounterMetricFamily(
        "goqueue_pipeline_warned_rows",
        "Rows that have broken a rule in the run, and went on.",
        labels=(*_LABELS, "rule"),
    )
    for labels, rows in snapshot.warnings:
        warned_rows.add_metric(labels, rows)
    yield warned_rows


def _queries(snapshot: PipelineSnapshot) -> Iterator[Metric]:
    rows = CounterMetricFamily("goqueue_pipeline_rows", "Rows that a query has read in the run.", labels=_LABELS)
    speed = GaugeMetricFamily(
        "goqueue_pipeline_rows_per_second", "How many rows a query works off in a second.", labels=_LABELS
    )
    lag = GaugeMetricFamily("goqueue_pipeline_lag_messages", "How many messages a query has not read.", labels=_LABELS)
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
