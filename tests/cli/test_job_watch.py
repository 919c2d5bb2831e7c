"""`goqueue job list` and `describe`: through the command, against a real broker and runs that report."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from goqueue.client import Client, JobReport, jobs, topics
from goqueue.testing.broker import Broker
from tests.cli.command import Command

REPLAY = JobReport(
    verb="replay",
    name="orders-to-refunds",
    state="running",
    started_at="2026-01-31T10:00:00Z",
    description="topic orders to topic refunds",
    master="local[2]",
    offsets_done=1_999,
    offsets=2_000,
    read=1_990,
    written=20,
    rows_per_second=250.5,
)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


def test_runs_of_jobs_are_listed_and_described(broker: Broker) -> None:
    goqueue = Command(broker.http)
    assert "no job has reported" in goqueue("job", "list").stderr
    with Client(broker.http) as client:
        client.send(jobs.report("replay-1", REPLAY))
        failed = JobReport(
            verb="archive", name="orders", state="failed", started_at="2026-01-30T10:00:00Z", error="a\nb"
        )
        client.send(jobs.report("archive-1", failed))
    header, _, first, second = goqueue.done("job", "list").splitlines()
    assert header.split()[:4] == ["id", "job", "state", "done"]
    assert first.split()[:8] == ["replay-1", "replay", "orders-to-refunds", "running", "99%", "1,990", "20", "250"]
    assert second.split()[:7] == ["archive-1", "archive", "orders", "failed", "-", "0", "0"]
    described = goqueue.done("job", "describe", "replay-1")
    assert described.startswith("replay orders-to-refunds\n")
    assert "topic orders to topic refunds" in described
    assert "a b" in goqueue.done("job", "describe", "archive-1")
    row = json.loads(goqueue.done("job", "describe", "replay-1", "--format", "json"))
    assert (row["kind"], row["verb"], row["id"], row["is_running"]) == ("job", "replay", "replay-1", True)
    assert "there is no job with the id 'nobody'" in goqueue.refused("job", "describe", "nobody")


def test_an_archive_job_is_seen_whether_it_ends_well_or_not(broker: Broker, tmp_path: Path) -> None:
    goqueue = Command(broker.http)
    arguments = ("job", "archive", "orders", tmp_path / "a", "--broker", broker.bootstrap)
    goqueue.refused(*arguments)
    with Client(broker.http) as client:
        client.send(topics.create("orders"))
        goqueue.done(*arguments)
        first, second = sorted(client.send(jobs.list_all()), key=lambda job: job.started_at)
    assert (first.state, first.error) == ("failed", "there is no topic 'orders'")
    assert (second.state, second.error, second.offsets) == ("done", None, 0)
    assert {(job.verb, job.name, job.description) for job in (first, second)} == {
        ("archive", "orders", f"topic orders to {tmp_path}/a")
    }
