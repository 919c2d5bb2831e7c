"""The table of jobs: what their runs have said last.

It is a memory of what was heard and is never stored: after a start of the broker, the next reports bring back those
that still run. The last word of a run is its end, and nothing that was on the way takes its place. A run that has not
ended and is silent is `lost`; it is back with its next report.

What is kept is bounded: whoever was silent longest is forgotten first, and everybody after a week of silence.
"""

from __future__ import annotations

from dataclasses import dataclass

from goqueue.errors import UnknownJob
from goqueue.machines.decision import Now
from goqueue.machines.runs.job_values import JobReport, JobState, JobView

LOST_AFTER_MS = 10_000
FORGOTTEN_AFTER_MS = 7 * 24 * 60 * 60 * 1000
JOBS_MAX = 1_000
"""At some 30 KB for a run that says as much as it may, that is little enough."""


@dataclass(frozen=True, slots=True)
class _Entry:
    report: JobReport
    heard: Now


class JobRuns:
    """All runs of jobs that were heard of lately, by id."""

    def __init__(self, *, jobs_max: int = JOBS_MAX) -> None:
        self._jobs_max = jobs_max
        # Whoever was silent longest comes first.
        self._entries: dict[str, _Entry] = {}

    def report(self, run_id: str, report: JobReport, now: Now) -> None:
        """Take what a run says."""
        self._forget_silent(now)
        before = self._entries.get(run_id)
        if before is not None and before.report.state.is_end and not report.state.is_end:
            return
        self._entries.pop(run_id, None)
        self._entries[run_id] = _Entry(report, now)
        while len(self._entries) > self._jobs_max:
            del self._entries[next(iter(self._entries))]

    def all(self, now: Now) -> list[JobView]:
        """Return all runs, those that began last first."""
        self._forget_silent(now)
        found = [_seen(run_id, entry, now) for run_id, entry in self._entries.items()]
        return sorted(found, key=lambda view: (view.report.started_at, view.id), reverse=True)

    def find(self, run_id: str, now: Now) -> JobView:
        """Return a run; UnknownJob if nothing was heard of it lately."""
        self._forget_silent(now)
        entry = self._entries.get(run_id)
        if entry is None:
            raise UnknownJob(
                f"there is no run of a job with the id {run_id[:200]!r}",
                hint="runs are known while they report and for a week after that, until the broker is started anew",
            )
        return _seen(run_id, entry, now)

    def _forget_silent(self, now: Now) -> None:
        while self._entries:
            run_id, entry = next(iter(self._entries.items()))
            if now.monotonic_ms - entry.heard.monotonic_ms < FORGOTTEN_AFTER_MS:
                return
            del self._entries[run_id]

    def validate(self) -> None:
        """Check what always holds; AssertionError if it does not."""
        heard = [entry.heard.monotonic_ms for entry in self._entries.values()]
        assert heard == sorted(heard), "whoever was silent longest comes first"
        assert len(self._entries) <= self._jobs_max


def _seen(run_id: str, entry: _Entry, now: Now) -> JobView:
    silent_ms = now.monotonic_ms - entry.heard.monotonic_ms
    is_lost = not entry.report.state.is_end and silent_ms >= LOST_AFTER_MS
    state = JobState.LOST if is_lost else JobState(entry.report.state)
    return JobView(run_id, entry.report, state, entry.heard.wall_ms, silent_ms)
