"""Results that change, written to a topic: output modes `update` and `complete`.

Spark lets sinks in Python take rows of mode append only. So each batch is handed over as a DataFrame, and goes the same
way as the rows of such a sink from there on: its tasks stage rows in transactions, and the driver commits them together
under the query's id and the batch's number. A batch that is repeated after a failure is not written twice.

The id is read from the checkpoint. Spark tells it to tasks as well, but with Spark Connect the function runs in a
process of its own, and what it starts there belongs to no query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa
from pyspark import TaskContext

from goqueue.client.kafka import ProducerIdentity
from goqueue.spark.pipelines.run.checkpoints import query_of
from goqueue.spark.sink.commit import commit_staged
from goqueue.spark.sink.options import SinkOptions
from goqueue.spark.sink.staging import Attempt, StagedRows, stage
from goqueue.spark.sink.writers import check_write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_AGAIN: Final = "the query repeats the batch when it is restarted, and what is committed is not written again"


class _Told(msgspec.Struct):
    """The result of a task, as JSON in a row."""

    sink: str
    task: int
    attempt: int
    producer: ProducerIdentity | None
    rows: int
    size_bytes: int


def writing_changes(options: Mapping[str, str], checkpoint: str) -> Callable[[DataFrame, int], None]:
    """Return a function for `foreachBatch` that writes the messages of each batch, exactly once."""
    queries: list[str] = []

    def write(batch: DataFrame, number: int) -> None:
        if not queries:
            queries.append(query_of(batch, checkpoint))
        checked = check_write(options, batch.schema, is_overwrite=False)
        rows = batch.mapInArrow(_staging(checked, queries[0], number), "told STRING").collect()
        told = [msgspec.json.decode(row.told, type=_Told) for row in rows]
        staged = [
            StagedRows(each.sink, each.task, each.attempt, each.producer, each.rows, each.size_bytes) for each in told
        ]
        commit_staged(checked, number, staged, again=_AGAIN)

    return write


def _staging(
    options: SinkOptions, query: str, number: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        task = context.partitionId()
        staged = stage(options, Attempt(query, task, context.attemptNumber(), task + number), batches)
        told = _Told(staged.sink, staged.task, staged.attempt, staged.producer, staged.rows, staged.size_bytes)
        yield pa.RecordBatch.from_pydict({"told": [msgspec.json.encode(told).decode()]})

    return run
