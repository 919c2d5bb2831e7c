"""Sources as DataFrames: messages of topics and archives, not yet decoded, and rows of files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - its usual name

from goqueue.spark.archive.listing import archived_files
from goqueue.spark.pipelines.compile.dead_letters import MESSAGE_FIELDS, with_message
from goqueue.spark.pipelines.spec.model import ArchiveSource, FileSource, MessageColumn, TopicSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TYPES = {
    "key": "BINARY",
    "value": "BINARY",
    "headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>",
    "topic": "STRING",
    "partition": "INT",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP",
    "priority": "INT",
    "trace_id": "STRING",
    "schema_id": "INT",
}


@dataclass(frozen=True, slots=True)
class QueryContext:
    """Where a query works: its session, the broker, and the group under which the broker sees how far it is."""

    session: SparkSession
    bootstrap: str
    http_url: str | None = None
    group: str = ""


def read_messages(source: TopicSource | ArchiveSource, ground: QueryContext, *, is_whole: bool) -> DataFrame:
    """Return messages with the columns that decoding needs; with each whole message beside them if it `is_whole`."""
    wanted = ["value", *source.decode.keep, *(MESSAGE_FIELDS if is_whole else ())]
    names = [name for name in _TYPES if name in wanted]
    if isinstance(source, TopicSource):
        # Naming the columns saves making the others: Spark does not tell a source which ones are used.
        schema = ", ".join(f"{name} {_TYPES[name]}" for name in names)
        options = dict(_topic_options(source, ground, has_headers=MessageColumn.HEADERS in names))
        messages = ground.session.readStream.format("goqueue").schema(schema).options(**options).load()
    else:
        stored = _read_archive(source.path, ground.session)
        messages = stored.select(
            *(F.col(name) if name in stored.columns else F.lit(None).cast(_TYPES[name]).alias(name) for name in names)
        )
    return with_message(messages) if is_whole else messages


def _read_archive(path: str, session: SparkSession) -> DataFrame:
    """Return what was archived: of an archive of GoQueue the files that it names, elsewhere all that are there."""
    files = archived_files(path)
    if files is None:
        return session.read.parquet(path)
    schema = ", ".join(f"{name} {kind}" for name, kind in _TYPES.items())
    if not files:
        return session.createDataFrame([], schema)
    return session.read.schema(schema).parquet(*files)


def read_files(source: FileSource, ground: QueryContext) -> DataFrame:
    """Return the rows of files: a table, or a stream of files as they come."""
    session = ground.session
    options = dict(source.options)
    if source.is_stream:
        stream = session.readStream.format(source.format.value).options(**options)
        return stream.schema(source.schema).load(source.path)
    reader = session.read.format(source.format.value).options(**options)
    if source.schema:
        reader = reader.schema(source.schema)
    return reader.load(source.path)


def _topic_options(source: TopicSource, ground: QueryContext, *, has_headers: bool) -> Iterator[tuple[str, str]]:
    yield "kafka.bootstrap.servers", ground.bootstrap
    yield "subscribe", ",".join(source.topics)
    if isinstance(source.start, datetime):
        yield "startingTimestamp", str(round(source.start.timestamp() * 1000))
    else:
        yield "startingOffsets", source.start.value
    if source.rows_per_batch_max:
        yield "maxOffsetsPerTrigger", str(source.rows_per_batch_max)
    if has_headers:
        yield "includeHeaders", "true"
    if ground.group:
        yield "groupId", ground.group
    if ground.http_url:
        yield "goqueue.http.url", ground.http_url
