"""Cost of a micro-batch with few rows: our source against the cheapest one of Spark itself.

The difference is ours: asking the broker for offsets, and Python workers that connect, fetch and answer. The first
batches of a query are left out, since they start what the others use.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING

from goqueue_bench.kafka.connection import private_topic
from goqueue_bench.measure import Aim, Goal, Result, require
from goqueue_bench.spark.cases import new_checkpoint
from goqueue_bench.spark.rows import PARTITIONS, Lab, new_rows, require_committed, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

SECONDS_GOAL = 0.3

_BATCH_ROWS = 100
_FIRST_BATCHES = 2
_POLL_SECONDS = 0.05
_SECONDS_MAX = 300.0


def measure_batches(lab: Lab, batches: int) -> Result:
    """Run so many small batches of each source, one query after the other."""
    return overhead(_ours(lab, batches + _FIRST_BATCHES), _floor(lab, batches + _FIRST_BATCHES))


def overhead(ours_s: Sequence[float], floor_s: Sequence[float]) -> Result:
    """Return what a batch of our source takes more than one of the engine's own, without the first of each."""
    ours, floor = ours_s[_FIRST_BATCHES:], floor_s[_FIRST_BATCHES:]
    return Result(
        "micro_batch_overhead",
        f"a micro-batch of {_BATCH_ROWS} rows, more than one of rate-micro-batch",
        median(ours) - median(floor),
        "s",
        Goal(Aim.AT_MOST, SECONDS_GOAL),
        {
            "batches": len(ours),
            "batch_seconds": median(ours),
            "min_seconds": min(ours),
            "max_seconds": max(ours),
            "floor_seconds": median(floor),
        },
    )


def _ours(lab: Lab, batches: int) -> list[float]:
    count = batches * _BATCH_ROWS
    with private_topic(lab.broker, partitions=PARTITIONS, settings={}) as topic:
        write(lab, new_rows(lab.spark, count), topic)
        require_committed(lab.broker, topic, count)
        options = lab.read_options(topic) | {"maxOffsetsPerTrigger": str(_BATCH_ROWS)}
        query = _start(lab, lab.spark.readStream.format("goqueue").options(**options).load())
        try:
            query.processAllAvailable()
            found = sum(progress.numInputRows for progress in query.recentProgress)
        finally:
            query.stop()
        require(found == count, f"the small batches have {count} rows ({found} were)")
        return _batch_seconds(query, batches)


def _floor(lab: Lab, batches: int) -> list[float]:
    options = {"rowsPerBatch": str(_BATCH_ROWS), "numPartitions": str(PARTITIONS)}
    query = _start(lab, lab.spark.readStream.format("rate-micro-batch").options(**options).load())
    deadline = time.monotonic() + _SECONDS_MAX
    try:
        while len(seconds := _batch_seconds(query, batches)) < batches:
            require(time.monotonic() < deadline, f"Spark runs {batches} batches within {_SECONDS_MAX:g} s")
            time.sleep(_POLL_SECONDS)
    finally:
        query.stop()
    return seconds


def _start(lab: Lab, stream: DataFrame) -> StreamingQuery:
    writer = stream.writeStream.format("noop").option("checkpointLocation", new_checkpoint(lab))
    return writer.trigger(processingTime="0 seconds").start()


def _batch_seconds(query: StreamingQuery, batches: int) -> list[float]:
    """Return the durations of the first batches that had rows."""
    with_rows = [progress for progress in query.recentProgress if progress.numInputRows > 0]
    return [progress.durationMs["triggerExecution"] / 1000 for progress in with_rows[:batches]]
