"""Jobs by HTTP: what their runs report, and who sees it."""

from __future__ import annotations

from datetime import datetime

import msgspec

from goqueue.api.fields import Timestamp
from goqueue.broker.runs.jobs import find_job, list_jobs, report_job
from goqueue.errors import Invalid, UnknownJob
from goqueue.machines.runs.job_values import JobReport, JobState, JobView
from goqueue.protocols.http.api.groups.shapes import moment
from goqueue.protocols.http.calls import Context
from goqueue.protocols.http.route import route


class Job(msgspec.Struct, kw_only=True):
    """A run of a job; it is `lost` if it has not reported for ten seconds, though it has not ended.

    `offsets_done` of `offsets` are behind it, null if that is not known; `read` and `written` are messages of this run.
    """

    id: str
    verb: str
    name: str
    state: JobState
    is_running: bool
    started_at: datetime
    reported_at: Timestamp
    silent_seconds: float
    description: str
    master: str
    offsets_done: int
    offsets: int | None
    read: int
    written: int
    rows_per_second: float
    error: str | None


class Jobs(msgspec.Struct):
    """The runs of jobs that were heard of lately, those that began last first."""

    jobs: list[Job]


@route("POST", "/jobs/{job}/report", "jobs.report", status=204, errors=(Invalid,))
async def report(context: Context, body: JobReport) -> None:
    """Tell how a run of a job is."""
    await report_job(context.broker, context.caller, context.path["job"], body)


@route("GET", "/jobs", "jobs.list")
async def list_all(context: Context) -> Jobs:
    """List runs of jobs, those that began last first."""
    return Jobs([_shown(view) for view in await list_jobs(context.broker, context.caller)])


@route("GET", "/jobs/{job}", "jobs.describe", errors=(UnknownJob,))
async def describe(context: Context) -> Job:
    """Describe a run of a job."""
    return _shown(await find_job(context.broker, context.caller, context.path["job"]))


def _shown(view: JobView) -> Job:
    run = view.report
    return Job(
        id=view.id,
        verb=run.verb,
        name=run.name,
        state=view.state,
        is_running=view.is_running,
        started_at=run.started_at,
        reported_at=moment(view.heard_ms),
        silent_seconds=view.silent_ms / 1000,
        description=run.description,
        master=run.master,
        offsets_done=run.offsets_done,
        offsets=run.offsets,
        read=run.read,
        written=run.written,
        rows_per_second=run.rows_per_second if view.is_running else 0.0,
        error=run.error,
    )
