"""Descriptions of the parts of a pipeline, for plans and reports."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import PurePath
from typing import assert_never

from goqueue.model.units import duration_text
from goqueue.spark.pipelines.spec.model import (
    Aggregate,
    ArchiveSource,
    AvailableNow,
    BatchSink,
    ConsoleSink,
    Decode,
    DecodeFormat,
    DeltaSink,
    FileSink,
    FileSource,
    Interval,
    JoinTransform,
    Mode,
    PipelineStep,
    PythonFunction,
    PythonTransform,
    Sink,
    Source,
    SqlTransform,
    TimeWindow,
    TopicSink,
    TopicSource,
    Trigger,
)


def trigger_words(trigger: Trigger) -> str:
    """Return when batches run."""
    match trigger:
        case AvailableNow():
            return "works off what is available now"
        case Interval(interval_ms):
            return f"every {duration_text(interval_ms)}"
        case _:
            assert_never(trigger)


def source_words(source: Source) -> list[str]:
    """Return what a source reads: first what it is, then how."""
    match source:
        case TopicSource():
            start = source.start.isoformat() if isinstance(source.start, datetime) else source.start.value
            limit = [f"at most {source.rows_per_batch_max:,} rows a batch"] if source.rows_per_batch_max else []
            return [f"topic {', '.join(source.topics)}", f"from {start}", *_decode_words(source.decode), *limit]
        case ArchiveSource():
            return [f"archive {source.path}", *_decode_words(source.decode)]
        case FileSource():
            return [f"{source.format.value} {source.path}", *(["files as they come"] if source.is_stream else [])]
        case _:
            assert_never(source)


def step_words(step: PipelineStep) -> list[str]:
    """Return what a step does, in the order in which it does it."""
    words = list(_transform_words(step))
    words += [f"{rule.action.value} {rule.name}: {one_line(rule.condition)}" for rule in step.expectations]
    if step.watermark:
        words.append(f"watermark {step.watermark.column}, {duration_text(step.watermark.delay_ms)} late")
    if step.deduplicate:
        words.append(f"deduplicate by {', '.join(step.deduplicate.columns)}")
    if step.aggregate:
        words += _aggregate_words(step.aggregate)
    return words


def sink_words(sink: Sink) -> list[str]:
    """Return where a sink writes: first what it is, then how."""
    mode = [] if sink.mode is Mode.APPEND else [f"mode {sink.mode.value}"]
    match sink:
        case TopicSink():
            key = [f"key {sink.key}"] if sink.key else []
            value = [f"value {sink.value}"] if sink.value else []
            return [f"topic {sink.topic}", *key, *value, *mode]
        case FileSink():
            by = [f"partitioned by {', '.join(sink.partition_by)}"] if sink.partition_by else []
            return [f"{sink.format.value} {sink.path}", *by]
        case DeltaSink():
            by = [f"partitioned by {', '.join(sink.partition_by)}"] if sink.partition_by else []
            return [f"delta {sink.path}", *by]
        case ConsoleSink():
            return [f"console, {sink.rows} rows a batch", *mode]
        case BatchSink():
            return [f"function {function_words(sink.function)}", *mode]
        case _:
            assert_never(sink)


def function_words(function: PythonFunction) -> str:
    """Return a function without the directories of its file."""
    where, colon, name = function.reference.rpartition(":")
    return f"{PurePath(where).name}:{name}" if colon else name


def one_line(text: str) -> str:
    """Return a text on one line, with single blanks."""
    return " ".join(text.split())


def _decode_words(decode: Decode) -> Iterator[str]:
    if decode.format is DecodeFormat.JSON:
        yield f"json: {one_line(decode.schema)}"
    elif decode.format is DecodeFormat.TEXT:
        yield "text"
    elif decode.values:
        from goqueue.spark.values.decode import reader_of

        yield reader_of(decode.values).name
    if decode.keep:
        yield f"with {', '.join(decode.keep)}"


def _transform_words(step: PipelineStep) -> Iterator[str]:
    match step.transform:
        case None:
            return
        case SqlTransform(text):
            yield f"sql {one_line(text)}"
        case PythonTransform(function):
            yield f"function {function_words(function)}"
        case JoinTransform() as join:
            on = f"on {one_line(join.condition)}" if join.condition else f"by {', '.join(join.columns)}"
            yield f"{join.kind.value} join with {step.inputs[-1]} {on}"
        case _:
            assert_never(step.transform)


def _aggregate_words(aggregate: Aggregate) -> Iterator[str]:
    if aggregate.window:
        yield _window_words(aggregate.window)
    if aggregate.group_by:
        yield f"group by {', '.join(aggregate.group_by)}"
    for name, expression in aggregate.columns.items():
        yield f"{name} = {one_line(expression)}"


def _window_words(window: TimeWindow) -> str:
    if window.gap_ms:
        return f"sessions of {window.column}, {duration_text(window.gap_ms)} apart"
    slide = f", every {duration_text(window.slide_ms)}" if window.slide_ms != window.size_ms else ""
    return f"windows of {duration_text(window.size_ms)} over {window.column}{slide}"
