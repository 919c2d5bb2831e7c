"""Pipelines by HTTP: runs report and get the desired state; clients list and stop them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import msgspec
import pytest

from goqueue.client import Client, PipelineReport, QueryProgress, pipelines
from goqueue.errors import PipelineRunning, UnknownPipeline
from goqueue.testing import Broker
from tests.protocols.http.expect import refused

STARTED = "2026-01-31T10:00:00Z"
QUERY: dict[str, Any] = {
    "name": "lake",
    "query_id": "1b2c",
    "batch": 7,
    "rows": 1_000,
    "rows_per_second": 250.5,
    "batch_seconds": 1.25,
    "lag": 40,
    "state_rows": 12,
    "state_bytes": 4_096,
    "watermark": "2026-01-31T09:59:00.000Z",
    "bad_rows": {"has_id": 3, "plausible": 2},
    "warned_rows": {"small": 4},
    "updated_at": "2026-01-31T10:05:00Z",
}


def body(run_id: str = "a", state: str = "running", **more: Any) -> dict[str, Any]:
    return {"run_id": run_id, "state": state, "started_at": STARTED, **more}


def report(http: httpx.Client, name: str, *said: str, **more: Any) -> str:
    """Report, which succeeds; return what is wished."""
    reply = http.post(f"/pipelines/{name}/report", json=body(*said, **more))
    assert reply.status_code == 200, reply.text
    assert set(reply.json()) == {"wish"}
    return str(reply.json()["wish"])


def test_report_of_a_run_is_shown(http: httpx.Client, new_name: Callable[[], str]) -> None:
    name = new_name()
    plan = {"parts": [{"id": "source:orders", "reads": []}]}
    said = {"master": "local[2]", "trigger": "5s", "description": "Orders", "restarts": 1, "error": "it broke"}
    other = {"name": "dead letters", "rows": 5, "bad_rows": {"has_id": 1}}
    assert report(http, name, queries=[QUERY, other], plan=plan, **said) == "run"
    found = http.get(f"/pipelines/{name}").json()
    assert found["queries"][0] == QUERY
    assert (found["queries"][1]["batch"], found["queries"][1]["lag"]) == (None, None)
    assert found["plan"] == plan
    assert {key: found[key] for key in said} == said
    assert (found["name"], found["run_id"], found["started_at"]) == (name, "a", STARTED)
    assert (found["state"], found["is_running"], found["wish"]) == ("running", True, "run")
    assert 0 <= found["silent_seconds"] < 10
    (summary,) = [each for each in http.get("/pipelines").json()["pipelines"] if each["name"] == name]
    expected = {"queries": 2, "rows": 1_005, "rows_per_second": 250.5, "lag": 40, "bad_rows": 6, "warned_rows": 4}
    assert {key: summary[key] for key in expected} == expected
    report(http, name)
    assert http.get(f"/pipelines/{name}").json()["plan"] == plan, "it need not be sent each time"


def test_a_pipeline_is_stopped_by_wish(http: httpx.Client, new_name: Callable[[], str]) -> None:
    name = new_name()
    report(http, name)
    reply = http.post(f"/pipelines/{name}/stop", json={})
    assert reply.json() == {"name": name, "run_id": "a", "state": "running", "is_running": True}
    assert report(http, name) == "stop"
    assert http.get(f"/pipelines/{name}").json()["wish"] == "stop"
    assert report(http, name, "a", "ended") == "stop"
    assert http.post(f"/pipelines/{name}/stop", json={}).json()["is_running"] is False
    assert report(http, name, "b", "starting") == "run"


def test_two_runs_of_one_pipeline_do_not_run_at_the_same_time(http: httpx.Client, new_name: Callable[[], str]) -> None:
    name = new_name()
    report(http, name, master="spark://here:7077")
    problem = refused(http.post(f"/pipelines/{name}/report", json=body("b")), 409, "pipeline_running")
    assert "run 'a' on spark://here:7077" in problem["detail"]
    assert f"goqueue pipeline stop {name}" in problem["hint"]
    report(http, name, "a", "failed", error="no more")
    assert report(http, name, "b") == "run"


def test_only_what_does_not_run_is_forgotten(http: httpx.Client, new_name: Callable[[], str]) -> None:
    name = new_name()
    report(http, name)
    refused(http.delete(f"/pipelines/{name}"), 409, "pipeline_running")
    report(http, name, "a", "ended")
    assert http.delete(f"/pipelines/{name}").status_code == 204
    for reply in (
        http.get(f"/pipelines/{name}"),
        http.post(f"/pipelines/{name}/stop", json={}),
        http.delete(f"/pipelines/{name}"),
    ):
        refused(reply, 404, "unknown_pipeline")


def test_a_silent_run_is_lost_and_its_place_is_free() -> None:
    with Broker() as broker, httpx.Client(base_url=broker.http) as http:
        report(http, "orders", queries=[QUERY])
        broker.advance(10)
        (seen,) = http.get("/pipelines").json()["pipelines"]
        assert (seen["state"], seen["is_running"], seen["rows_per_second"]) == ("lost", False, 0)
        assert seen["silent_seconds"] >= 10
        assert http.post("/pipelines/orders/stop", json={}).json()["state"] == "lost"
        assert report(http, "orders", "b") == "run"
        refused(http.post("/pipelines/orders/report", json=body("a")), 409, "pipeline_running")
        broker.advance(3_600)
        assert http.get("/pipelines").json() == {"pipelines": []}


def test_after_a_start_of_the_broker_the_next_report_brings_a_pipeline_back() -> None:
    with Broker() as broker:
        with httpx.Client(base_url=broker.http) as http:
            report(http, "orders")
        broker.restart()
        with httpx.Client(base_url=broker.http) as http:
            assert http.get("/pipelines").json() == {"pipelines": []}
            assert report(http, "orders") == "run"
            assert http.get("/pipelines/orders").json()["state"] == "running"


@pytest.mark.parametrize(
    "wrong",
    [
        {"state": "lost"},
        {"run_id": ""},
        {"started_at": "2026-01-31T10:00:00"},
        {"started_at": "yesterday"},
        {"error": "x" * 4_001},
        {"restarts": -1},
        {"queries": [{"rows": 1}]},
        {"queries": [{**QUERY, "speed": 5}]},
        {"queries": [{"name": f"q{number}"} for number in range(101)]},
        {"queries": [{"name": "q", "bad_rows": {f"r{number}": 1 for number in range(101)}}]},
        {"queries": [{"name": "q", "rows": 2**63}]},
        {"queries": [{"name": "q", "rows_per_second": 1e300}]},
        {"more": 1},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_a_report_of_another_shape_is_refused(http: httpx.Client, wrong: dict[str, Any]) -> None:
    refused(http.post("/pipelines/shapes/report", json=body() | wrong), 400, "malformed_request")
    refused(http.get("/pipelines/shapes"), 404, "unknown_pipeline")


def test_report_that_is_too_large_is_refused(http: httpx.Client) -> None:
    refused(http.post("/pipelines/a b/report", json=body()), 400, "invalid")
    refused(http.post("/pipelines/.x/report", json=body()), 400, "invalid")
    refused(http.post(f"/pipelines/{'x' * 101}/report", json=body()), 400, "invalid")
    twice = [{"name": "q"}, {"name": "q"}]
    refused(http.post("/pipelines/twice/report", json=body(queries=twice)), 400, "invalid")
    refused(http.post("/pipelines/large/report", json=body(plan="x" * 256 * 1024)), 400, "invalid")
    assert report(http, "large", plan="x" * (256 * 1024 - 2)) == "run"


def test_the_client_has_a_call_for_each_of_these(broker: Broker, new_name: Callable[[], str]) -> None:
    name = new_name()
    query = QueryProgress(name="lake", rows=5, bad_rows={"has_id": 1}, lag=3)
    said = PipelineReport(run_id="a", state="running", started_at=STARTED, queries=(query,), plan=[1, "x"])
    with Client(broker.http) as client:
        assert not client.send(pipelines.report(name, said)).is_stop
        with pytest.raises(PipelineRunning):
            client.send(pipelines.report(name, PipelineReport(run_id="b", state="running", started_at=STARTED)))
        found = client.send(pipelines.describe(name))
        assert (found.queries, found.plan, found.started_at) == ((query,), [1, "x"], STARTED)
        (summary,) = [each for each in client.send(pipelines.list_all()) if each.name == name]
        assert (summary.rows, summary.lag, summary.bad_rows) == (5, 3, 1)
        assert client.send(pipelines.stop(name)).is_running
        assert client.send(pipelines.report(name, said)).is_stop
        client.send(pipelines.report(name, PipelineReport(run_id="a", state="ended", started_at=STARTED)))
        client.send(pipelines.forget(name))
        with pytest.raises(UnknownPipeline):
            client.send(pipelines.describe(name))


def test_the_client_says_no_more_than_the_broker_takes(broker: Broker, new_name: Callable[[], str]) -> None:
    name, text = new_name(), "x" * 10_000
    said = PipelineReport(
        run_id="a", state="running", started_at=STARTED, error=text, description=text, master=text, trigger=text
    )
    with Client(broker.http) as client:
        client.send(pipelines.report(name, msgspec.structs.replace(said, plan=["x" * 256 * 1024])))
        found = client.send(pipelines.describe(name))
        assert {found.error, found.description, found.master, found.trigger} == {"x" * 4_000}
        assert found.plan is None
