"""A pipeline while it is checked: its parts as written, and properties of their results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from goqueue.spark.pipelines.spec.model import Source
from goqueue.spark.pipelines.spec.nodes import ScalarNode
from goqueue.spark.pipelines.spec.sinks import SinkDraft
from goqueue.spark.pipelines.spec.steps import StepDraft


@dataclass(frozen=True, slots=True)
class PipelineDraft:
    """The parts of a pipeline by their keys, with names that may not exist."""

    sources: Mapping[ScalarNode, Source]
    steps: Mapping[ScalarNode, StepDraft]
    sinks: Mapping[ScalarNode, SinkDraft]


@dataclass(slots=True)
class Flow:
    """Properties of a result: whether it is a stream, has a watermark, and is aggregated."""

    is_stream: bool = False
    has_watermark: bool = False
    aggregations: int = 0
    has_sessions: bool = False
    groups_in_sql: bool = False
