"""Pipelines: they run elsewhere and report here, so that they can be seen and stopped from anywhere.

Nothing of it is stored; what is known lives in `machines/runs/table`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from goqueue.broker.admission import Caller, operation
from goqueue.errors import Invalid
from goqueue.machines.decision import Now
from goqueue.machines.runs.table import PipelineView
from goqueue.machines.runs.values import PIPELINE_NAME, PLAN_BYTES_MAX, DesiredState, RunReport

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.broker.runs.service import RunService

_NAME = re.compile(PIPELINE_NAME)


@operation("pipelines.report", on="pipeline")
async def report_run(
    runs: RunService, caller: Caller, pipeline: str, report: RunReport, plan: bytes | None
) -> DesiredState:
    """Take what a run of a pipeline says, and return what is wished of it."""
    if not _NAME.fullmatch(pipeline):
        raise Invalid(
            f"a pipeline cannot be called {pipeline[:250]!r}",
            hint="up to 100 letters, digits, dots, underscores and hyphens",
        )
    if plan is not None and len(plan) > PLAN_BYTES_MAX:
        raise Invalid(f"the plan has {len(plan):,} bytes, at most {PLAN_BYTES_MAX:,} are kept")
    if len({query.name for query in report.queries}) < len(report.queries):
        raise Invalid("two queries have the same name")
    return runs.pipelines.report(pipeline, report.run_id, report, _now(runs), plan)


@operation("pipelines.list", on="cluster")
async def list_pipelines(runs: RunService, caller: Caller) -> Sequence[PipelineView]:
    """Return all pipelines that were heard of lately, by name."""
    return seen_pipelines(runs)


def seen_pipelines(runs: RunService) -> Sequence[PipelineView]:
    """Return all pipelines as the broker itself sees them."""
    return runs.pipelines.all(_now(runs))


@operation("pipelines.describe", on="pipeline")
async def find_pipeline(runs: RunService, caller: Caller, pipeline: str) -> PipelineView:
    """Return how a pipeline is."""
    return runs.pipelines.find(pipeline, _now(runs))


@operation("pipelines.stop", on="pipeline")
async def stop_pipeline(runs: RunService, caller: Caller, pipeline: str) -> PipelineView:
    """Let the run of a pipeline know with its next report that it is to stop; return how it is until then."""
    return runs.pipelines.stop(pipeline, _now(runs))


@operation("pipelines.forget", on="pipeline")
async def forget_pipeline(runs: RunService, caller: Caller, pipeline: str) -> None:
    """Forget a pipeline that does not run."""
    runs.pipelines.forget(pipeline, _now(runs))


def _now(runs: RunService) -> Now:
    return Now(runs.core.clock.now_ms(), int(runs.core.clock.monotonic() * 1000))
