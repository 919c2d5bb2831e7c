"""Sources: what a pipeline reads."""

from __future__ import annotations

from datetime import UTC, datetime

from goqueue.errors import InvalidTopicName
from goqueue.model.start_at import StartAt
from goqueue.model.topic import check_name
from goqueue.model.units import quoted
from goqueue.spark.pipelines.spec.fields import Fields
from goqueue.spark.pipelines.spec.functions import ReadFile
from goqueue.spark.pipelines.spec.model import ArchiveSource, FileFormat, FileSource, Source, TopicSource
from goqueue.spark.pipelines.spec.nodes import Notes, Scalar
from goqueue.spark.pipelines.spec.parse_decode import parse_decode, parse_schema

_KINDS = ["topic", "archive", *FileFormat]


def parse_source(name: str, fields: Fields, read: ReadFile) -> Source:
    """Return a source."""
    kind = fields.among(_KINDS)
    source: Source
    if kind == "archive":
        source = ArchiveSource(name, fields.path("archive"), parse_decode(fields, read))
    elif kind in {"", "topic"}:
        source = _topic_source(name, fields, read)
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


def _topic_source(name: str, fields: Fields, read: ReadFile) -> TopicSource:
    topics = fields.scalars("topic")
    for topic in topics:
        check_topic(topic, fields.notes)
    return TopicSource(
        name,
        tuple(topic.text for topic in topics),
        parse_decode(fields, read),
        start=_start(fields),
        rows_per_batch_max=fields.whole("max_rows_per_batch", 0),
    )


def _file_source(name: str, file_format: FileFormat, fields: Fields) -> FileSource:
    schema, _ = parse_schema(fields)
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
