"""A pipeline as boxes and arrows: what the drawings and the plan for programs show."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from goqueue.spark.pipelines.render.describe import sink_words, source_words, step_words, trigger_words
from goqueue.spark.pipelines.spec.model import PipelineSpec


class BoxKind(StrEnum):
    """The part that a box stands for; `DEAD` is the topic of the dead letters."""

    SOURCE = "source"
    STEP = "step"
    SINK = "sink"
    DEAD = "dead letters"


@dataclass(frozen=True, slots=True)
class Box:
    """A part of a pipeline; `reads` are the ids of others, and `words` say what it does."""

    id: str
    kind: BoxKind
    name: str
    words: tuple[str, ...]
    reads: tuple[str, ...] = ()
    is_stream: bool = False


@dataclass(frozen=True, slots=True)
class Picture:
    """Boxes, each after its inputs."""

    title: str
    subtitle: str
    boxes: tuple[Box, ...]


def picture_of(pipeline: PipelineSpec) -> Picture:
    """Return the picture of a pipeline."""
    boxes = {box.id: box for box in _boxes(pipeline)}
    title = f"pipeline {pipeline.name}"
    about = trigger_words(pipeline.trigger)
    return Picture(
        title,
        f"{about} · {pipeline.description}" if pipeline.description else about,
        tuple(_as_drawn(boxes)),
    )


def _as_drawn(boxes: dict[str, Box]) -> Iterator[Box]:
    """Yield each box after its inputs and as near to them as possible, so that few lines run in parallel."""
    placed: dict[str, int] = {}
    waiting = list(boxes.values())
    while waiting:
        ready = [box for box in waiting if all(read in placed for read in box.reads)]
        ends = [box for box in ready if box.kind in {BoxKind.SINK, BoxKind.DEAD}]
        steps = [box for box in ready if box.kind is BoxKind.STEP]
        steps.sort(key=lambda box: -max(placed[read] for read in box.reads))
        # # A source comes last, directly before its first reader.
        chosen = (ends or steps or _wanted_sources(waiting, ready))[0]
        placed[chosen.id] = len(placed)
        waiting.remove(chosen)
        yield chosen


def _wanted_sources(waiting: list[Box], ready: list[Box]) -> list[Box]:
    """Return the sources that can be next, those first which the first of the waiting steps reads."""
    wanted = [read for box in waiting for read in box.reads]
    return sorted(ready, key=lambda box: wanted.index(box.id) if box.id in wanted else len(wanted))


def _boxes(pipeline: PipelineSpec) -> Iterator[Box]:
    streams: set[str] = set()
    for source in pipeline.sources:
        if source.is_stream:
            streams.add(source.name)
        yield Box(source.name, BoxKind.SOURCE, source.name, tuple(source_words(source)), (), source.is_stream)
    for step in pipeline.steps:
        if streams & set(step.inputs):
            streams.add(step.name)
        yield Box(step.name, BoxKind.STEP, step.name, tuple(step_words(step)), step.inputs, step.name in streams)
    for sink in pipeline.sinks:
        # A sink may have the name of a step, and no step has a colon in its name.
        yield Box(
            f"sink:{sink.name}", BoxKind.SINK, sink.name, tuple(sink_words(sink)), (sink.input,), sink.input in streams
        )
    if dying := tuple(pipeline.dead_letter_parts):
        words = (f"topic {pipeline.dead_letters}",)
        yield Box("dlq:", BoxKind.DEAD, pipeline.dead_letters, words, dying, bool(streams & set(dying)))
