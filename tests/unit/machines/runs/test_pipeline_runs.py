"""The table of pipelines: reports, lost runs, refused takeovers, and what is forgotten."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from goqueue.errors import PipelineRunning, UnknownPipeline
from goqueue.machines.decision import Now
from goqueue.machines.runs.table import LOST_AFTER_MS, PIPELINE, RunTable
from goqueue.machines.runs.values import DesiredState, RunReport, RunState

FORGOTTEN_AFTER_MS = PIPELINE.forgotten_after_ms
PIPELINES_MAX = PIPELINE.runs_max
STARTED = datetime(2026, 1, 31, 10, tzinfo=UTC)


def at(monotonic_ms: int) -> Now:
    return Now(1_700_000_000_000 + monotonic_ms, monotonic_ms)


def said(run_id: str, state: RunState = RunState.RUNNING, *, master: str = "", restarts: int = 0) -> RunReport:
    return RunReport(run_id=run_id, state=state, started_at=STARTED, master=master, restarts=restarts)


def test_pipeline_keeps_plan_and_stop_request_until_its_run_ends() -> None:
    runs = RunTable[RunReport](PIPELINE)
    assert runs.all(at(0)) == []
    assert runs.report("orders", "a", said("a", RunState.STARTING), at(0), b'["plan"]') is DesiredState.RUN
    assert runs.report("orders", "a", said("a"), at(1_000)) is DesiredState.RUN
    seen = runs.find("orders", at(1_500))
    assert (seen.report.state, seen.is_running, seen.desired) == (RunState.RUNNING, True, DesiredState.RUN)
    assert seen.plan == b'["plan"]', "a report without a plan keeps the one before"
    assert (seen.heard_ms, seen.silent_ms) == (at(1_000).wall_ms, 500)
    assert runs.stop("orders", at(1_600)).desired is DesiredState.STOP
    assert runs.find("orders", at(1_600)).silent_ms == 600, "a stop request is not a report"
    assert runs.report("orders", "a", said("a"), at(2_000)) is DesiredState.STOP
    assert runs.report("orders", "a", said("a", RunState.STOPPING), at(3_000)) is DesiredState.STOP
    assert runs.report("orders", "a", said("a", RunState.ENDED), at(4_000)) is DesiredState.STOP
    assert runs.find("orders", at(4_000 + LOST_AFTER_MS)).report.state is RunState.ENDED, "an ended run may be silent"
    assert runs.report("orders", "b", said("b"), at(5_000)) is DesiredState.RUN, (
        "the stop request was for the previous run"
    )
    seen = runs.find("orders", at(5_000))
    assert (seen.report.run_id, seen.plan) == ("b", None), "the plan was of the previous run"
    runs.validate()


def test_second_run_is_refused_until_the_first_has_ended_or_is_lost() -> None:
    runs = RunTable[RunReport](PIPELINE)
    runs.report("orders", "a", said("a", master="local[2]"), at(0))
    with pytest.raises(
        PipelineRunning, match=r"run 'a' on local\[2\] since 2026-01-31T10:00:00\+00:00, last report 2.5 s ago"
    ):
        runs.report("orders", "b", said("b"), at(2_500))
    assert runs.find("orders", at(2_500)).report.run_id == "a"
    with pytest.raises(PipelineRunning):
        runs.report("orders", "b", said("b"), at(LOST_AFTER_MS - 1))
    assert runs.find("orders", at(LOST_AFTER_MS)).is_lost
    runs.report("orders", "b", said("b"), at(LOST_AFTER_MS))
    with pytest.raises(PipelineRunning):
        runs.report("orders", "a", said("a"), at(LOST_AFTER_MS + 1))
    for end in (RunState.ENDED, RunState.FAILED):
        runs.report("orders", "b", said("b", end), at(LOST_AFTER_MS + 2))
        runs.report("orders", "c", said("c"), at(LOST_AFTER_MS + 3))
        runs.report("orders", "c", said("c", RunState.ENDED), at(LOST_AFTER_MS + 4))
        runs.report("orders", "b", said("b"), at(LOST_AFTER_MS + 5))


def test_lost_run_is_running_again_after_its_next_report() -> None:
    runs = RunTable[RunReport](PIPELINE)
    runs.report("orders", "a", said("a"), at(0))
    assert not runs.find("orders", at(LOST_AFTER_MS)).is_running
    assert runs.stop("orders", at(LOST_AFTER_MS)).desired is DesiredState.STOP
    assert runs.report("orders", "a", said("a"), at(LOST_AFTER_MS + 1)) is DesiredState.STOP, (
        "the stop request waits for its next report"
    )
    assert runs.find("orders", at(LOST_AFTER_MS + 1)).is_running


def test_report_after_the_final_one_changes_nothing() -> None:
    runs = RunTable[RunReport](PIPELINE)
    runs.report("orders", "a", said("a", RunState.FAILED, restarts=3), at(0))
    runs.report("orders", "a", said("a", RunState.RUNNING, restarts=2), at(10))
    seen = runs.find("orders", at(20))
    assert (seen.report.state, seen.report.restarts, seen.silent_ms) == (RunState.FAILED, 3, 20)
    runs.report("orders", "a", said("a", RunState.ENDED), at(30))
    assert runs.find("orders", at(30)).report.state is RunState.ENDED


def test_stop_of_an_ended_run_changes_nothing() -> None:
    runs = RunTable[RunReport](PIPELINE)
    runs.report("orders", "a", said("a", RunState.ENDED), at(0))
    stopped = runs.stop("orders", at(1))
    assert (stopped.is_running, stopped.desired) == (False, DesiredState.RUN)


def test_running_pipeline_cannot_be_forgotten() -> None:
    runs = RunTable[RunReport](PIPELINE)
    runs.report("orders", "a", said("a"), at(0))
    with pytest.raises(PipelineRunning):
        runs.forget("orders", at(1))
    runs.forget("orders", at(LOST_AFTER_MS))
    for ask in (runs.find, runs.stop, runs.forget):
        with pytest.raises(UnknownPipeline, match="'orders'"):
            ask("orders", at(LOST_AFTER_MS))
    runs.validate()


def test_pipeline_is_forgotten_after_an_hour_of_silence() -> None:
    runs = RunTable[RunReport](PIPELINE)
    runs.report("orders", "a", said("a"), at(0))
    runs.report("clicks", "b", said("b"), at(1))
    assert [seen.name for seen in runs.all(at(FORGOTTEN_AFTER_MS - 1))] == ["clicks", "orders"]
    assert [seen.name for seen in runs.all(at(FORGOTTEN_AFTER_MS))] == ["clicks"]
    with pytest.raises(UnknownPipeline):
        runs.find("clicks", at(FORGOTTEN_AFTER_MS + 1))


def test_longest_silent_pipeline_is_forgotten_first() -> None:
    runs = RunTable[RunReport](PIPELINE)
    for number in range(PIPELINES_MAX):
        runs.report(f"p{number}", "a", said("a"), at(number))
    runs.report("p0", "a", said("a"), at(5_000))
    runs.report("one-more", "a", said("a"), at(5_000))
    names = {seen.name for seen in runs.all(at(5_000))}
    assert len(names) == PIPELINES_MAX
    assert {"p0", "one-more"} <= names
    assert "p1" not in names
    runs.validate()


def test_table_is_bounded_by_size() -> None:
    runs = RunTable[RunReport](replace(PIPELINE, bytes_max=2_500))
    for number in range(3):
        runs.report(f"p{number}", "a", said("a"), at(number), b"x" * 1_000)
    assert [seen.name for seen in runs.all(at(3))] == ["p1", "p2"]
    runs.report("p1", "a", said("a"), at(4), b"x" * 10_000)
    assert [seen.name for seen in runs.all(at(4))] == ["p1"], "the entry with the latest report stays"
    runs.report("p1", "a", said("a"), at(5), b"x")
    runs.report("p2", "a", said("a"), at(5), b"x")
    assert len(runs.all(at(5))) == 2, "removed entries are not counted"
    runs.validate()
