"""The table of pipelines: what their runs have said last, and what is wished of them.

It is a memory of what was heard and is never stored: after a start of the broker, the next reports bring it back.

| last report of the run before | a report of the same run | a report of another run               |
|-------------------------------|--------------------------|---------------------------------------|
| not its end, lately           | takes its place          | refused: they would share checkpoints |
| not its end, but it is lost   | takes its place          | takes its place                       |
| its end                       | only if it is an end     | takes its place                       |

So a run that was taken for lost, and finds another one in its place, is refused as well. A wish to stop is for one run:
the next one is free of it.

What is kept is bounded by number and by size. Whoever was silent longest is forgotten first, and everybody after an
hour of silence; a run that goes on is back with its next report.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec

from goqueue.errors import PipelineRunning, UnknownPipeline
from goqueue.machines.decision import Now
from goqueue.machines.runs.pipeline_values import DesiredState, PipelineState, PipelineView, RunReport

LOST_AFTER_MS = 10_000
FORGOTTEN_AFTER_MS = 60 * 60 * 1000
PIPELINES_MAX = 1_000
BYTES_MAX = 64 * 1024 * 1024
"""How much may be kept of all pipelines together, as JSON."""

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class _Entry:
    """The last run of a pipeline that was heard of."""

    report: RunReport
    plan: bytes | None
    heard: Now
    wish: DesiredState
    size_bytes: int


class PipelineRuns:
    """All pipelines that were heard of lately, by name."""

    def __init__(self, *, pipelines_max: int = PIPELINES_MAX, bytes_max: int = BYTES_MAX) -> None:
        self._pipelines_max = pipelines_max
        self._bytes_max = bytes_max
        # Whoever was silent longest comes first.
        self._entries: dict[str, _Entry] = {}
        self._size_bytes = 0

    def report(self, name: str, report: RunReport, plan: bytes | None, now: Now) -> DesiredState:
        """Take what a run says, and return what is wished of it; PipelineRunning if another run is under way.

        Without a plan, the one that it has sent before still holds.
        """
        self._forget_silent(now)
        before = self._entries.get(name)
        wish = DesiredState.RUN
        if before is not None and before.report.run_id == report.run_id:
            if before.report.state.is_end and not report.state.is_end:
                # It was on the way when the run ended.
                return before.wish
            wish = before.wish
            plan = before.plan if plan is None else plan
        elif before is not None:
            _require_over(_seen(name, before, now))
        self._keep(name, _Entry(report, plan, now, wish, len(_encode(report)) + len(plan or b"")))
        return wish

    def all(self, now: Now) -> list[PipelineView]:
        """Return all pipelines by name."""
        self._forget_silent(now)
        return [_seen(name, entry, now) for name, entry in sorted(self._entries.items())]

    def find(self, name: str, now: Now) -> PipelineView:
        """Return a pipeline; UnknownPipeline if nothing was heard of it lately."""
        self._forget_silent(now)
        entry = self._entries.get(name)
        if entry is None:
            raise UnknownPipeline(
                f"there is no pipeline {name[:200]!r}",
                hint="pipelines are known while they report, and for an hour after that",
            )
        return _seen(name, entry, now)

    def stop(self, name: str, now: Now) -> PipelineView:
        """Wish that the run of a pipeline stops, unless it has ended; return how it is."""
        found = self.find(name, now)
        if not found.report.state.is_end:
            self._entries[name] = replace(self._entries[name], wish=DesiredState.STOP)
        return self.find(name, now)

    def forget(self, name: str, now: Now) -> None:
        """Forget a pipeline that does not run; PipelineRunning if it does."""
        _require_over(self.find(name, now))
        self._drop(name)

    def _keep(self, name: str, entry: _Entry) -> None:
        if name in self._entries:
            self._drop(name)
        self._entries[name] = entry
        self._size_bytes += entry.size_bytes
        while self._is_too_much():
            self._drop(next(iter(self._entries)))

    def _is_too_much(self) -> bool:
        # One that is too much alone stays: it was heard last, and is bounded where it comes from.
        is_too_large = self._size_bytes > self._bytes_max and len(self._entries) > 1
        return is_too_large or len(self._entries) > self._pipelines_max

    def _forget_silent(self, now: Now) -> None:
        while self._entries:
            name, entry = next(iter(self._entries.items()))
            if now.monotonic_ms - entry.heard.monotonic_ms < FORGOTTEN_AFTER_MS:
                return
            self._drop(name)

    def _drop(self, name: str) -> None:
        self._size_bytes -= self._entries.pop(name).size_bytes

    def validate(self) -> None:
        """Check what always holds; AssertionError if it does not."""
        heard = [entry.heard.monotonic_ms for entry in self._entries.values()]
        assert heard == sorted(heard), "whoever was silent longest comes first"
        assert len(self._entries) <= self._pipelines_max
        assert self._size_bytes == sum(entry.size_bytes for entry in self._entries.values())


def _seen(name: str, entry: _Entry, now: Now) -> PipelineView:
    silent_ms = now.monotonic_ms - entry.heard.monotonic_ms
    is_lost = not entry.report.state.is_end and silent_ms >= LOST_AFTER_MS
    state = PipelineState.LOST if is_lost else PipelineState(entry.report.state)
    return PipelineView(name, entry.report, entry.plan, state, entry.wish, entry.heard.wall_ms, silent_ms)


def _require_over(found: PipelineView) -> None:
    if not found.is_running:
        return
    run, master = found.report, f" on {found.report.master}" if found.report.master else ""
    raise PipelineRunning(
        f"pipeline {found.name!r} runs already: run {run.run_id!r}{master} since {run.started_at.isoformat()}, heard"
        f" {found.silent_ms / 1000:.1f} s ago",
        hint=f"`goqueue pipeline stop {found.name}` stops it; silent for {LOST_AFTER_MS // 1000} s, it counts as lost",
    )
