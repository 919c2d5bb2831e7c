"""Runs of pipelines and jobs: they run elsewhere and report here, so that any client can see and stop them.

Nothing is stored: `machines/runs/table` keeps the last reports.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from goqueue.broker.admission import Caller, operation
from goqueue.broker.core import Core, Service
from goqueue.errors import Invalid
from goqueue.machines.decision import Now
from goqueue.machines.runs.table import JOB, PIPELINE, JobView, PipelineView, RunTable
from goqueue.machines.runs.values import JOB_ID, PIPELINE_NAME, PLAN_BYTES_MAX, DesiredState, JobReport, RunReport

if TYPE_CHECKING:
    from collections.abc import Sequence

_JOB_ID = re.compile(JOB_ID)
_PIPELINE_NAME = re.compile(PIPELINE_NAME)
# Bounds that every clock can show in any time zone.
_BEGAN_MIN = datetime(1970, 1, 1, tzinfo=UTC)
_BEGAN_END = datetime(2200, 1, 1, tzinfo=UTC)


class RunService(Service):
    """The runs that the broker knows of."""

    def __init__(self, core: Core) -> None:
        super().__init__(core)
        self.pipelines = RunTable[RunReport](PIPELINE)
        self.jobs = RunTable[JobReport](JOB)

    def now(self) -> Now:
        """Return the current moment."""
        return Now(self.core.clock.now_ms(), int(self.core.clock.monotonic() * 1000))


@operation("pipelines.report", on="pipeline")
async def report_run(
    runs: RunService, caller: Caller, pipeline: str, report: RunReport, plan: bytes | None
) -> DesiredState:
    """Keep the report of a run of a pipeline, and return whether the run should go on."""
    if not _PIPELINE_NAME.fullmatch(pipeline):
        raise Invalid(
            f"{pipeline[:250]!r} cannot be the name of a pipeline",
            hint="up to 100 letters, digits, dots, underscores and hyphens",
        )
    if plan is not None and len(plan) > PLAN_BYTES_MAX:
        raise Invalid(f"the plan has {len(plan):,} bytes, at most {PLAN_BYTES_MAX:,} are kept")
    if len({query.name for query in report.queries}) < len(report.queries):
        raise Invalid("two queries have the same name")
    return runs.pipelines.report(pipeline, report.run_id, report, runs.now(), plan)


@operation("pipelines.list", on="cluster")
async def list_pipelines(runs: RunService, caller: Caller) -> Sequence[PipelineView]:
    """Return all pipelines with a recent report, by name."""
    return seen_pipelines(runs)


def seen_pipelines(runs: RunService) -> Sequence[PipelineView]:
    """Return all pipelines with a recent report, for the broker itself."""
    return runs.pipelines.all(runs.now())


@operation("pipelines.describe", on="pipeline")
async def find_pipeline(runs: RunService, caller: Caller, pipeline: str) -> PipelineView:
    """Return a pipeline with its last report."""
    return runs.pipelines.find(pipeline, runs.now())


@operation("pipelines.stop", on="pipeline")
async def stop_pipeline(runs: RunService, caller: Caller, pipeline: str) -> PipelineView:
    """Ask the run of a pipeline to stop, in the reply to its next report; return its last report."""
    return runs.pipelines.stop(pipeline, runs.now())


@operation("pipelines.forget", on="pipeline")
async def forget_pipeline(runs: RunService, caller: Caller, pipeline: str) -> None:
    """Forget a pipeline that does not run."""
    runs.pipelines.forget(pipeline, runs.now())


@operation("jobs.report", on="job")
async def report_job(runs: RunService, caller: Caller, run_id: str, report: JobReport) -> None:
    """Keep the report of a run of a job."""
    if not _JOB_ID.fullmatch(run_id):
        raise Invalid(
            f"the id of a run cannot be {run_id[:250]!r}",
            hint="up to 100 letters, digits, dots, underscores and hyphens",
        )
    if not _BEGAN_MIN <= report.started_at < _BEGAN_END:
        raise Invalid(f"a run cannot have begun at {report.started_at.isoformat()}")
    runs.jobs.report(run_id, run_id, report, runs.now())


@operation("jobs.list", on="cluster")
async def list_jobs(runs: RunService, caller: Caller) -> Sequence[JobView]:
    """Return all runs of jobs with a recent report, the newest first."""
    return runs.jobs.all(runs.now())


@operation("jobs.describe", on="job")
async def find_job(runs: RunService, caller: Caller, run_id: str) -> JobView:
    """Return a run of a job with its last report."""
    return runs.jobs.find(run_id, runs.now())
