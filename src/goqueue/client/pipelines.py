"""Calls about pipelines: runs report how they are and hear what is wished of them, everybody else looks and stops.

A run is one life of a pipeline. It reports every second or two; silent for ten seconds, it counts as lost. Two runs of
one pipeline would share its checkpoints, so a second one is refused while the first is under way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import quote

import msgspec

from goqueue.client.calls import Call, Reply, read_nothing, reading
from goqueue.client.pipeline_values import (
    Pipeline,
    PipelineReport,
    PipelineStop,
    PipelineSummary,
    PipelineWish,
    QueryProgress,
)


class _Pipelines(msgspec.Struct):
    pipelines: list[PipelineSummary]


_read_wish = reading(PipelineWish)
_read_pipelines = reading(_Pipelines)
_read_pipeline = reading(Pipeline)
_read_stop = reading(PipelineStop)
_encode = msgspec.json.Encoder().encode

# What the broker takes.
_TEXT_MAX = 4000
_NAME_MAX = 200
_QUERIES_MAX = 100
_RULES_MAX = 100
_PLAN_BYTES_MAX = 256 * 1024


def report(pipeline: str, state: PipelineReport) -> Call[PipelineWish]:
    """Say how a run is, and hear what is wished of it; what is too long is cut, a plan is left out.

    PipelineRunning if another run of the pipeline is under way: this one must not touch its checkpoints.
    """
    body = _encode(_bounded(state))
    return Call("POST", f"{_path(pipeline)}/report", _read_wish, body=body, is_repeatable=True)


def _bounded(state: PipelineReport) -> PipelineReport:
    """Return a report that the broker takes: a run that is refused for its words could not be stopped any more."""
    return msgspec.structs.replace(
        state,
        master=state.master[:_TEXT_MAX],
        trigger=state.trigger[:_TEXT_MAX],
        description=state.description[:_TEXT_MAX],
        error=None if state.error is None else state.error[:_TEXT_MAX],
        plan=None if state.plan is None or len(_encode(state.plan)) > _PLAN_BYTES_MAX else state.plan,
        queries=tuple(map(_bounded_query, state.queries[:_QUERIES_MAX])),
    )


def _bounded_query(query: QueryProgress) -> QueryProgress:
    return msgspec.structs.replace(
        query,
        name=query.name[:_NAME_MAX],
        bad_rows=_bounded_counts(query.bad_rows),
        warned_rows=_bounded_counts(query.warned_rows),
    )


def _bounded_counts(counts: Mapping[str, int]) -> dict[str, int]:
    most = sorted(counts.items(), key=lambda each: -each[1])[:_RULES_MAX]
    return {rule[:_NAME_MAX]: count for rule, count in sorted(most)}


def list_all() -> Call[Sequence[PipelineSummary]]:
    """List the pipelines that were heard of within the last hour, by name."""

    def read(reply: Reply) -> Sequence[PipelineSummary]:
        return _read_pipelines(reply).pipelines

    return Call("GET", "/v1/pipelines", read)


def describe(pipeline: str) -> Call[Pipeline]:
    """Describe a pipeline with its queries; UnknownPipeline if nothing was heard of it lately."""
    return Call("GET", _path(pipeline), _read_pipeline)


def stop(pipeline: str) -> Call[PipelineStop]:
    """Wish that the run of a pipeline stops; it hears of it with its next report, and then takes its time."""
    return Call("POST", f"{_path(pipeline)}/stop", _read_stop, body=b"{}", is_repeatable=True)


def forget(pipeline: str) -> Call[None]:
    """Forget a pipeline that does not run; PipelineRunning if it does."""
    return Call("DELETE", _path(pipeline), read_nothing)


def _path(pipeline: str) -> str:
    return f"/v1/pipelines/{quote(pipeline, safe='')}"
