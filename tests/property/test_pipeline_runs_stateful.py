"""The table of pipelines against a naive model: a list of all reports, searched each time."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from goqueue.errors import PipelineRunning, UnknownPipeline
from goqueue.machines.decision import Now
from goqueue.machines.runs.table import LOST_AFTER_MS, PIPELINE, RunTable
from goqueue.machines.runs.values import DesiredState, RunReport, RunState

FORGOTTEN_AFTER_MS = PIPELINE.forgotten_after_ms
NAMES = st.sampled_from(["one", "two", "three"])
RUNS = st.sampled_from(["a", "b"])
ENDS = {RunState.ENDED, RunState.FAILED}
STARTED = datetime(2026, 1, 31, tzinfo=UTC)
PIPELINES_MAX = 2
# Mostly short ones, in which more happens.
STEPS_MS = [1, 2, 3, 4, LOST_AFTER_MS - 1, LOST_AFTER_MS, FORGOTTEN_AFTER_MS - 1, FORGOTTEN_AFTER_MS]


class Heard:
    """An accepted report, and the desired state of its run."""

    def __init__(self, name: str, report: RunReport, time_ms: int, wish: DesiredState) -> None:
        self.name, self.report, self.time_ms, self.wish = name, report, time_ms, wish


class Model:
    """Keeps all reports, and computes each time which of them count."""

    def __init__(self) -> None:
        self.heard: list[Heard] = []

    def latest(self, now_ms: int) -> dict[str, Heard]:
        """Return what was heard last of each pipeline, if it counts still."""
        lately = [each for each in self.heard if now_ms - each.time_ms < FORGOTTEN_AFTER_MS]
        found: dict[str, Heard] = {}
        for each in reversed(lately):
            if each.name not in found and len(found) < PIPELINES_MAX:
                found[each.name] = each
        return found

    def is_running(self, each: Heard, now_ms: int) -> bool:
        """Tell whether a pipeline runs, as far as is known."""
        return each.report.state not in ENDS and now_ms - each.time_ms < LOST_AFTER_MS


class PipelineRunsAgainstModel(RuleBasedStateMachine):
    """The table and the model get the same calls and must agree."""

    @initialize()
    def begin(self) -> None:
        self.runs = RunTable[RunReport](replace(PIPELINE, runs_max=PIPELINES_MAX))
        self.model = Model()
        self.now_ms = 0

    @property
    def now(self) -> Now:
        return Now(self.now_ms, self.now_ms)

    @rule(name=NAMES, run_id=RUNS, state=st.sampled_from(RunState), restarts=st.integers(0, 9))
    def report(self, name: str, run_id: str, state: RunState, restarts: int) -> None:
        report = RunReport(run_id=run_id, state=state, started_at=STARTED, restarts=restarts)
        before = self.model.latest(self.now_ms).get(name)
        is_same = before is not None and before.report.run_id == run_id
        if before is not None and not is_same and self.model.is_running(before, self.now_ms):
            with pytest.raises(PipelineRunning):
                self.runs.report(name, run_id, report, self.now)
            return
        wish = before.wish if before is not None and is_same else DesiredState.RUN
        assert self.runs.report(name, run_id, report, self.now) is wish
        if not (before is not None and is_same and before.report.state in ENDS and state not in ENDS):
            self.model.heard.append(Heard(name, report, self.now_ms, wish))
            # A report that others have pushed out stays gone, also when those are forgotten.
            kept = self.model.latest(self.now_ms)
            self.model.heard = [each for each in self.model.heard if each is kept.get(each.name)]

    @rule(name=NAMES)
    def stop(self, name: str) -> None:
        found = self.model.latest(self.now_ms).get(name)
        if found is None:
            with pytest.raises(UnknownPipeline):
                self.runs.stop(name, self.now)
            return
        if found.report.state not in ENDS:
            found.wish = DesiredState.STOP
        seen = self.runs.stop(name, self.now)
        assert (seen.desired, seen.is_running) == (found.wish, self.model.is_running(found, self.now_ms))

    @rule(name=NAMES)
    def forget(self, name: str) -> None:
        found = self.model.latest(self.now_ms).get(name)
        if found is None or self.model.is_running(found, self.now_ms):
            with pytest.raises((UnknownPipeline, PipelineRunning)):
                self.runs.forget(name, self.now)
            return
        self.runs.forget(name, self.now)
        self.model.heard = [each for each in self.model.heard if each.name != name]

    @rule(passed_ms=st.sampled_from(STEPS_MS))
    def let_time_pass(self, passed_ms: int) -> None:
        self.now_ms += passed_ms

    @invariant()
    def both_say_the_same(self) -> None:
        expected = self.model.latest(self.now_ms)
        seen = {view.name: view for view in self.runs.all(self.now)}
        assert list(seen) == sorted(expected)
        for name, each in expected.items():
            view = seen[name]
            assert (view.report, view.desired) == (each.report, each.wish)
            assert view.is_running == self.model.is_running(each, self.now_ms)
            assert view.silent_ms == self.now_ms - each.time_ms
        self.runs.validate()


TestPipelineRuns = PipelineRunsAgainstModel.TestCase
TestPipelineRuns.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
