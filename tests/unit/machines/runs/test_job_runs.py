"""The table of jobs: reports, lost runs, and what is forgotten."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.errors import UnknownJob
from goqueue.machines.decision import Now
from goqueue.machines.runs.table import JOB, LOST_AFTER_MS, RunTable
from goqueue.machines.runs.values import JobReport, JobRunState

FORGOTTEN_AFTER_MS = JOB.forgotten_after_ms


def at(monotonic_ms: int) -> Now:
    return Now(1_700_000_000_000 + monotonic_ms, monotonic_ms)


def said(state: JobRunState = JobRunState.RUNNING, *, minute: int = 0, read: int = 0) -> JobReport:
    started_at = datetime(2026, 1, 31, 10, minute, tzinfo=UTC)
    return JobReport(verb="replay", name="orders-to-refunds", state=state, started_at=started_at, read=read)


def table(runs_max: int = JOB.runs_max) -> RunTable[JobReport]:
    return RunTable(replace(JOB, runs_max=runs_max))


def test_run_is_lost_by_silence_and_ends_for_good() -> None:
    runs = table()
    assert runs.all(at(0)) == []
    runs.report("a", "a", said(JobRunState.STARTING), at(0))
    runs.report("a", "a", said(read=5), at(1_000))
    seen = runs.find("a", at(1_500))
    assert (seen.report.state, seen.is_lost, seen.is_running, seen.report.read) == (JobRunState.RUNNING, False, True, 5)
    assert (seen.heard_ms, seen.silent_ms) == (at(1_000).wall_ms, 500)
    lost = runs.find("a", at(1_000 + LOST_AFTER_MS))
    assert (lost.is_lost, lost.is_running) == (True, False)
    runs.report("a", "a", said(), at(2_000 + LOST_AFTER_MS))
    assert runs.find("a", at(2_000 + LOST_AFTER_MS)).is_running, "its next report brings it back"
    runs.report("a", "a", said(JobRunState.DONE, read=9), at(20_000))
    runs.report("a", "a", said(read=8), at(20_001))
    seen = runs.find("a", at(20_000 + LOST_AFTER_MS))
    assert (seen.report.state, seen.is_lost, seen.report.read) == (JobRunState.DONE, False, 9), (
        "the final report stays, and silence may follow"
    )
    runs.validate()


def test_newest_run_comes_first() -> None:
    runs = table()
    for number, run_id in enumerate("abc"):
        runs.report(run_id, run_id, said(minute=number), at(number))
    runs.report("a", "a", said(), at(5))
    assert [view.name for view in runs.all(at(5))] == ["c", "b", "a"]


def test_run_is_forgotten_after_a_week_of_silence_and_the_longest_silent_first() -> None:
    runs = table(2)
    for number, run_id in enumerate("abc"):
        runs.report(run_id, run_id, said(), at(number))
    assert {view.name for view in runs.all(at(3))} == {"b", "c"}
    with pytest.raises(UnknownJob, match="id 'a'"):
        runs.find("a", at(3))
    assert {view.name for view in runs.all(at(1 + FORGOTTEN_AFTER_MS))} == {"c"}
    assert runs.all(at(2 + FORGOTTEN_AFTER_MS)) == []
    assert JOB.runs_max == 1_000


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(JobRunState), st.integers(0, FORGOTTEN_AFTER_MS))))
def test_table_keeps_the_last_report_before_the_end(told: list[tuple[str, JobRunState, int]]) -> None:
    """Against a naive model: all that was ever heard, looked through each time."""
    runs, heard, now_ms = table(3), list[tuple[str, JobRunState, int]](), 0
    for run_id, state, step_ms in told:
        now_ms += step_ms
        known = _known(heard, now_ms)
        runs.report(run_id, run_id, said(state), at(now_ms))
        if not (run_id in known and known[run_id][0].is_end and not state.is_end):
            heard.append((run_id, state, now_ms))
        runs.validate()
        found = {view.name: (view.report.state, view.heard_ms) for view in runs.all(at(now_ms))}
        assert found == {each: (said, at(when).wall_ms) for each, (said, when) in _known(heard, now_ms).items()}


def _known(heard: list[tuple[str, JobRunState, int]], now_ms: int) -> dict[str, tuple[JobRunState, int]]:
    found: dict[str, tuple[JobRunState, int]] = {}
    for run_id, state, when in reversed(heard):
        if run_id not in found and len(found) < 3 and now_ms - when < FORGOTTEN_AFTER_MS:
            found[run_id] = state, when
    return found
