"""The table of pipelines: who is heard, who is lost, who is refused, and who is forgotten."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from goqueue.errors import PipelineRunning, UnknownPipeline
from goqueue.machines.decision import Now
from goqueue.machines.runs.pipeline_values import DesiredState, PipelineState, RunReport, RunState
from goqueue.machines.runs.pipelines import FORGOTTEN_AFTER_MS, LOST_AFTER_MS, PIPELINES_MAX, PipelineRuns

STARTED = datetime(2026, 1, 31, 10, tzinfo=UTC)


def at(monotonic_ms: int) -> Now:
    return Now(1_700_000_000_000 + monotonic_ms, monotonic_ms)


def said(run_id: str, state: RunState = RunState.RUNNING, *, master: str = "", restarts: int = 0) -> RunReport:
    return RunReport(run_id=run_id, state=state, started_at=STARTED, master=master, restarts=restarts)


def test_the_life_of_a_pipeline() -> None:
    runs = PipelineRuns()
    assert runs.all(at(0)) == []
    assert runs.report("orders", said("a", RunState.STARTING), b'["plan"]', at(0)) is DesiredState.RUN
    assert runs.report("orders", said("a"), None, at(1_000)) is DesiredState.RUN
    seen = runs.find("orders", at(1_500))
    assert (seen.state, seen.is_running, seen.wish) == (PipelineState.RUNNING, True, DesiredState.RUN)
    assert seen.plan == b'["plan"]', "a report without a plan keeps the one before"
    assert (seen.heard_ms, seen.silent_ms) == (at(1_000).wall_ms, 500)
    assert runs.stop("orders", at(1_600)).wish is DesiredState.STOP
    assert runs.find("orders", at(1_600)).silent_ms == 600, "to be asked is not to be heard"
    assert runs.report("orders", said("a"), None, at(2_000)) is DesiredState.STOP
    assert runs.report("orders", said("a", RunState.STOPPING), None, at(3_000)) is DesiredState.STOP
    assert runs.report("orders", said("a", RunState.ENDED), None, at(4_000)) is DesiredState.STOP
    assert runs.find("orders", at(4_000 + LOST_AFTER_MS)).state is PipelineState.ENDED, "who has ended may be silent"
    assert runs.report("orders", said("b"), None, at(5_000)) is DesiredState.RUN, "the wish was for the run before"
    seen = runs.find("orders", at(5_000))
    assert (seen.report.run_id, seen.plan) == ("b", None), "and the plan was its own"
    runs.validate()


def test_a_second_run_is_refused_until_the_first_has_ended_or_is_lost() -> None:
    runs = PipelineRuns()
    runs.report("orders", said("a", master="local[2]"), None, at(0))
    with pytest.raises(
        PipelineRunning, match=r"run 'a' on local\[2\] since 2026-01-31T10:00:00\+00:00, heard 2.5 s ago"
    ):
        runs.report("orders", said("b"), None, at(2_500))
    assert runs.find("orders", at(2_500)).report.run_id == "a"
    with pytest.raises(PipelineRunning):
        runs.report("orders", said("b"), None, at(LOST_AFTER_MS - 1))
    assert runs.find("orders", at(LOST_AFTER_MS)).state is PipelineState.LOST
    runs.report("orders", said("b"), None, at(LOST_AFTER_MS))
    with pytest.raises(PipelineRunning):
        runs.report("orders", said("a"), None, at(LOST_AFTER_MS + 1))
    for end in (RunState.ENDED, RunState.FAILED):
        runs.report("orders", said("b", end), None, at(LOST_AFTER_MS + 2))
        runs.report("orders", said("c"), None, at(LOST_AFTER_MS + 3))
        runs.report("orders", said("c", RunState.ENDED), None, at(LOST_AFTER_MS + 4))
        runs.report("orders", said("b"), None, at(LOST_AFTER_MS + 5))


def test_a_run_that_is_heard_again_is_not_lost() -> None:
    runs = PipelineRuns()
    runs.report("orders", said("a"), None, at(0))
    assert not runs.find("orders", at(LOST_AFTER_MS)).is_running
    assert runs.stop("orders", at(LOST_AFTER_MS)).wish is DesiredState.STOP
    assert runs.report("orders", said("a"), None, at(LOST_AFTER_MS + 1)) is DesiredState.STOP, (
        "it is told when it comes back"
    )
    assert runs.find("orders", at(LOST_AFTER_MS + 1)).is_running


def test_a_report_that_was_overtaken_by_the_end_changes_nothing() -> None:
    runs = PipelineRuns()
    runs.report("orders", said("a", RunState.FAILED, restarts=3), None, at(0))
    runs.report("orders", said("a", RunState.RUNNING, restarts=2), None, at(10))
    seen = runs.find("orders", at(20))
    assert (seen.state, seen.report.restarts, seen.silent_ms) == (PipelineState.FAILED, 3, 20)
    runs.report("orders", said("a", RunState.ENDED), None, at(30))
    assert runs.find("orders", at(30)).state is PipelineState.ENDED


def test_to_stop_one_that_has_ended_is_to_wish_nothing() -> None:
    runs = PipelineRuns()
    runs.report("orders", said("a", RunState.ENDED), None, at(0))
    stopped = runs.stop("orders", at(1))
    assert (stopped.is_running, stopped.wish) == (False, DesiredState.RUN)


def test_only_what_does_not_run_can_be_forgotten() -> None:
    runs = PipelineRuns()
    runs.report("orders", said("a"), None, at(0))
    with pytest.raises(PipelineRunning):
        runs.forget("orders", at(1))
    runs.forget("orders", at(LOST_AFTER_MS))
    for ask in (runs.find, runs.stop, runs.forget):
        with pytest.raises(UnknownPipeline, match="'orders'"):
            ask("orders", at(LOST_AFTER_MS))
    runs.validate()


def test_an_hour_of_silence_is_the_end_of_memory() -> None:
    runs = PipelineRuns()
    runs.report("orders", said("a"), None, at(0))
    runs.report("clicks", said("b"), None, at(1))
    assert [seen.name for seen in runs.all(at(FORGOTTEN_AFTER_MS - 1))] == ["clicks", "orders"]
    assert [seen.name for seen in runs.all(at(FORGOTTEN_AFTER_MS))] == ["clicks"]
    with pytest.raises(UnknownPipeline):
        runs.find("clicks", at(FORGOTTEN_AFTER_MS + 1))


def test_of_too_many_those_are_forgotten_that_were_silent_longest() -> None:
    runs = PipelineRuns()
    for number in range(PIPELINES_MAX):
        runs.report(f"p{number}", said("a"), None, at(number))
    runs.report("p0", said("a"), None, at(5_000))
    runs.report("one-more", said("a"), None, at(5_000))
    names = {seen.name for seen in runs.all(at(5_000))}
    assert len(names) == PIPELINES_MAX
    assert {"p0", "one-more"} <= names
    assert "p1" not in names
    runs.validate()


def test_what_is_kept_is_bounded_by_size() -> None:
    runs = PipelineRuns(bytes_max=2_500)
    for number in range(3):
        runs.report(f"p{number}", said("a"), b"x" * 1_000, at(number))
    assert [seen.name for seen in runs.all(at(3))] == ["p1", "p2"]
    runs.report("p1", said("a"), b"x" * 10_000, at(4))
    assert [seen.name for seen in runs.all(at(4))] == ["p1"], "whoever was heard last stays"
    runs.report("p1", said("a"), b"x", at(5))
    runs.report("p2", said("a"), b"x", at(5))
    assert len(runs.all(at(5))) == 2, "what is gone is not counted"
    runs.validate()
