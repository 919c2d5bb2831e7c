"""Jobs: they run elsewhere and report here, so that they can be seen from anywhere.

Nothing of it is stored; what is known lives in `machines/runs/table`.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from goqueue.broker.admission import Caller, operation
from goqueue.errors import Invalid
from goqueue.machines.decision import Now
from goqueue.machines.runs.table import JobView
from goqueue.machines.runs.values import JOB_ID, JobReport

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.broker.runs.service import RunService

_ID = re.compile(JOB_ID)
# Bounds that every clock can show in any time zone.
_BEGAN_MIN = datetime(1970, 1, 1, tzinfo=UTC)
_BEGAN_END = datetime(2200, 1, 1, tzinfo=UTC)


@operation("jobs.report", on="job")
async def report_job(runs: RunService, caller: Caller, run_id: str, report: JobReport) -> None:
    """Take what a run of a job says."""
    if not _ID.fullmatch(run_id):
        raise Invalid(
            f"the id of a run cannot be {run_id[:250]!r}",
            hint="up to 100 letters, digits, dots, underscores and hyphens",
        )
    if not _BEGAN_MIN <= report.started_at < _BEGAN_END:
        raise Invalid(f"a run cannot have begun at {report.started_at.isoformat()}")
    runs.jobs.report(run_id, run_id, report, _now(runs))


@operation("jobs.list", on="cluster")
async def list_jobs(runs: RunService, caller: Caller) -> Sequence[JobView]:
    """Return all runs of jobs that were heard of lately, those that began last first."""
    return runs.jobs.all(_now(runs))


@operation("jobs.describe", on="job")
async def find_job(runs: RunService, caller: Caller, run_id: str) -> JobView:
    """Return how a run of a job is."""
    return runs.jobs.find(run_id, _now(runs))


def _now(runs: RunService) -> Now:
    return Now(runs.core.clock.now_ms(), int(runs.core.clock.monotonic() * 1000))
