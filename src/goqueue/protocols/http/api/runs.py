"""Runs of pipelines and jobs by HTTP: their reports, how they are, and how pipelines are stopped."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from goqueue.api.fields import Timestamp
from goqueue.broker.runs import (
    find_job,
    find_pipeline,
    forget_pipeline,
    list_jobs,
    list_pipelines,
    report_job,
    report_run,
    stop_pipeline,
)
from goqueue.errors import Invalid, MalformedRequest, PipelineRunning, UnknownJob, UnknownPipeline
from goqueue.machines.runs.table import JobView, PipelineView
from goqueue.machines.runs.values import (
    PLAN_BYTES_MAX,
    QUERIES_MAX,
    TEXT_MAX,
    Count,
    DesiredState,
    JobReport,
    JobState,
    Moment,
    Name,
    PipelineState,
    QueryProgress,
    RunReport,
    RunState,
)
from goqueue.protocols.http.calls import Context
from goqueue.protocols.http.route import route
from goqueue.protocols.http.wire.times import moment

_Text = Annotated[str, Meta(max_length=TEXT_MAX)]
_encode = msgspec.json.Encoder().encode


class PipelineReport(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The report of a pipeline run, sent every second or two.

    `run_id` tells runs apart. `error` is the last error. The plan need not be sent every time: the broker keeps the
    last one of the run.
    """

    run_id: Name
    state: RunState
    started_at: Moment
    master: _Text = ""
    trigger: _Text = ""
    description: _Text = ""
    restarts: Count = 0
    error: _Text | None = None
    plan: Annotated[Any, Meta(description=f"Any JSON, up to {PLAN_BYTES_MAX:,} bytes.")] = None
    queries: Annotated[list[QueryProgress], Meta(max_length=QUERIES_MAX)] = []


class PipelineWish(msgspec.Struct):
    """The desired state of a run; a run that should stop finishes cleanly first."""

    wish: DesiredState


class PipelineToStop(msgspec.Struct, forbid_unknown_fields=True):
    """An empty object."""


class PipelineStop(msgspec.Struct, kw_only=True):
    """The run that should stop, and its state; if it `is_running`, the reply to its next report says so."""

    name: str
    run_id: str
    state: PipelineState
    is_running: bool


class _Seen(msgspec.Struct):
    name: str
    state: PipelineState
    is_running: bool
    wish: DesiredState
    run_id: str
    started_at: datetime
    reported_at: Timestamp
    silent_seconds: float
    master: str
    trigger: str
    description: str
    restarts: int
    error: str | None


class PipelineSummary(_Seen, kw_only=True):
    """A pipeline, with the sums over its queries; `lag` is in messages, null if unknown for all queries.

    It is `lost` if its run has not ended but not reported for ten seconds.
    """

    queries: int
    rows: int
    rows_per_second: float
    lag: int | None
    bad_rows: int
    warned_rows: int


class Pipelines(msgspec.Struct):
    """The pipelines that reported lately, by name."""

    pipelines: list[PipelineSummary]


class Pipeline(_Seen, kw_only=True):
    """A pipeline with its queries, and its plan, if the run has sent one."""

    queries: list[QueryProgress]
    plan: Any


@route("POST", "/pipelines/{pipeline}/report", "pipelines.report", errors=(Invalid, PipelineRunning))
async def report_pipeline(context: Context, body: PipelineReport) -> PipelineWish:
    """Report the state of a pipeline run; the reply says whether to stop."""
    run = RunReport(
        run_id=body.run_id,
        state=body.state,
        started_at=body.started_at,
        master=body.master,
        trigger=body.trigger,
        description=body.description,
        restarts=body.restarts,
        error=body.error,
        queries=tuple(body.queries),
    )
    return PipelineWish(
        await report_run(context.broker.runs, context.caller, context.path["pipeline"], run, _plan(body.plan))
    )


def _plan(plan: Any) -> bytes | None:
    if plan is None:
        return None
    try:
        return _encode(plan)
    except RecursionError:
        raise MalformedRequest("the plan is nested too deeply") from None


