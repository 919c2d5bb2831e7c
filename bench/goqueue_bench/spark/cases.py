"""Benchmarks of Spark with all rows: batch reads compared with Parquet, stream reads, and writes.

The time of a case starts when a program asks for the rows and ends when Spark is done; a write is done when it is
committed. Preparations, such as an empty topic, and checks of the result are not included.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from goqueue_bench.kafka.connection import private_topic
from goqueue_bench.measure import require
from goqueue_bench.spark.rounds import Pass, stopwatch
from goqueue_bench.spark.rows import PARTITIONS, Lab, Rows, count_groups, require_committed, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_STREAM_SECONDS_MAX = 600
_ROWS_METRIC = "number of output rows"

Load = Callable[[Rows, Lab], "DataFrame"]


def read_all(lab: Lab, rows: Rows, load: Load) -> Pass:
    """Read all columns of all rows and throw them away."""
    with stopwatch() as usage:
        discard(load(rows, lab))
    require_read(lab.spark, rows.count)
    return Pass.of(rows.count, usage)


def group(lab: Lab, rows: Rows, load: Load) -> Pass:
    """Count rows by the prefix of their keys."""
    with stopwatch() as usage:
        groups = count_groups(load(rows, lab))
    require(groups == rows.groups, f"each of {len(rows.groups)} groups has as many rows as were written")
    return Pass.of(rows.count, usage)


def stream_from_topic(lab: Lab, rows: Rows) -> Pass:
    """Read all rows as a stream that ends, and throw them away."""
    with stopwatch() as usage:
        stream = lab.spark.readStream.format("goqueue").options(**lab.read_options(rows.topic)).load()
        query = _run_to_end(lab, stream.writeStream.format("noop"))
    _require_input(query, rows.count)
    return Pass.of(rows.count, usage)


def write_batch(lab: Lab, rows: Rows) -> Pass:
    """Write the rows of the files to an empty topic."""
    with private_topic(lab.broker, partitions=PARTITIONS, settings={}) as topic:
        with stopwatch() as usage:
            write(lab, rows.from_parquet(lab).select("key", "value"), topic)
        require_committed(lab.broker, topic, rows.count)
    return Pass.of(rows.count, usage)


def write_stream(lab: Lab, rows: Rows) -> Pass:
    """Write the rows of the files to an empty topic, as a stream that ends."""
    schema = rows.from_parquet(lab).schema
    with private_topic(lab.broker, partitions=PARTITIONS, settings={}) as topic:
        with stopwatch() as usage:
            stream = lab.spark.readStream.schema(schema).parquet(rows.parquet).select("key", "value")
            query = _run_to_end(lab, stream.writeStream.format("goqueue").options(**lab.write_options(topic)))
        _require_input(query, rows.count)
        require_committed(lab.broker, topic, rows.count)
    return Pass.of(rows.count, usage)


def discard(rows: DataFrame) -> None:
    """Let Spark compute every column of every row, and discard them."""
    rows.write.format("noop").mode("overwrite").save()


def require_read(spark: SparkSession, count: int) -> None:
    """Raise unless every step of Spark's last batch query had so many rows.

    From Spark's own books: to count the rows within the query would cost what is measured.
    """
    # Neither is public; both have been there for many versions.
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    store: Any = spark._jsparkSession.sharedState().statusStore()
    last = store.executionsList().last()
    values = store.executionMetrics(last.executionId())
    metrics = last.metrics().iterator()
    found = []
    while metrics.hasNext():
        metric = metrics.next()
        if metric.name() == _ROWS_METRIC and values.contains(metric.accumulatorId()):
            found.append(int(values.apply(metric.accumulatorId()).replace(",", "")))
    require(bool(found) and set(found) == {count}, f"Spark reads {count} rows (its steps had {found})")


def new_checkpoint(lab: Lab) -> str:
    """Return a directory for the checkpoint of one query."""
    return tempfile.mkdtemp(prefix="checkpoint-", dir=lab.workspace)


def _run_to_end(lab: Lab, writer: Any) -> StreamingQuery:
    query: StreamingQuery = writer.option("checkpointLocation", new_checkpoint(lab)).trigger(availableNow=True).start()
    require(query.awaitTermination(_STREAM_SECONDS_MAX) is True, f"the stream ends within {_STREAM_SECONDS_MAX} s")
    return query


def _require_input(query: StreamingQuery, count: int) -> None:
    found = sum(progress.numInputRows for progress in query.recentProgress)
    require(found == count, f"the stream reads {count} rows ({found} were)")
