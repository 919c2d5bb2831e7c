"""Metrics of pipelines: what is told agrees with what was reported, and within bounds."""

from __future__ import annotations

import httpx

from goqueue.client import Client, PipelineReport, QueryProgress, pipelines
from goqueue.observe.pipeline_metrics import QUERIES_MAX, RULES_MAX
from goqueue.testing import Broker
from tests.unit.observe.test_metrics import scrape, value

STARTED = "2026-01-31T10:00:00Z"
LAKE = QueryProgress(
    name="lake",
    rows=70,
    rows_per_second=12.5,
    batch_seconds=0.5,
    lag=40,
    bad_rows={"has_id": 3, "late": 0},
    warned_rows={"small": 6},
)


def report(client: Client, name: str, *queries: QueryProgress, state: str = "running", restarts: int = 0) -> None:
    said = PipelineReport(run_id="a", state=state, started_at=STARTED, queries=queries, restarts=restarts)
    client.send(pipelines.report(name, said))


def test_what_runs_report_is_told_by_query_and_rule() -> None:
    with Broker() as broker, Client(broker.http) as client:
        assert value(scrape(broker), "goqueue_pipeline_queries_omitted") == 0
        report(client, "orders", LAKE, QueryProgress(name="dead letters"), restarts=2)
        found = scrape(broker)
        labels = {"pipeline": "orders", "query": "lake"}
        assert value(found, "goqueue_pipeline_up", pipeline="orders") == 1
        assert value(found, "goqueue_pipeline_restarts_total", pipeline="orders") == 2
        assert value(found, "goqueue_pipeline_rows_total", **labels) == 70
        assert value(found, "goqueue_pipeline_rows_per_second", **labels) == 12.5
        assert value(found, "goqueue_pipeline_lag_messages", **labels) == 40
        assert value(found, "goqueue_pipeline_batch_seconds", **labels) == 0.5
        assert value(found, "goqueue_pipeline_bad_rows_total", **labels, rule="has_id") == 3
        assert value(found, "goqueue_pipeline_bad_rows_total", **labels, rule="late") == 0
        assert value(found, "goqueue_pipeline_warned_rows_total", **labels, rule="small") == 6
        told = {name for name, pairs in found if ("query", "dead letters") in pairs}
        assert told == {"goqueue_pipeline_rows_total", "goqueue_pipeline_rows_per_second"}, "null is no number"


def test_a_pipeline_that_does_not_run_has_no_speed_and_is_not_behind() -> None:
    with Broker() as broker, Client(broker.http) as client:
        report(client, "orders", LAKE)
        broker.advance(10)
        report(client, "clicks", LAKE, state="ended")
        found = scrape(broker)
        for name in ("orders", "clicks"):
            assert value(found, "goqueue_pipeline_up", pipeline=name) == 0
            assert value(found, "goqueue_pipeline_rows_total", pipeline=name, query="lake") == 70
        assert not any(name.endswith(("_lag_messages", "_rows_per_second", "_batch_seconds")) for name, _ in found)


def test_the_number_of_series_is_bounded() -> None:
    with Broker() as broker, Client(broker.http) as client:
        for number in range(11):
            rules = {f"rule {each}": 1 for each in range(50)}
            queries = [QueryProgress(name=f"query {each}", bad_rows=rules) for each in range(100)]
            report(client, f"p{number}", *queries)
        found = scrape(broker)
        assert value(found, "goqueue_pipeline_queries_omitted") == 1_100 - QUERIES_MAX
        assert sum(name == "goqueue_pipeline_rows_total" for name, _ in found) == QUERIES_MAX
        assert sum(name == "goqueue_pipeline_bad_rows_total" for name, _ in found) == RULES_MAX


def test_names_of_any_kind_can_be_told() -> None:
    with Broker() as broker, Client(broker.http) as client:
        name = 'a "quoted"\n{name}, \\ and ü'
        report(client, "orders", QueryProgress(name=name, bad_rows={name: 5}))
        found = scrape(broker)
        assert value(found, "goqueue_pipeline_bad_rows_total", pipeline="orders", query=name, rule=name) == 5
        text = httpx.get(f"{broker.http}/metrics", headers={"accept": "application/openmetrics-text"}).text
        assert text.endswith("# EOF\n")
