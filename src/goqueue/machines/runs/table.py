"""The table of runs of one kind: the last report of each run, and whether it should stop.

Runs happen elsewhere and report here. Nothing is stored: after a restart of the broker, the next reports fill the table
again. A run that has not ended is *lost* after ten seconds of silence; its next report brings it back.

| kind       | name of an entry    | forgotten after the last report |
|------------|---------------------|---------------------------------|
| `PIPELINE` | the pipeline's      | an hour                         |
| `JOB`      | the id of the run   | a week                          |

| last report of the entry | another report of the same run | a report of another run               |
|--------------------------|--------------------------------|---------------------------------------|
| not final, recent        | replaces it                    | refused: they would share checkpoints |
| not final, lost          | replaces it                    | replaces it                           |
| final                    | replaces it only if final      | replaces it                           |

So a run that was taken for lost and was replaced meanwhile is refused, too. A request to stop is for one run: the next
run of the name does not see it. Entries are bounded by number and size; the longest silent one is forgotten first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec

from goqueue.errors import NotFound, PipelineRunning, UnknownJob, UnknownPipeline
from goqueue.machines.decision import Now
from goqueue.machines.runs.values import DesiredState, JobReport, RunReport
from goqueue.model.units import duration_text

LOST_AFTER_MS = 10_000

_encode = msgspec.json.Encoder().encode


class ReportedState(Protocol):
    """State of a run, in words of its kind."""

    @property
    def is_end(self) -> bool:
        """Whether the state is final."""


class Report(Protocol):
    """Report of a run of any kind."""

    @property
    def state(self) -> ReportedState:
        """State of the run."""

    @property
    def started_at(self) -> datetime:
        """When the run began."""

    @property
    def master(self) -> str:
        """Where it runs, empty if unknown."""


ReportT = TypeVar("ReportT", bound=Report)


@dataclass(frozen=True, slots=True)
class RunKind:
    """Rules for the runs of one kind; `bytes_max` is for all of them together, as JSON."""

    noun: str
    unknown: type[NotFound]
    forgotten_after_ms: int
    is_newest_first: bool
    runs_max: int = 1_000
    bytes_max: int = 64 * 1024 * 1024


PIPELINE = RunKind("pipeline", UnknownPipeline, 60 * 60 * 1000, is_newest_first=False)
JOB = RunKind("job with the id", UnknownJob, 7 * 24 * 60 * 60 * 1000, is_newest_first=True, bytes_max=128 * 1024 * 1024)


class RunView(NamedTuple, Generic[ReportT]):
    """A run as seen at a moment: its last report was `silent_ms` ago, at `heard_ms` of wall time. `plan` is JSON."""

    name: str
    report: ReportT
    plan: bytes | None
    desired: DesiredState
    is_lost: bool
    heard_ms: int
    silent_ms: int

    @property
    def is_running(self) -> bool:
        """Whether the run has not ended, as far as is known."""
        return not self.report.state.is_end and not self.is_lost


PipelineView = RunView[RunReport]
JobView = RunView[JobReport]


@dataclass(frozen=True, slots=True)
class _Entry(Generic[ReportT]):
    run_id: str
    report: ReportT
    plan: bytes | None
    heard: Now
    desired: DesiredState
    size_bytes: int


class RunTable(Generic[ReportT]):
    """Recent runs of one kind, by name."""

    def __init__(self, kind: RunKind) -> None:
        self._kind = kind
        # The longest silent one comes first.
        self._entries: dict[str, _Entry[ReportT]] = {}
        self._size_bytes = 0

    def report(self, name: str, run_id: str, report: ReportT, now: Now, plan: bytes | None = None) -> DesiredState:
        """Keep a report and return the desired state; PipelineRunning if another run of the name is in progress.

        Without a plan, the previous plan of the run is kept.
        """
        self._forget_silent(now)
        before = self._entries.get(name)
        desired = DesiredState.RUN
        if before is not None and before.run_id == run_id:
            if before.report.state.is_end and not report.state.is_end:
                # The final report has overtaken this one.
                return before.desired
            desired = before.desired
            plan = before.plan if plan is None else plan
        elif before is not None:
            self._require_over(name, now)
        self._keep(name, _Entry(run_id, report, plan, now, desired, len(_encode(report)) + len(plan or b"")))
        return desired

    def all(self, now: Now) -> list[RunView[ReportT]]:
        """Return all runs, by name or the newest first."""
        self._forget_silent(now)
        found = [self._view(name, now) for name in sorted(self._entries)]
        if self._kind.is_newest_first:
            found.sort(key=lambda view: (view.report.started_at, view.name), reverse=True)
        return found

    def find(self, name: str, now: Now) -> RunView[ReportT]:
        """Return a run; NotFound if there was no report lately."""
        self._forget_silent(now)
        if name not in self._entries:
            kept = duration_text(self._kind.forgotten_after_ms)
            raise self._kind.unknown(
                f"there is no {self._kind.noun} {name[:200]!r}",
                hint=f"the broker forgets {kept} after the last report, and when it restarts",
            )
        return self._view(name, now)

    def stop(self, name: str, now: Now) -> RunView[ReportT]:
        """Ask a run to stop, unless it has ended, and return it."""
        found = self.find(name, now)
        if not found.report.state.is_end:
            self._entries[name] = replace(self._entries[name], desired=DesiredState.STOP)
        return self.find(name, now)

    def forget(self, name: str, now: Now) -> None:
        """Forget a run that is not in progress; PipelineRunning if it is."""
        self.find(name, now)
        self._require_over(name, now)
        self._drop(name)

    def validate(self) -> None:
        """Check the invariants; AssertionError if one is broken."""
        heard = [entry.heard.monotonic_ms for entry in self._entries.values()]
        assert heard == sorted(heard), "the longest silent one comes first"
        assert len(self._entries) <= self._kind.runs_max
        assert self._size_bytes == sum(entry.size_bytes for entry in self._entries.values())

    def _view(self, name: str, now: Now) -> RunView[ReportT]:
        entry = self._entries[name]
        silent_ms = now.monotonic_ms - entry.heard.monotonic_ms
        is_lost = not entry.report.state.is_end and silent_ms >= LOST_AFTER_MS
        return RunView(name, entry.report, entry.plan, entry.desired, is_lost, entry.heard.wall_ms, silent_ms)

    def _require_over(self, name: str, now: Now) -> None:
        found = self._view(name, now)
        if not found.is_running:
            return
        run_id, run = self._entries[name].run_id, found.report
        on = f" on {run.master}" if run.master else ""
        raise PipelineRunning(
            f"pipeline {name!r} runs already: run {run_id!r}{on} since {run.started_at.isoformat()}, last report"
            f" {found.silent_ms / 1000:.1f} s ago",
            hint=f"`goqueue pipeline stop {name}` stops it; it counts as lost {LOST_AFTER_MS // 1000} s after its last"
            " report",
        )

    def _keep(self, name: str, entry: _Entry[ReportT]) -> None:
        if name in self._entries:
            self._drop(name)
        self._entries[name] = entry
        self._size_bytes += entry.size_bytes
        while self._is_too_much():
            self._drop(next(iter(self._entries)))

    def _is_too_much(self) -> bool:
        # A single entry stays, however large: its size is bounded where it comes from.
        is_too_large = self._size_bytes > self._kind.bytes_max and len(self._entries) > 1
        return is_too_large or len(self._entries) > self._kind.runs_max

    def _forget_silent(self, now: Now) -> None:
        while self._entries:
            name, entry = next(iter(self._entries.items()))
            if now.monotonic_ms - entry.heard.monotonic_ms < self._kind.forgotten_after_ms:
                return
            self._drop(name)

    def _drop(self, name: str) -> None:
        self._size_bytes -= self._entries.pop(name).size_bytes
