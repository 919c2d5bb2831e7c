"""Pipelines and their runs."""

from __future__ import annotations

from goqueue.errors.kinds import Conflict, NotFound


class UnknownPipeline(NotFound):
    """No run of a pipeline of that name has reported, or the last one is forgotten."""

    code = "unknown_pipeline"


class PipelineRunning(Conflict):
    """A run of the pipeline is under way: another one would share its checkpoints, and it cannot be forgotten."""

    code = "pipeline_running"
