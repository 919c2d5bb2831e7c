"""`goqueue pipeline list`, `describe` and `stop`: through the command, against a real broker and runs that report."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from goqueue.cli.pipelines.watch import stop_pipeline
from goqueue.client import Client, Pipeline, PipelineReport, QueryProgress, pipelines
from goqueue.testing.broker import Broker
from tests.cli.command import Command
from tests.cli.test_topic import completed

STARTED = "2026-01-31T10:00:00Z"
LAKE = QueryProgress(
    name="lake",
    batch=1_207,
    rows=1_234_567,
    rows_per_second=2_500.4,
    batch_seconds=1.25,
    lag=4_000,
    state_rows=1_200,
    state_bytes=3 * 1024 * 1024,
    watermark="2026-01-31T09:59:00.000Z",
    bad_rows={"has_id": 3, "late": 0},
    updated_at=STARTED,
)


@pytest.fixture
def client(goqueue_session_broker: Broker) -> Iterator[Client]:
    with Client(goqueue_session_broker.http) as running:
        yield running


@pytest.fixture
def name(topic: str) -> str:
    """A name of a pipeline that no other test uses."""
    return topic[:100]


def said(state: str = "running", *, run_id: str = "a1b2", error: str | None = None) -> PipelineReport:
    return PipelineReport(
        run_id=run_id,
        state=state,
        started_at=STARTED,
        master="local[2]",
        trigger="every 5s",
        description="Orders of today",
        restarts=1,
        error=error,
        plan=[{"name": "orders"}],
        queries=(LAKE, QueryProgress(name="dead_letters")),
    )


@contextmanager
def reporting(client: Client, name: str, *last: PipelineReport) -> Iterator[None]:
    """Report as a run does for the length of a block, until it is told to stop; then say what comes last."""
    is_over = threading.Event()

    def run() -> None:
        while not is_over.wait(0.05):
            if client.send(pipelines.report(name, said())).is_stop:
                break
        for each in last:
            client.send(pipelines.report(name, each))

    client.send(pipelines.report(name, said()))
    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def test_pipelines_are_listed(goqueue: Command, client: Client, name: str) -> None:
    client.send(pipelines.report(name, said()))
    lines = goqueue.done("pipeline", "list").splitlines()
    assert lines[0].split() == [
        *("pipeline", "state", "rows/s", "lag", "rows", "bad", "rows", "warned", "queries", "restarts"),
        *("last", "report", "trigger", "master"),
    ]
    (line,) = [line.split() for line in lines if line.startswith(f"{name} ")]
    assert line[1:9] == ["running", "2,500", "4,000", "1,234,567", "3", "0", "2", "1"]
    assert line[-3:] == ["every", "5s", "local[2]"]
    (row,) = [row for row in goqueue.rows("pipeline", "list", kind="pipeline") if row["name"] == name]
    assert (row["state"], row["lag"], row["bad_rows"], row["is_running"]) == ("running", 4_000, 3, True)


def test_that_there_are_none_is_said() -> None:
    with Broker() as broker:
        shown = Command(broker.http)("pipeline", "list")
        assert shown.exit_code == 0
        assert "goqueue pipeline run" in shown.stderr


def test_a_pipeline_is_described(goqueue: Command, client: Client, name: str) -> None:
    client.send(pipelines.report(name, said(error="query lake: no such\ncolumn \x1b[31mx")))
    client.send(pipelines.stop(name))
    shown = goqueue.done("pipeline", "describe", name)
    assert shown.startswith(f"pipeline {name}\n")
    for words in (
        "state        running, stop requested",
        "about        Orders of today",
        "run          a1b2",
        "master       local[2]",
        "restarts     1",
        "last error   query lake: no such column [31mx",
    ):
        assert words in shown
    (line,) = [line for line in shown.splitlines() if line.startswith("lake ") and "1,207" in line]
    for words in ("2,500", "4,000", "1.2 s", "1,234,567", "1,200 rows, 3.0 MiB", "2026-01-31T09:59:00.000Z"):
        assert words in line
    assert shown.splitlines()[-1].split() == ["lake", "has_id", "3"], "rules that nobody has broken are left out"
    (row,) = goqueue.rows("pipeline", "describe", name, kind="pipeline")
    assert (row["wish"], row["plan"]) == ("stop", [{"name": "orders"}])
    queries = goqueue.rows("pipeline", "describe", name, kind="query")
    assert [(each["pipeline"], each["name"]) for each in queries] == [(name, "lake"), (name, "dead_letters")]
    assert queries[0]["bad_rows"] == {"has_id": 3, "late": 0}


def test_ended_pipeline_has_no_speed(goqueue: Command, client: Client, name: str) -> None:
    client.send(pipelines.report(name, said("failed", error="it broke")))
    for arguments in (["list"], ["describe", name]):
        shown = goqueue.done("pipeline", *arguments)
        assert [line for line in shown.splitlines() if line.startswith((name, "lake")) and "2,500" in line] == []
    assert "last error   it broke" in shown


def test_a_pipeline_is_stopped_and_waited_for(goqueue: Command, client: Client, name: str) -> None:
    with reporting(client, name, said("stopping"), said("ended")):
        done = goqueue("pipeline", "stop", name)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith(f"stopped pipeline {name} after ")
    assert client.send(pipelines.describe(name)).state == "ended"
    again = goqueue.done("pipeline", "stop", name)
    assert again == f"pipeline {name} does not run: it has ended\n"


def test_stop_prints_a_row_for_programs(goqueue: Command, client: Client, name: str) -> None:
    with reporting(client, name, said("ended")):
        (row,) = goqueue.rows("pipeline", "stop", name, kind="stop")
    assert (row["pipeline"], row["run_id"], row["was_running"], row["is_stopped"]) == (name, "a1b2", True, True)
    assert (row["state"], row["error"]) == ("ended", None)


def test_a_run_that_fails_while_it_stops_is_a_failure(goqueue: Command, client: Client, name: str) -> None:
    with reporting(client, name, said("failed", error="the disk is full")):
        done = goqueue("pipeline", "stop", name)
    assert done.exit_code == 1
    assert done.stdout == f"pipeline {name} has stopped with an error: the disk is full\n"


def test_another_run_that_takes_over_shows_that_the_first_is_gone(goqueue: Command, client: Client, name: str) -> None:
    with reporting(client, name, said("ended"), said("starting", run_id="c3d4")):
        done = goqueue("pipeline", "stop", name)
    assert done.exit_code == 0
    assert client.send(pipelines.describe(name)).wish == "run", "nobody has asked that one to stop"


def test_stop_without_wait_returns_at_once(goqueue: Command, client: Client, name: str) -> None:
    client.send(pipelines.report(name, said()))
    assert goqueue.done("pipeline", "stop", name, "--no-wait") == f"asked pipeline {name} to stop; it is running\n"
    assert client.send(pipelines.report(name, said())).is_stop


def test_stop_reports_its_wait_and_ends_at_the_timeout(goqueue: Command, client: Client, name: str) -> None:
    client.send(pipelines.report(name, said()))
    late = goqueue("pipeline", "stop", name, "--timeout", "2")
    assert late.exit_code == 1
    assert f"waiting for pipeline {name} to stop; it is running, lag 4,000 messages" in late.stderr
    assert f"asked pipeline {name} to stop; it is still running after " in late.stdout


def test_a_lost_pipeline_is_not_known_to_have_stopped() -> None:
    with Broker() as broker, Client(broker.http) as client:
        client.send(pipelines.report("orders", said()))
        broker.advance(20)
        shown = Command(broker.http)("pipeline", "stop", "orders")
        assert shown.exit_code == 1
        assert shown.stdout.startswith("pipeline orders is lost: no report for 20")
        assert client.send(pipelines.report("orders", said())).is_stop, "it is told when it comes back"
        broker.advance(20)
        assert " lost " in Command(broker.http).done("pipeline", "list")


def test_stop_is_requested_again_after_the_broker_restarted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as chosen:
        port = chosen.getsockname()[1]
    with Broker(http_port=port) as broker, Client(broker.http) as client:
        seen_states = []

        def see(seen: Pipeline) -> None:
            seen_states.append((seen.state, seen.wish))
            if len(seen_states) == 1:
                broker.restart()
            if client.send(pipelines.report("orders", said())).is_stop:
                client.send(pipelines.report("orders", said("ended")))

        client.send(pipelines.report("orders", said()))
        outcome = stop_pipeline(client, "orders", wait_s=60, tell=see)
        assert outcome.is_good_end
        assert seen_states == [("running", "stop"), ("running", "run"), ("running", "stop")]


@pytest.mark.parametrize("verb", ["describe", "stop"])
def test_an_unknown_pipeline_is_one_line(goqueue: Command, verb: str) -> None:
    result = goqueue("pipeline", verb, "nobody")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.splitlines()[-1].endswith("[unknown_pipeline]")
    assert result.stderr.count("\n") == 1


def test_unreachable_broker_is_one_line_with_a_hint() -> None:
    for arguments in (["list"], ["describe", "x"], ["stop", "x"]):
        reason = Command("http://127.0.0.1:1").refused("pipeline", *arguments)
        assert reason.count("\n") == 1
        assert "goqueue serve" in reason


def test_names_are_completed(goqueue: Command, client: Client, name: str) -> None:
    client.send(pipelines.report(f"{name}-one", said()))
    assert completed(goqueue, "pipeline", "stop", f"{name}-") == [f"{name}-one"]
