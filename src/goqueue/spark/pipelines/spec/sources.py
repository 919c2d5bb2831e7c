"""Sources: what a pipeline reads.

How bytes become columns: what a source says about the values of its messages, and the schemas that it names.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import PurePath

from goqueue.errors import Invalid, InvalidTopicName
from goqueue.model.start_at import StartAt
from goqueue.model.topic import check_name
from goqueue.model.units import quoted
from goqueue.spark.pipelines.spec.fields import MappingReader, as_choice
from goqueue.spark.pipelines.spec.functions import ReadFile
from goqueue.spark.pipelines.spec.model import (
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
from goqueue.spark.pipelines.spec.nodes import Notes, ScalarNode, SourceLocation
from goqueue.spark.sql.ddl import column_names
from goqueue.spark.sql.tokens import SqlError
from goqueue.spark.values.decoding import Decoding, FormatName, Prefix

_KINDS = ["topic", "archive", *FileFormat]

_BINARY = {DecodeFormat.AVRO: FormatName.AVRO, DecodeFormat.PROTOBUF: FormatName.PROTOBUF}

_EXAMPLES = {
    DecodeFormat.JSON: 'write decode: {format: json, schema: "id STRING, amount DOUBLE"}',
    DecodeFormat.AVRO: "write decode: {format: avro, schema_file: orders.avsc}",
    DecodeFormat.PROTOBUF: "write decode: {format: protobuf, schema_file: orders.desc, message: shop.Order}",
}
_WORDS = {DecodeFormat.JSON: "JSON", DecodeFormat.AVRO: "Avro", DecodeFormat.PROTOBUF: "Protobuf"}


def parse_source(name: str, fields: MappingReader, read: ReadFile) -> Source:
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


def check_topic(scalar: ScalarNode, notes: Notes) -> None:
    """Note a name that no topic can have."""
    try:
        check_name(scalar.text)
    except InvalidTopicName as error:
        notes.error(scalar.place, error.message, error.hint)


def _topic_source(name: str, fields: MappingReader, read: ReadFile) -> TopicSource:
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


def _file_source(name: str, file_format: FileFormat, fields: MappingReader) -> FileSource:
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


def _start(fields: MappingReader) -> StartAt | datetime:
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


def parse_decode(fields: MappingReader, read: ReadFile) -> Decode:
    """Return how a source decodes values."""
    node = fields.node("decode")
    if node is None:
        return Decode()
    if isinstance(node, ScalarNode):
        # `decode: text` is enough where there is nothing else to say.
        chosen = as_choice(node, f"decode of {fields.what}", DecodeFormat.RAW, fields.notes)
        if chosen in _EXAMPLES:
            _miss_schema(fields, chosen, node.place)
        return Decode(chosen)
    inner = MappingReader(node, f"decode of {fields.what}", fields.notes, directory=fields.directory)
    inner.needed("format", "json")
    chosen = inner.choice("format", DecodeFormat.RAW)
    if chosen in _EXAMPLES and not (inner.has("schema") or inner.has("schema_file")):
        _miss_schema(fields, chosen, node.place)
    _refuse_strangers(inner, chosen)
    schema, values = "", None
    columns: list[str] = []
    if chosen in _BINARY:
        values, columns = _values(inner, _BINARY[chosen], read)
    elif chosen is DecodeFormat.JSON:
        schema, columns = _columns(inner, read)
    keep = []
    for scalar in inner.scalars("keep"):
        keep.append(as_choice(scalar, f"keep of {inner.what}", MessageColumn.KEY, fields.notes))
        if scalar.text in columns:
            fields.notes.error(scalar.place, f"{scalar.text} is kept, but the schema has a column of that name, too")
    on_bad_value = inner.choice("on_bad_value", OnBadValue.DLQ)
    inner.finish()
    return Decode(chosen, schema, tuple(keep), on_bad_value, values)


def parse_schema(fields: MappingReader) -> tuple[str, list[str]]:
    """Return a list of columns as it is written, and their names."""
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


def _miss_schema(fields: MappingReader, chosen: DecodeFormat, place: SourceLocation) -> None:
    fields.notes.error(place, f"{fields.what} needs a schema to read {_WORDS[chosen]}", _EXAMPLES[chosen])


def _refuse_strangers(inner: MappingReader, chosen: DecodeFormat) -> None:
    """Note keys that mean nothing to a format, and two schemas."""
    if not inner.has("format"):
        return
    known = {
        "schema": chosen in {DecodeFormat.JSON, DecodeFormat.AVRO},
        "schema_file": chosen in _EXAMPLES,
        "message": chosen is DecodeFormat.PROTOBUF,
        "prefix": chosen in _BINARY,
    }
    for key, is_known in known.items():
        inner.node(key)
        if inner.has(key) and not is_known:
            hint = _EXAMPLES[chosen] if chosen in _BINARY else ""
            inner.notes.error(inner.key_place(key), f"a {key} means nothing to the format {chosen.value}", hint)
    inner.among(["schema", "schema_file"], is_needed=False)
    if chosen is DecodeFormat.PROTOBUF:
        inner.needed("message", "shop.Order")


def _columns(inner: MappingReader, read: ReadFile) -> tuple[str, list[str]]:
    """Return a list of columns, written here or in a file."""
    stored = _file(inner, read)
    if stored is None:
        return parse_schema(inner)
    scalar, content = stored
    try:
        text = content.decode("utf-8-sig")
        return text, column_names(text)
    except (SqlError, UnicodeDecodeError) as error:
        inner.notes.error(scalar.place, f"schema_file of {inner.what} is no list of columns: {error}")
        return "", []


def _values(inner: MappingReader, chosen: FormatName, read: ReadFile) -> tuple[Decoding | None, list[str]]:
    """Return how Avro or Protobuf is read, and its columns, if it can be."""
    stored = _file(inner, read)
    scalar, schema = stored or (inner.scalar("schema"), "")
    message = inner.text("message")
    prefix = inner.choice("prefix", Prefix.NONE)
    is_protobuf = chosen is FormatName.PROTOBUF
    if scalar is None or is_protobuf != bool(message) or (is_protobuf and not stored):
        return None, []
    decoding = Decoding(chosen, schema or scalar.text, message, prefix)
    # Imported only here: most pipelines are checked without Arrow, which takes its time.
    from goqueue.spark.values.decode import reader_of
    from goqueue.spark.values.format import UnknownMessage

    try:
        return decoding, reader_of(decoding).type.names
    except Invalid as error:
        wrong = inner.scalar("message") if isinstance(error, UnknownMessage) else scalar
        inner.notes.error((wrong or scalar).place, f"{inner.what}: {error.message}", error.hint)
        return None, []


def _file(inner: MappingReader, read: ReadFile) -> tuple[ScalarNode, bytes] | None:
    scalar = inner.scalar("schema_file")
    if scalar is None:
        return None
    path = PurePath(inner.path("schema_file"))
    content = read(path)
    if content is None:
        hint = "paths are relative to the pipeline file"
        inner.notes.error(scalar.place, f"schema_file of {inner.what}: there is no file {path}", hint)
        return None
    return scalar, content
