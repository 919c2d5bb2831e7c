"""Sinks: where rows go."""

from __future__ import annotations

from dataclasses import dataclass

from goqueue.spark.pipelines.spec.fields import MappingReader, Reference
from goqueue.spark.pipelines.spec.functions import ReadFile, parse_function
from goqueue.spark.pipelines.spec.model import (
    BatchSink,
    ConsoleSink,
    DeltaSink,
    FileFormat,
    FileSink,
    Mode,
    Sink,
    TopicSink,
)
from goqueue.spark.pipelines.spec.nodes import MappingNode, ScalarNode, SourceLocation
from goqueue.spark.pipelines.spec.sources import check_topic

_DELTA = "delta"
_KINDS = ["topic", *FileFormat, _DELTA, "console", "foreach_batch"]


@dataclass(frozen=True, slots=True)
class SinkDraft:
    """A sink whose input is only a name yet."""

    sink: Sink
    reads: tuple[Reference, ...]
    place: SourceLocation


def parse_sink(name: str, fields: MappingReader, read: ReadFile) -> SinkDraft:
    """Return a sink."""
    kind = fields.among(_KINDS)
    reads = fields.references("from")
    if not fields.has("from"):
        fields.notes.error(fields.place, f"{fields.what} reads nothing", "add from: with the name of a source or step")
    for reference in reads[1:]:
        fields.notes.error(reference.place, f"{fields.what} can read only one source or step")
    source = reads[0].name if reads else ""
    mode = fields.choice("mode", Mode.APPEND)
    sink: Sink
    if kind == "console":
        sink = ConsoleSink(name, source, _console_rows(fields), mode)
    elif kind == "foreach_batch":
        scalar = fields.needed("foreach_batch", "sinks.py:store")
        what = f"foreach_batch of {fields.what}"
        sink = BatchSink(name, source, parse_function(scalar, what, fields.notes, fields.directory, read), mode)
    elif kind in {"", "topic"}:
        sink = _topic_sink(name, source, mode, fields)
    else:
        _require_append(mode, fields)
        path, by = fields.path(kind), fields.texts("partition_by")
        is_delta = kind == _DELTA
        _check_partitions(by, fields, is_delta=is_delta)
        sink = DeltaSink(name, source, path, by) if is_delta else FileSink(name, source, FileFormat(kind), path, by)
    if kind:
        fields.finish()
    return SinkDraft(sink, reads[:1], fields.place)


def _topic_sink(name: str, source: str, mode: Mode, fields: MappingReader) -> TopicSink:
    topic = fields.scalar("topic")
    if topic is not None:
        check_topic(topic, fields.notes)
    return TopicSink(name, source, topic.text if topic else "", fields.text("key"), fields.text("value"), mode)


def _require_append(mode: Mode, fields: MappingReader) -> None:
    if mode is not Mode.APPEND:
        fields.notes.error(
            fields.key_place("mode"),
            f"{fields.what} writes files, which can only be appended to",
            "leave mode away; a topic takes updates",
        )


def _check_partitions(by: tuple[str, ...], fields: MappingReader, *, is_delta: bool) -> None:
    """Note columns whose directories readers take for hidden; the log of a Delta table names all files."""
    for column in () if is_delta else by:
        place = fields.key_place("partition_by")
        if column.startswith("."):
            fields.notes.error(place, f"readers leave out directories such as {column}=1", "rename the column")
        elif column.startswith("_"):
            fields.notes.warning(
                place, f"pandas and pyarrow leave out directories such as {column}=1", "rename the column"
            )


def _console_rows(fields: MappingReader) -> int:
    """Read `console: true`, or `console: {rows: 5}`."""
    node = fields.node("console")
    if isinstance(node, MappingNode):
        inner = MappingReader(node, f"console of {fields.what}", fields.notes, directory=fields.directory)
        rows = inner.whole("rows", 20)
        inner.finish()
        return rows
    if isinstance(node, ScalarNode) and not node.is_null and not fields.switch("console"):
        fields.notes.error(node.place, "console is true or a mapping, or it is left away", "write console: true")
    return 20
