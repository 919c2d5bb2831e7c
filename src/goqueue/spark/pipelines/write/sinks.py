"""From rows to where they go: each kind of sink, as a stream and as a single write of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType, StructType

from goqueue.errors import Invalid
from goqueue.spark.pipelines.compile.sources import QueryContext
from goqueue.spark.pipelines.spec.functions import function_of
from goqueue.spark.pipelines.spec.model import (
    AvailableNow,
    BatchSink,
    ConsoleSink,
    DeltaSink,
    FileSink,
    Interval,
    Mode,
    Sink,
    TopicSink,
    Trigger,
)
from goqueue.spark.pipelines.write.delta import write_delta, writing_delta
from goqueue.spark.pipelines.write.file_systems import is_local_path
from goqueue.spark.pipelines.write.files import write_files, writing_files
from goqueue.spark.session import is_remote
from goqueue.spark.sink.options import TOO_LARGE, TooLargeUse

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import DataType

_KEEP_NULLS = {"ignoreNullFields": "false"}


@dataclass(frozen=True, slots=True)
class ShownRows:
    """The first rows of a batch for the console, as text; `is_all` tells whether there are no more."""

    sink: str
    batch: int
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    is_all: bool


Show = Callable[[ShownRows], None]


def start_stream(
    sink: Sink, rows: DataFrame, ground: QueryContext, *, name: str, trigger: Trigger, checkpoint: str, show: Show
) -> StreamingQuery:
    """Start the query of a sink."""
    stream = _triggered(_stream(sink, rows, ground, checkpoint, show), trigger)
    return stream.queryName(name).outputMode(sink.mode.value).option("checkpointLocation", checkpoint).start()


def start_dead_letters(
    letters: DataFrame, topic: str, ground: QueryContext, *, name: str, trigger: Trigger, checkpoint: str
) -> StreamingQuery:
    """Start the query that writes dead letters."""
    options = dead_letter_options(topic, ground)
    stream = _triggered(letters.writeStream.format("goqueue").options(**options), trigger)
    return stream.queryName(name).outputMode("append").option("checkpointLocation", checkpoint).start()


def write_table(sink: Sink, rows: DataFrame, ground: QueryContext, show: Show) -> None:
    """Write all rows of a table, and return when it is done."""
    match sink:
        case TopicSink():
            write_messages(messages_of(sink, rows), sink.topic, ground)
        case FileSink():
            if _is_left_to_spark(sink, ground):
                rows.write.format(sink.format.value).partitionBy(*sink.partition_by).mode("append").save(sink.path)
            else:
                write_files(sink, rows, ground.group)
        case DeltaSink():
            write_delta(sink, rows, ground.group)
        case ConsoleSink():
            show(_shown(sink, rows, 0))
        case BatchSink():
            function_of(sink.function)(rows, 0)
        case _:
            assert_never(sink)


def write_messages(messages: DataFrame, topic: str, ground: QueryContext) -> None:
    """Write all messages of a table to a topic, in one transaction."""
    messages.write.format("goqueue").options(**topic_options(topic, ground)).mode("append").save()


def write_dead_letters(letters: DataFrame, topic: str, ground: QueryContext) -> None:
    """Write all dead letters of a table to a topic, in one transaction."""
    letters.write.format("goqueue").options(**dead_letter_options(topic, ground)).mode("append").save()


def topic_options(topic: str, ground: QueryContext) -> dict[str, str]:
    """Return the options of a write to a topic."""
    url = {"goqueue.http.url": ground.http_url} if ground.http_url else {}
    return {"kafka.bootstrap.servers": ground.bootstrap, "topic": topic, **url}


def dead_letter_options(topic: str, ground: QueryContext) -> dict[str, str]:
    """Return the options of a write of dead letters: one that is too large must not hold up the others."""
    return {**topic_options(topic, ground), TOO_LARGE: TooLargeUse.CUT.value}


def messages_of(sink: TopicSink, rows: DataFrame) -> DataFrame:
    """Make messages of rows: `key`, if the sink has one, and `value`."""
    for column in filter(None, (sink.key, sink.value)):
        if column not in rows.columns:
            raise Invalid(
                f"sink {sink.name} writes column {column}, which {sink.input} does not have",
                hint=f"it has {', '.join(rows.columns)}",
            )
    key = [_text(rows, sink.key).alias("key")] if sink.key else []
    if sink.value:
        return rows.select(*key, _text(rows, sink.value).alias("value"))
    fields = [F.col(_quoted(name)) for name in rows.columns if name != sink.key]
    return rows.select(*key, F.to_json(F.struct(*fields), _KEEP_NULLS).alias("value"))


def _text(rows: DataFrame, name: str) -> Column:
    """Return a column as bytes or text: what has parts as JSON."""
    kind: DataType = rows.schema[name].dataType
    column = F.col(_quoted(name))
    if isinstance(kind, BinaryType | StringType):
        return column
    return (
        F.to_json(column, _KEEP_NULLS) if isinstance(kind, StructType | ArrayType | MapType) else column.cast("string")
    )


def _stream(sink: Sink, rows: DataFrame, ground: QueryContext, checkpoint: str, show: Show) -> DataStreamWriter:
    match sink:
        case TopicSink():
            messages, options = messages_of(sink, rows), topic_options(sink.topic, ground)
            if sink.mode is Mode.APPEND:
                return messages.writeStream.format("goqueue").options(**options)
            from goqueue.spark.pipelines.write.updates import writing_changes

            return messages.writeStream.foreachBatch(writing_changes(options, checkpoint))
        case FileSink():
            if not _is_left_to_spark(sink, ground):
                return rows.writeStream.foreachBatch(writing_files(sink, checkpoint))
            files = rows.writeStream.format(sink.format.value).option("path", sink.path)
            return files.partitionBy(*sink.partition_by) if sink.partition_by else files
        case DeltaSink():
            return rows.writeStream.foreachBatch(writing_delta(sink, checkpoint))
        case ConsoleSink():
            return rows.writeStream.foreachBatch(lambda batch, number: show(_shown(sink, batch, number)))
        case BatchSink():
            return rows.writeStream.foreachBatch(function_of(sink.function))
        case _:
            assert_never(sink)


def _is_left_to_spark(sink: FileSink, ground: QueryContext) -> bool:
    """Tell whether Spark's own file sink writes: where only a server of Spark Connect has access to the files."""
    return is_remote(ground.session) and not is_local_path(sink.path)


def _triggered(stream: DataStreamWriter, trigger: Trigger) -> DataStreamWriter:
    match trigger:
        case AvailableNow():
            return stream.trigger(availableNow=True)
        case Interval(interval_ms):
            return stream.trigger(processingTime=f"{interval_ms} milliseconds")
        case _:
            assert_never(trigger)


def _shown(sink: ConsoleSink, batch: DataFrame, number: int) -> ShownRows:
    texts = batch.select(*(F.col(_quoted(name)).cast("string").alias(name) for name in batch.columns))
    # Not `limit`: Spark would stop to read when there is enough to see, and so to count.
    found = texts.mapInArrow(_first(sink.rows + 1), texts.schema).collect()
    rows = [["NULL" if cell is None else cell for cell in row] for row in found[: sink.rows]]
    return ShownRows(sink.name, number, batch.columns, rows, is_all=len(found) <= sink.rows)


def _first(count: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function that reads all rows of a task, and passes on the first ones."""

    def first(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        missing = count
        for batch in batches:
            if missing > 0:
                yield batch.slice(0, missing)
            missing -= batch.num_rows

    return first


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
