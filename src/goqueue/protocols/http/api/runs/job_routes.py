"""Rows of the table of routes: jobs."""

from __future__ import annotations

from collections.abc import Sequence

from goqueue.errors import Invalid, UnknownJob
from goqueue.machines.runs.job_values import JobReport
from goqueue.protocols.http.api.runs import jobs
from goqueue.protocols.http.calls import Operation

OPERATIONS: Sequence[Operation] = (
    Operation(
        name="jobs.report",
        method="POST",
        path="/jobs/{job}/report",
        summary="Tell how a run of a job is",
        handle=jobs.report,
        request=JobReport,
        status=204,
        errors=(Invalid,),
    ),
    Operation(
        name="jobs.list",
        method="GET",
        path="/jobs",
        summary="List runs of jobs, those that began last first",
        handle=jobs.list_all,
        reply=jobs.Jobs,
    ),
    Operation(
        name="jobs.describe",
        method="GET",
        path="/jobs/{job}",
        summary="Describe a run of a job",
        handle=jobs.describe,
        reply=jobs.Job,
        errors=(UnknownJob,),
    ),
)
