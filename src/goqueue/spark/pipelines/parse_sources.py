"""Sources: what a pipeline reads, and how bytes become columns."""

from __future__ import annotations

from datetime import UTC, datetime

from goqueue.errors import InvalidTopicName
from goqueue.model.start_at import StartAt
from goqueue.model.topic import check_name
from goqueue.model.units import quoted
from goqueue.spark.pipelines.ddl import column_names
from goqueue.spark.pipelines.fields import Fields, as_choice
from goqueue.spark.pipelines.model import (
    ArchiveSource,
    Decode,
    DecodeFormat,
    FileFormat,
    FileSource,
    MessageColumn,
    OnBadValue,
    Source,
    TopicSource,
)
from goqueue.spark.pipelines.nodes import Notes, Place, Scalar
from goqueue.spark.pipelines.sql_tokens import SqlError

_KINDS = ["topic", "archive", *FileFormat]


def parse_source(name: str, fields: Fields) -> Source:
    """Return a source."""
    kind = fields.among(_KINDS)
    source: Source
    if kind == "archive":
        source = ArchiveSource(name, fields.path("archive"), _decode(fields))
    elif kind in {"", "topic"}:
        source = _topic_source(name, fields)
    else:
        source = _file_source(name, FileFormat(kind), fields)
    if kind:
        fields.finish()
    return source


def check_topic(scalar: Scalar, notes: Notes) -> None:
    """Note a name that no topic can have."""
    try:
        check_name(scalar.text)
    except InvalidTopicName as error:
        notes.error(scalar.place, error.message, error.hint)


def _topic_source(name: str, fields: Fields) -> TopicSource:
    topics = fields.scalars("topic")
    for topic in topics:
        check_topic(topic, fields.notes)
    return TopicSource(
        name,
        tuple(topic.text for topic in topics),
        _decode(fields),
        start=_start(fields),
        rows_per_batch_max=fields.whole("max_rows_per_batch", 0),
    )


def _file_source(name: str, file_format: FileFormat, fields: Fields) -> FileSource:
    schema, _ = _schema(fields)
    is_stream = fields.switch("stream")
    if is_stream and not fields.has("schema"):
        fields.notes.error(
            fields.key_place("stream"), f"{fields.what} needs a schema to be a stream", 'add schema: "id STRING, ..."'
        )
    return FileSource(
        name,
        file_format,
        fields.path(file_format),
        schema=schema,
        is_stream=is_stream,
        options={key.text: value.text for key, value in fields.pairs("options")},
    )


def _start(fields: Fields) -> StartAt | datetime:
    scalar = fields.scalar("start")
    if scalar is None:
        return StartAt.EARLIEST
    if scalar.text in list(StartAt):
        return StartAt(scalar.text)
    try:
        moment = datetime.fromisoformat(scalar.text)
    except ValueError:
        fields.notes.error(
            scalar.place,
            f"start of {fields.what} cannot be {quoted(scalar.text)}",
            "write earliest, latest or a time such as 2030-01-31T08:00:00Z",
        )
        return StartAt.EARLIEST
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _decode(fields: Fields) -> Decode:
    node = fields.node("decode")
    if node is None:
        return Decode()
    if isinstance(node, Scalar):
        # `decode: text` is enough where there is nothing else to say.
        chosen = as_choice(node, f"decode of {fields.what}", DecodeFormat.RAW, fields.notes)
        if chosen is DecodeFormat.JSON:
            _miss_schema(fields, node.place)
        return Decode(chosen)
    inner = Fields(node, f"decode of {fields.what}", fields.notes, directory=fields.directory)
    inner.needed("format", "json")
    chosen = inner.choice("format", DecodeFormat.RAW)
    schema, columns = _schema(inner)
    if chosen is DecodeFormat.JSON and not inner.has("schema"):
        _miss_schema(fields, node.place)
    elif chosen is not DecodeFormat.JSON and inner.has("schema") and inner.has("format"):
        fields.notes.error(inner.key_place("schema"), f"a schema means nothing to the format {chosen.value}")
    keep = []
    for scalar in inner.scalars("keep"):
        keep.append(as_choice(scalar, f"keep of {inner.what}", MessageColumn.KEY, fields.notes))
        if scalar.text in columns:
            fields.notes.error(scalar.place, f"{scalar.text} is kept, but the schema has a column of that name, too")
    on_bad_value = inner.choice("on_bad_value", OnBadValue.DLQ)
    inner.finish()
    return Decode(chosen, schema, tuple(keep), on_bad_value)


def _miss_schema(fields: Fields, place: Place) -> None:
    fields.notes.error(
        place,
        f"{fields.what} needs a schema to read JSON",
        'write decode: {format: json, schema: "id STRING, amount DOUBLE"}',
    )


def _schema(fields: Fields) -> tuple[str, list[str]]:
    """Return a schema and the names of its columns."""
    scalar = fields.scalar("schema")
    if scalar is None:
        return "", []
    try:
        return scalar.text, column_names(scalar.text)
    except SqlError as error:
        fields.notes.error(
            scalar.at(error.offset),
            f"schema of {fields.what}: {error.message}",
            "write columns and types: id STRING, amount DOUBLE, placed_at TIMESTAMP",
        )
        return "", []
