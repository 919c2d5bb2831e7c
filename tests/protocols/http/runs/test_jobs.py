"""Jobs by HTTP: runs report, and clients list them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from goqueue.client import Client, JobReport, jobs
from goqueue.errors import UnknownJob
from goqueue.testing import Broker
from tests.protocols.http.expect import refused

SAID: dict[str, Any] = {
    "verb": "replay",
    "name": "orders-to-refunds",
    "state": "running",
    "started_at": "2026-01-31T10:00:00Z",
    "description": "topic orders to topic refunds",
    "master": "local[2]",
    "offsets_done": 500,
    "offsets": 2_000,
    "read": 499,
    "written": 20,
    "rows_per_second": 250.5,
    "error": None,
}


def test_report_of_a_run_is_shown(http: httpx.Client, new_name: Callable[[], str]) -> None:
    job = new_name()
    assert http.post(f"/jobs/{job}/report", json=SAID).status_code == 204
    found = http.get(f"/jobs/{job}").json()
    assert {name: found[name] for name in SAID} == SAID
    assert (found["id"], found["is_running"]) == (job, True)
    assert 0 <= found["silent_seconds"] < 10
    listed = next(each for each in http.get("/v1/jobs").json()["jobs"] if each["id"] == job)
    assert listed | {"silent_seconds": 0} == found | {"silent_seconds": 0}
    assert http.post(f"/jobs/{job}/report", json=SAID | {"state": "done"}).status_code == 204
    found = http.get(f"/jobs/{job}").json()
    assert (found["state"], found["is_running"], found["rows_per_second"]) == ("done", False, 0.0)


def test_invalid_report_is_refused(http: httpx.Client, new_name: Callable[[], str]) -> None:
    job = new_name()
    refused(http.get(f"/jobs/{job}"), 404, "unknown_job")
    for wrong in ({"state": "ended"}, {"read": -1}, {"speed": 1}, {"verb": ""}, {"started_at": "2026-01-31T10:00:00"}):
        refused(http.post(f"/jobs/{job}/report", json=SAID | wrong), 400, "malformed_request")
    for moment in ("9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59", "1969-12-31T23:59:59Z"):
        refused(http.post(f"/jobs/{job}/report", json=SAID | {"started_at": moment}), 400, "invalid")
    refused(http.post("/jobs/a%20b/report", json=SAID), 400, "invalid")
    refused(http.get(f"/jobs/{job}"), 404, "unknown_job")


def test_the_client_reports_and_looks(goqueue_session_broker: Broker, new_name: Callable[[], str]) -> None:
    job = new_name()
    with Client(goqueue_session_broker.http) as client:
        client.send(jobs.report(job, JobReport(**SAID | {"name": "n" * 300, "error": "e" * 5_000})))
        found = client.send(jobs.describe(job))
        assert (len(found.name), len(found.error or ""), found.written) == (200, 4_000, 20)
        assert any(each == found or each.id == job for each in client.send(jobs.list_all()))
        with pytest.raises(UnknownJob):
            client.send(jobs.describe("nobody"))
