"""Whether what a pipeline writes can come to a good end: sinks, and the dead letters.

Two sinks of files cannot share a directory: the second one refuses it, since it holds files of another query. A
topic that is written and read by the same pipeline goes round in a circle. Dead letters are written once they are
final, and those of tables would be written at every start anew.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

from goqueue.spark.pipelines.checks.draft import Flow, PipelineDraft
from goqueue.spark.pipelines.spec.model import (
    DeltaSink,
    FileSink,
    FileSource,
    TopicSink,
    TopicSource,
)
from goqueue.spark.pipelines.spec.nodes import Notes, ScalarNode


def check_writes(
    draft: PipelineDraft, reads: Mapping[str, list[str]], flows: Mapping[str, Flow], dead_letters: str, notes: Notes
) -> None:
    """Note what is wrong with the places that are written, and with the dead letters."""
    _check_directories(draft, notes)
    steps = {key: step.step for key, step in draft.steps.items()}
    dying = {key.text: key for key, part in (*draft.sources.items(), *steps.items()) if part.makes_dead_letters}
    _check_topics(draft, dead_letters if dying else "", notes)
    streams = {name for name in dying if name in flows and flows[name].is_stream}
    for name, key in dying.items():
        if streams and name in flows and name not in streams:
            notes.error(
                key.place,
                f"{name} would make dead letters of a table, at every start anew, beside those of streams",
                "let it drop such rows or fail, or check the table in a pipeline of its own",
            )
    for key, step in draft.steps.items():
        inputs = [flows[name] for name in reads.get(key.text, ()) if name in flows]
        if key.text in dying and any(flow.is_stream for flow in inputs):
            _check_finality(key, inputs, notes, groups_in_sql=step.groups_in_sql)


def _check_directories(draft: PipelineDraft, notes: Notes) -> None:
    writers: dict[str, ScalarNode] = {}
    sources = {
        _normal(source.path): key
        for key, source in draft.sources.items()
        if isinstance(source, FileSource) and source.is_stream
    }
    for key, each in draft.sinks.items():
        if not isinstance(each.sink, FileSink | DeltaSink):
            continue
        path = _normal(each.sink.path)
        first = writers.setdefault(path, key)
        if first is not key:
            message = f"sinks {first.text} and {key.text} write to the same directory: one would lose its rows"
            notes.error(key.place, message, "give each a path of its own")
        if path in sources:
            message = (
                f"sink {key.text} writes to the directory that source {sources[path].text} reads: rows go in a circle"
            )
            notes.error(key.place, message, "write to another directory")


def _check_topics(draft: PipelineDraft, dead_letters: str, notes: Notes) -> None:
    readers = {
        topic: key.text
        for key, source in draft.sources.items()
        if isinstance(source, TopicSource)
        for topic in source.topics
    }
    for key, source in draft.sources.items():
        if isinstance(source, TopicSource) and dead_letters in source.topics:
            message = (
                f"source {key.text} reads {dead_letters}, where dead letters go: they would be dead again, for ever"
            )
            notes.error(key.place, message, "name another topic with dlq:")
    for key, each in draft.sinks.items():
        if isinstance(each.sink, TopicSink) and each.sink.topic in readers:
            message = f"sink {key.text} writes to {each.sink.topic}, which source {readers[each.sink.topic]} reads"
            notes.warning(key.place, message, "unless a step leaves them out, rows go in a circle")


def _check_finality(key: ScalarNode, inputs: list[Flow], notes: Notes, *, groups_in_sql: bool) -> None:
    if any(flow.has_watermark for flow in inputs):
        return
    message = f"dead letters of step {key.text} are never final: what it checks is aggregated without a watermark"
    hint = "add a watermark before the aggregation, or use expect_or_drop"
    if any(flow.aggregations for flow in inputs):
        notes.error(key.place, message, hint)
    elif groups_in_sql or any(flow.groups_in_sql for flow in inputs):
        # SQL may group a table that it joins with the stream.
        notes.warning(key.place, message, hint)


def _normal(path: str) -> str:
    scheme, found, rest = path.partition("://")
    return f"{scheme}://{posixpath.normpath(rest)}" if found else posixpath.normpath(path)
