"""Writes to topics exactly once: the writers for batches and streams that Spark uses.

    task   -> staging       rows into a transaction of their own, which stays open
    driver -> sink_commit   all transactions of a batch are committed together, once

The sink of a stream is its query, identified by the id in its checkpoint, with Spark's batch numbers, so that a
repeated batch is recognised. A batch write is a sink of its own with one batch.

An attempt has Spark's attempt number within its task. Numbers restart with each batch, so a query reuses a few
transactional ids; a new attempt fences the previous holder of its id. If Spark repeats a whole stage, two attempts may
have the same number: one of them loses its transaction, and if Spark chose that one, the commit is refused and the
batch repeated. No row is written twice.

The columns of a write are checked by its schema, before it starts:

| column    | type                             | may be missing                 | null in a row       |
|-----------|----------------------------------|--------------------------------|---------------------|
| value     | binary or string                 | no                             | a null value        |
| key       | binary or string                 | yes                            | no key              |
| headers   | array of struct of key and value | yes                            | no headers          |
| topic     | string                           | if there is the option `topic` | refused             |
| partition | a whole number                   | yes                            | chosen by the key   |
| timestamp | timestamp                        | yes                            | the time of writing |
| priority  | a whole number from 0 to 4       | yes                            | none is said        |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, NamedTuple

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)
from typing_extensions import override

from goqueue.errors import Invalid, InvalidSettings, SettingMistake
from goqueue.seams.entropy import Entropy, SystemEntropy
from goqueue.spark.sink.commit import abort_staged, commit_staged
from goqueue.spark.sink.options import SinkOptions, parse_sink_options
from goqueue.spark.sink.staging import Attempt, StagedRows, stage

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"
"""Properties that Spark sets for the tasks of a stream. They are undocumented; a test covers them."""

_STREAM_AGAIN = (
    "restart the query with the same checkpoint: it repeats the batch, and what is committed is not written again"
)

_TEXT = (BinaryType, StringType)
_WHOLE = (ByteType, ShortType, IntegerType, LongType)
_SCHEDULES = ("delay", "deliver_at")
_GIVEN = {
    "offset": "the broker gives offsets",
    "timestampType": "the topic decides it",
    "trace_id": "it is read from the header traceparent, which is written as one of the headers",
    "schema_id": "it is read from the header schema-id, which is written as one of the headers",
}


def check_write(written: Mapping[str, str], schema: StructType, *, is_overwrite: bool) -> SinkOptions:
    """Parse the options of a write; InvalidSettings with all mistakes in options, columns and mode."""
    options, mistakes = parse_sink_options(written)
    if is_overwrite:
        line = "a topic cannot be overwritten: use mode append for a batch, output mode append or update for a stream"
        mistakes.append(SettingMistake(("mode",), line))
    has_topic = any(name.lower() == "topic" for name in written)
    mistakes += column_mistakes(schema, has_topic=has_topic)
    if mistakes:
        raise InvalidSettings(mistakes)
    return options


class GoQueueStreamWriter(DataSourceStreamArrowWriter):
    """The sink of a streaming query."""

    def __init__(self, options: SinkOptions) -> None:
        self.options = options

    @override
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = _context()
        query, batch = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
        if not query or not batch:
            raise Invalid(
                f"Spark does not tell its task {QUERY_ID} and {BATCH_ID}, so its rows cannot be written once",
                hint="this version of GoQueue is made for Spark 4.3",
            )
        task = context.partitionId()
        return stage(self.options, Attempt(query, task, context.attemptNumber(), task + int(batch)), iterator)

    @override
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        commit_staged(self.options, batchId, _staged(messages), again=_STREAM_AGAIN)

    @override
    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        abort_staged(self.options, _staged(messages))


class GoQueueWriter(DataSourceArrowWriter):
    """A batch write; it is a sink of its own, called by a random id that is made on the driver."""

    def __init__(self, options: SinkOptions, entropy: Entropy | None = None) -> None:
        self.options = options
        self.sink = str((entropy or SystemEntropy()).uuid())

    @override
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = _context()
        task = context.partitionId()
        return stage(self.options, Attempt(self.sink, task, context.attemptNumber(), task), iterator)

    @override
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        again = (
            f"GET /transactions/sinks/{self.sink} tells whether it is committed (last_batch 0) or not (null); if not, "
            "write again"
        )
        commit_staged(self.options, 0, _staged(messages), again=again)

    @override
    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        abort_staged(self.options, _staged(messages), ended_sink=self.sink)


def _context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise Invalid("rows can be written only in tasks of Spark")
    return context


def _staged(messages: list[WriterCommitMessage | None]) -> list[StagedRows]:
    """Return the results of tasks, without failed ones."""
    return [message for message in messages if isinstance(message, StagedRows)]


class _Column(NamedTuple):
    kind: str
    fits: Callable[[DataType], bool]


def _is_headers(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    fields = {field.name: field.dataType for field in kind.elementType.fields}
    return set(fields) == {"key", "value"} and all(isinstance(each, _TEXT) for each in fields.values())


_COLUMNS = {
    "value": _Column("binary or string", lambda kind: isinstance(kind, _TEXT)),
    "key": _Column("binary or string", lambda kind: isinstance(kind, _TEXT)),
    "headers": _Column("array<struct<key: string, value: binary>>", _is_headers),
    "topic": _Column("string", lambda kind: isinstance(kind, StringType)),
    "partition": _Column("int", lambda kind: isinstance(kind, _WHOLE)),
    "timestamp": _Column("timestamp", lambda kind: isinstance(kind, TimestampType)),
    "priority": _Column("int", lambda kind: isinstance(kind, _WHOLE)),
}


def column_mistakes(schema: StructType, *, has_topic: bool) -> Iterator[SettingMistake]:
    """Yield all mistakes in the columns; `has_topic` if an option sets the topic."""
    counts = Counter(schema.fieldNames())
    for name, count in counts.items():
        if count > 1:
            yield _mistake(name, f"is there {count} times: drop all but one")
    for field in schema.fields:
        column = _COLUMNS.get(field.name)
        if column is None:
            yield _mistake(field.name, _unknown(field.name))
        elif not column.fits(field.dataType):
            yield _mistake(field.name, f"is of type {field.dataType.simpleString()}, not {column.kind}: cast it")
    if "value" not in counts:
        yield _mistake("value", "is missing: add it, for example as to_json(struct(*)) AS value")
    if not has_topic and "topic" not in counts:
        yield SettingMistake(("topic",), "no topic is set: set the option topic, or add a column topic")


def _unknown(name: str) -> str:
    if name in _SCHEDULES:
        return "cannot be written: this broker has no schedules, so every message is delivered at once; drop it"
    if name in _GIVEN:
        return f"cannot be written: {_GIVEN[name]}; drop it"
    near = get_close_matches(name.lower(), _COLUMNS, n=1)
    fix = f"did you mean {near[0]}?" if near else f"there are {', '.join(_COLUMNS)}; drop it, or make it part of value"
    return f"is no column of a message: {fix}"


def _mistake(name: str, what: str) -> SettingMistake:
    return SettingMistake((name,), f"column {name} {what}")
