"""Reports of jobs to the broker."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from goqueue.seams.clock import SystemClock
from goqueue.seams.entropy import SystemEntropy
from goqueue.spark.jobs.report import JobReporter, reporting

if TYPE_CHECKING:
    from goqueue.spark.jobs.replay.job import ReplayStatus, ReplayView
    from goqueue.spark.pipelines.run.query import Event


def job_reporting(
    server: str | None, verb: str, name: str, description: str, master: str
) -> AbstractContextManager[JobReporter]:
    """Report a job to the broker until the block ends."""
    where = master or os.environ.get("SPARK_REMOTE") or "local[*]"
    return reporting(server, verb, name, description, master=where, clock=SystemClock(), entropy=SystemEntropy())


class ReplayWatch:
    """Passes the progress of a replay to the screen and to the broker."""

    def __init__(self, view: ReplayView, reporter: JobReporter) -> None:
        self._view = view
        self._reporter = reporter

    def tell(self, event: Event, status: ReplayStatus) -> None:
        self._view.tell(event, status)

    def refresh(self, status: ReplayStatus) -> None:
        self._view.refresh(status)
        # The session decides a moment later whether the end is a success.
        report_replay(self._reporter, status, "running" if status.state.is_over else status.state.value)


def report_replay(reporter: JobReporter, status: ReplayStatus, state: str) -> None:
    """Report the progress of a replay."""
    done = status.read + status.missing
    reporter.update(
        state=state,
        offsets_done=done,
        offsets=None if status.left is None else done + status.left,
        read=status.read,
        written=status.published,
        rows_per_second=status.rows_per_second,
        error=str(status.failure) if status.failure else None,
    )
