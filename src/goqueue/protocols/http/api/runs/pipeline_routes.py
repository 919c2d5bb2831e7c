"""Rows of the table of routes: pipelines."""

from __future__ import annotations

from collections.abc import Sequence

from goqueue.errors import Invalid, PipelineRunning, UnknownPipeline
from goqueue.protocols.http.api.runs import pipelines
from goqueue.protocols.http.calls import Operation

OPERATIONS: Sequence[Operation] = (
    Operation(
        name="pipelines.report",
        method="POST",
        path="/pipelines/{pipeline}/report",
        summary="Tell how a run of a pipeline is, and hear whether it is to stop",
        handle=pipelines.report,
        request=pipelines.PipelineReport,
        reply=pipelines.PipelineWish,
        errors=(Invalid, PipelineRunning),
    ),
    Operation(
        name="pipelines.list",
        method="GET",
        path="/pipelines",
        summary="List pipelines that run, or did lately",
        handle=pipelines.list_all,
        reply=pipelines.Pipelines,
    ),
    Operation(
        name="pipelines.describe",
        method="GET",
        path="/pipelines/{pipeline}",
        summary="Describe a pipeline with its queries and its plan",
        handle=pipelines.describe,
        reply=pipelines.Pipeline,
        errors=(UnknownPipeline,),
    ),
    Operation(
        name="pipelines.stop",
        method="POST",
        path="/pipelines/{pipeline}/stop",
        summary="Wish that the run of a pipeline stops, and tell whether there is one",
        handle=pipelines.stop,
        request=pipelines.PipelineToStop,
        reply=pipelines.PipelineStop,
        errors=(UnknownPipeline,),
    ),
    Operation(
        name="pipelines.forget",
        method="DELETE",
        path="/pipelines/{pipeline}",
        summary="Forget a pipeline that does not run",
        handle=pipelines.forget,
        status=204,
        errors=(UnknownPipeline, PipelineRunning),
    ),
)