@route("GET", "/pipelines", "pipelines.list")
async def all_pipelines(context: Context) -> Pipelines:
    """List pipelines that run, or ran lately."""
    found = await list_pipelines(context.broker.runs, context.caller)
    return Pipelines([_summary(view) for view in found])


@route("GET", "/pipelines/{pipeline}", "pipelines.describe", errors=(UnknownPipeline,))
async def describe_pipeline(context: Context) -> Pipeline:
    """Describe a pipeline with its queries and plan."""
    view = await find_pipeline(context.broker.runs, context.caller, context.path["pipeline"])
    plan = None if view.plan is None else msgspec.Raw(view.plan)
    return Pipeline(**_seen(view), queries=list(view.report.queries), plan=plan)


@route("POST", "/pipelines/{pipeline}/stop", "pipelines.stop", errors=(UnknownPipeline,))
async def stop(context: Context, _: PipelineToStop) -> PipelineStop:
    """Ask the run of a pipeline to stop."""
    view = await stop_pipeline(context.broker.runs, context.caller, context.path["pipeline"])
    return PipelineStop(
        name=view.name, run_id=view.report.run_id, state=_pipeline_state(view), is_running=view.is_running
    )


@route("DELETE", "/pipelines/{pipeline}", "pipelines.forget", status=204, errors=(UnknownPipeline, PipelineRunning))
async def forget(context: Context) -> None:
    """Forget a pipeline that is not running."""
    await forget_pipeline(context.broker.runs, context.caller, context.path["pipeline"])


def _summary(view: PipelineView) -> PipelineSummary:
    queries = view.report.queries
    lags = [query.lag for query in queries if query.lag is not None]
    return PipelineSummary(
        **_seen(view),
        queries=len(queries),
        rows=sum(query.rows for query in queries),
        rows_per_second=sum(query.rows_per_second for query in queries) if view.is_running else 0.0,
        lag=sum(lags) if lags else None,
        bad_rows=sum(sum(query.bad_rows.values()) for query in queries),
        warned_rows=sum(sum(query.warned_rows.values()) for query in queries),
    )


def _pipeline_state(view: PipelineView) -> PipelineState:
    return PipelineState.LOST if view.is_lost else PipelineState(view.report.state)


def _seen(view: PipelineView) -> dict[str, Any]:
    run = view.report
    return {
        "name": view.name,
        "state": _pipeline_state(view),
        "is_running": view.is_running,
        "wish": view.desired,
        "run_id": run.run_id,
        "started_at": run.started_at,
        "reported_at": moment(view.heard_ms),
        "silent_seconds": view.silent_ms / 1000,
        "master": run.master,
        "trigger": run.trigger,
        "description": run.description,
        "restarts": run.restarts,
        "error": run.error,
    }


class Job(msgspec.Struct, kw_only=True):
    """A job run; it is `lost` if it has not ended but not reported for ten seconds.

    `offsets_done` of `offsets` are processed, null if unknown; `read` and `written` count messages of this run.
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
    """The job runs that reported lately, newest first."""

    jobs: list[Job]


@route("POST", "/jobs/{job}/report", "jobs.report", status=204, errors=(Invalid,))
async def report_run_of_job(context: Context, body: JobReport) -> None:
    """Report the state of a job run."""
    await report_job(context.broker.runs, context.caller, context.path["job"], body)


@route("GET", "/jobs", "jobs.list")
async def all_jobs(context: Context) -> Jobs:
    """List job runs, newest first."""
    return Jobs([_job(view) for view in await list_jobs(context.broker.runs, context.caller)])


@route("GET", "/jobs/{job}", "jobs.describe", errors=(UnknownJob,))
async def describe_job(context: Context) -> Job:
    """Describe a job run."""
    return _job(await find_job(context.broker.runs, context.caller, context.path["job"]))


def _job(view: JobView) -> Job:
    run = view.report
    return Job(
        id=view.name,
        verb=run.verb,
        name=run.name,
        state=JobState.LOST if view.is_lost else JobState(run.state),
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
