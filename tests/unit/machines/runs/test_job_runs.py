"""The table of jobs: who is heard, who is lost, and who is forgotten."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.errors import UnknownJob
from goqueue.machines.decision import Now
from goqueue.machines.runs.job_values import JobReport, JobRunState, JobState
from goqueue.machines.runs.jobs import FORGOTTEN_AFTER_MS, JOBS_MAX, LOST_AFTER_MS, JobRuns


def at(monotonic_ms: int) -> Now:
    return Now(1_700_000_000_000 + monotonic_ms, monotonic_ms)


def said(state: JobRunState = JobRunState.RUNNING, *, minute: int = 0, read: int = 0) -> JobReport:
    started_at = datetime(2026, 1, 31, 10, minute, tzinfo=UTC)
    return JobReport(verb="replay", name="orders-to-refunds", state=state, started_at=started_at, read=read)


def test_the_life_of_a_run() -> None:
    runs = JobRuns()
    assert runs.all(at(0)) == []
    runs.report("a", said(JobRunState.STARTING), at(0))
    runs.report("a", said(read=5), at(1_000))
    seen = runs.find("a", at(1_500))
    assert (seen.state, seen.is_running, seen.report.read) == (JobState.RUNNING, True, 5)
    assert (seen.heard_ms, seen.silent_ms) == (at(1_000).wall_ms, 500)
    lost = runs.find("a", at(1_000 + LOST_AFTER_MS))
    assert (lost.state, lost.is_running) == (JobState.LOST, False)
    runs.report("a", said(), at(2_000 + LOST_AFTER_MS))
    assert runs.find("a", at(2_000 + LOST_AFTER_MS)).is_running, "it is back"
    runs.report("a", said(JobRunState.DONE, read=9), at(20_000))
    runs.report("a", said(read=8), at(20_001))
    seen = runs.find("a", at(20_000 + LOST_AFTER_MS))
    assert (seen.state, seen.report.read) == (JobState.DONE, 9), (
        "an end is the last word, and may be followed by silence"
    )
    runs.validate()


def test_runs_that_began_last_come_first() -> None:
    runs = JobRuns()
    for number, run_id in enumerate("abc"):
        runs.report(run_id, said(minute=number), at(number))
    runs.report("a", said(), at(5))
    assert [view.id for view in runs.all(at(5))] == ["c", "b", "a"]


def test_runs_are_forgotten_after_a_week_of_silence_and_whoever_was_silent_longest_first() -> None:
    runs = JobRuns(jobs_max=2)
    for number, run_id in enumerate("abc"):
        runs.report(run_id, said(), at(number))
    assert {view.id for view in runs.all(at(3))} == {"b", "c"}
    with pytest.raises(UnknownJob, match="id 'a'"):
        runs.find("a", at(3))
    assert {view.id for view in runs.all(at(1 + FORGOTTEN_AFTER_MS))} == {"c"}
    assert runs.all(at(2 + FORGOTTEN_AFTER_MS)) == []
    assert JOBS_MAX == 1_000


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(JobRunState), st.integers(0, FORGOTTEN_AFTER_MS))))
def test_what_is_known_is_what_was_said_last_before_the_end(told: list[tuple[str, JobRunState, int]]) -> None:
    """Against a naive model: all that was ever heard, looked through each time."""
    runs, heard, now_ms = JobRuns(jobs_max=3), list[tuple[str, JobRunState, int]](), 0
    for run_id, state, step_ms in told:
        now_ms += step_ms
        known = _known(heard, now_ms)
        runs.report(run_id, said(state), at(now_ms))
        if not (run_id in known and known[run_id][0].is_end and not state.is_end):
            heard.append((run_id, state, now_ms))
        runs.validate()
        found = {view.id: (view.report.state, view.heard_ms) for view in runs.all(at(now_ms))}
        assert found == {each: (said, at(when).wall_ms) for each, (said, when) in _known(heard, now_ms).items()}


def _known(heard: list[tuple[str, JobRunState, int]], now_ms: int) -> dict[str, tuple[JobRunState, int]]:
    found: dict[str, tuple[JobRunState, int]] = {}
    for run_id, state, when in reversed(heard):
        if run_id not in found and len(found) < 3 and now_ms - when < FORGOTTEN_AFTER_MS:
            found[run_id] = state, when
    return found
