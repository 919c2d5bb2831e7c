"""Checks of a whole pipeline:

unknown and duplicate names, circles, unused parts, and what Spark would refuse or never finish on a stream: state that
grows without a watermark, and sinks that wait for results which are never final.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from goqueue.spark.pipelines.checks.draft import Flow, PipelineDraft
from goqueue.spark.pipelines.checks.nondeterminism import check_nondeterminism
from goqueue.spark.pipelines.checks.writes import check_writes
from goqueue.spark.pipelines.graph import circles, in_order, upstream
from goqueue.spark.pipelines.spec.fields import Reference
from goqueue.spark.pipelines.spec.model import Mode, PipelineSpec
from goqueue.spark.pipelines.spec.nodes import Notes, ScalarNode, SourceLocation
from goqueue.spark.pipelines.spec.sinks import SinkDraft
from goqueue.spark.pipelines.spec.steps import StepDraft
from goqueue.spark.suggestions import suggestion

_WATERMARK_HINT = "add watermark: {column: ..., delay: 10m} to this step, or to one before it"


@dataclass(slots=True)
class _Names:
    """Names without regard to case, as in SQL."""

    by_folded: dict[str, str] = field(default_factory=dict)

    def resolve(self, reference: Reference, what: str, notes: Notes) -> str:
        """Return the name as it was given; nothing if there is none, which is noted."""
        name = self.by_folded.get(reference.name.casefold(), "")
        if not name:
            hint = suggestion(reference.name, list(self.by_folded.values()))
            notes.error(reference.place, f"{what} reads {reference.name}, but there is no such source or step", hint)
        return name


def check(draft: PipelineDraft, spec: PipelineSpec, notes: Notes) -> PipelineSpec | None:
    """Return the pipeline with its steps in order and its names resolved; None if there is any error."""
    names = _names(draft, notes)
    reads: dict[str, list[str]] = {source.name: [] for source in draft.sources.values()} | {
        key.text: [names.resolve(reference, f"step {key.text}", notes) for reference in step.reads]
        for key, step in draft.steps.items()
    }
    inputs = {
        key.text: [names.resolve(reference, f"sink {key.text}", notes) for reference in sink.reads]
        for key, sink in draft.sinks.items()
    }
    places = {key.text: key.place for key in [*draft.sources, *draft.steps]}
    _check_circles(reads, places, notes)
    _check_unused(draft, reads, upstream(reads, [name for read in inputs.values() for name in read]), notes)
    flows = _check_streams(draft, reads, notes)
    for key, sink in draft.sinks.items():
        for name in inputs[key.text]:
            if name in flows:
                _check_mode(key, sink, flows[name], notes)
    check_writes(draft, reads, flows, spec.dead_letters, notes)
    check_nondeterminism(draft, reads, inputs, notes)
    if notes.has_errors:
        return None
    steps = {step.step.name: step.step for step in draft.steps.values()}
    return replace(
        spec,
        steps=tuple(replace(steps[name], inputs=tuple(reads[name])) for name in in_order(reads) if name in steps),
        sinks=tuple(replace(sink.sink, input=inputs[key.text][0]) for key, sink in draft.sinks.items()),
    )


def _names(draft: PipelineDraft, notes: Notes) -> _Names:
    names = _Names()
    sources = {key.text.casefold(): key for key in draft.sources}
    for key in [*draft.sources, *draft.steps]:
        names.by_folded.setdefault(key.text.casefold(), key.text)
    for key in draft.steps:
        if source := sources.get(key.text.casefold()):
            notes.error(
                key.place,
                f"step {key.text} has the name of a source",
                f"the source is in line {source.place.line}; every source and step needs a name of its own",
            )
    return names


def _check_circles(reads: Mapping[str, list[str]], places: Mapping[str, SourceLocation], notes: Notes) -> None:
    for circle in circles(reads):
        first = min(circle, key=lambda name: places[name])
        start = circle.index(first)
        path = [*circle[start:], *circle[:start], first]
        if len(circle) == 1:
            notes.error(places[first], f"step {first} reads itself")
        else:
            notes.error(places[first], f"steps read each other in a circle: {' <- '.join(path)}")


def _check_unused(draft: PipelineDraft, reads: Mapping[str, list[str]], used: set[str], notes: Notes) -> None:
    is_read = {name for inputs in reads.values() for name in inputs} | used
    for key in [*draft.sources, *draft.steps]:
        noun = "source" if key in draft.sources else "step"
        if key.text not in is_read:
            notes.warning(key.place, f"{noun} {key.text} is not used", "read it from a step or a sink, or remove it")


def _check_streams(draft: PipelineDraft, reads: Mapping[str, list[str]], notes: Notes) -> dict[str, Flow]:
    """Follow the streams through the steps, and note where their state would grow without end."""
    flows = {source.name: Flow(is_stream=source.is_stream) for source in draft.sources.values()}
    steps = {key.text: (key, step) for key, step in draft.steps.items()}
    for name in in_order(reads):
        if name in steps:
            key, step = steps[name]
            flow = flows[name] = _flow(step, [flows[read] for read in reads[name] if read in flows])
            for problem in _growing_state(step) if flow.is_stream and not flow.has_watermark else ():
                notes.warning(key.place, f"step {name} {problem}", _WATERMARK_HINT)
    return flows


def _flow(draft: StepDraft, inputs: list[Flow]) -> Flow:
    aggregate = draft.step.aggregate
    window = aggregate.window if aggregate else None
    return Flow(
        is_stream=any(flow.is_stream for flow in inputs),
        has_watermark=draft.step.watermark is not None or any(flow.has_watermark for flow in inputs),
        aggregations=max((flow.aggregations for flow in inputs), default=0) + (aggregate is not None),
        has_sessions=bool(window and window.gap_ms) or any(flow.has_sessions for flow in inputs),
        groups_in_sql=draft.groups_in_sql or any(flow.groups_in_sql for flow in inputs),
    )


def _growing_state(draft: StepDraft) -> Iterator[str]:
    step = draft.step
    if step.deduplicate is not None:
        yield "removes duplicates from a stream without a watermark: it remembers every row for ever"
    has_window = step.aggregate is not None and step.aggregate.window is not None
    if has_window or (draft.query is not None and draft.query.has_windows):
        yield "has windows on a stream without a watermark: none of them ever ends"


def _check_mode(key: ScalarNode, draft: SinkDraft, flow: Flow, notes: Notes) -> None:
    """Note where Spark would refuse how a stream is written."""
    mode = draft.sink.mode
    is_final = mode is Mode.APPEND
    if not flow.is_stream:
        return
    if mode is Mode.COMPLETE and not (flow.aggregations or flow.groups_in_sql):
        message, hint = "writes complete results, but what it reads is not aggregated", "leave mode away"
    elif mode is Mode.UPDATE and flow.has_sessions:
        message, hint = "writes updates of sessions, which are only known when they end", "leave mode away"
    elif not is_final and flow.aggregations > 1:
        message, hint = "writes what is aggregated twice before it is final", "leave mode away"
    elif is_final and (flow.aggregations or flow.groups_in_sql) and not flow.has_watermark:
        message = "appends results that are never final: they are aggregated without a watermark"
        hint = "write mode: update, or add a watermark before the aggregation"
    else:
        return
    # SQL may group a table that it joins with the stream: then appending is fine.
    note = notes.warning if is_final and not flow.aggregations else notes.error
    note(key.place, f"sink {key.text} {message}", hint)
