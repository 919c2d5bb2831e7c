"""The benchmark of Spark: a local one with two cores, and a private broker on the same machine.

Owns the order of things: rows are stored in a topic and as Parquet, all of them and a quarter. The quarter is what a
first round works on, which is not counted, since it starts and compiles what the others use. It is also what is
written, and the lesser of two reads whose memory is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from goqueue.spark.session import SessionRequest, start_session
from goqueue_bench.broker_process import Broker, private_broker
from goqueue_bench.kafka.connection import private_topic
from goqueue_bench.measure import BenchmarkFailed, Result
from goqueue_bench.spark.batches import measure_batches
from goqueue_bench.spark.cases import (
    discard,
    group,
    read_all,
    require_read,
    stream_from_topic,
    write_batch,
    write_stream,
)
from goqueue_bench.spark.memory import growth, largest_worker_bytes
from goqueue_bench.spark.rounds import Pass, passes_of_rounds, rate, ratio
from goqueue_bench.spark.rows import PARTITIONS, Lab, Rows, fill

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER = "local[2]"
READ_GOAL = 1_000_000
STREAM_READ_GOAL = 500_000
WRITE_GOAL = 200_000
PARQUET_RATIO_GOAL = 0.5

_PARTS = 4

Announce = Callable[[str], None]
Cases = Mapping[str, Callable[[], Pass]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSize:
    """How many rows, how often they are read and written, and how many small batches are run."""

    rows: int
    rounds: int
    batches: int


FULL = SparkSize(rows=5_000_000, rounds=3, batches=20)
QUICK = SparkSize(rows=200_000, rounds=1, batches=5)


def run_spark(workspace: Path, size: SparkSize, codec: str, announce: Announce) -> Iterator[Result]:
    """Yield all results; `announce` gets the name of the next one. BenchmarkFailed if Spark fails at something."""
    announce("starting Spark")
    with _session(workspace) as spark, private_broker(workspace) as broker, _failures():
        yield from _run(Lab(spark, broker, workspace, codec), size, announce)


@contextmanager
def _failures() -> Iterator[None]:
    """Raise BenchmarkFailed with the reason if Spark fails."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise BenchmarkFailed(f"Spark failed: {error}") from error


def _run(lab: Lab, size: SparkSize, announce: Announce) -> Iterator[Result]:
    with _topic(lab.broker) as small, _topic(lab.broker) as large:
        announce(f"storing {size.rows:,} rows in a topic and as Parquet")
        part = fill(lab, small, max(1, size.rows // _PARTS))
        whole = fill(lab, large, size.rows)
        # Not counted.
        passes_of_rounds(1, cases_of(lab, part, part), lambda what: announce(what.replace("round 1 of 1", "warm-up")))
        yield from results_of(passes_of_rounds(size.rounds, cases_of(lab, whole, part), announce))
        announce("running small batches")
        yield measure_batches(lab, size.batches)
        announce("looking at the memory of workers")
        lab.spark.stop()
        peaks = [_peak_bytes(lab, rows) for rows in (part, whole)]
        yield growth(part.count, peaks[0], whole.count, peaks[1])


def cases_of(lab: Lab, read: Rows, written: Rows) -> Cases:
    """Return all cases with the rows that they read or write."""
    return {
        "read": partial(read_all, lab, read, Rows.from_topic),
        "parquet_read": partial(read_all, lab, read, Rows.from_parquet),
        "group_by": partial(group, lab, read, Rows.from_topic),
        "keys": partial(group, lab, read, Rows.keys_from_topic),
        "parquet_keys": partial(group, lab, read, Rows.from_parquet),
        "stream_read": partial(stream_from_topic, lab, read),
        "write": partial(write_batch, lab, written),
        "stream_write": partial(write_stream, lab, written),
    }


def results_of(passes: Mapping[str, Sequence[Pass]]) -> Iterator[Result]:
    """Yield what the passes of all cases come to."""
    rates = {
        "read": ("batch read, all columns", READ_GOAL),
        "parquet_read": ("the same from Parquet", None),
        "group_by": ("batch read, all columns, rows counted by a prefix of the key", READ_GOAL),
        "keys": ("batch read of keys, named by a schema, counted by a prefix", READ_GOAL),
        "parquet_keys": ("the same from Parquet", None),
        "stream_read": ("stream read with AvailableNow, all columns", STREAM_READ_GOAL),
        "write": ("batch write from Parquet, committed", WRITE_GOAL),
        "stream_write": ("stream write from Parquet with AvailableNow, committed", WRITE_GOAL),
    }
    for name, (what, goal) in rates.items():
        yield rate(name, what, passes[name], goal)
        ours = name.removeprefix("parquet_")
        if ours != name:
            words = f"{rates[ours][0]}, against Parquet"
            yield ratio(f"{ours}_against_parquet", words, passes[ours], passes[name], PARQUET_RATIO_GOAL)


def _peak_bytes(lab: Lab, rows: Rows) -> int:
    """Return what a worker that has done nothing else needs for some rows."""
    with _session(lab.workspace) as spark:
        discard(rows.from_topic(Lab(spark, lab.broker, lab.workspace, lab.codec)))
        require_read(spark, rows.count)
        return largest_worker_bytes()


@contextmanager
def _session(workspace: Path) -> Iterator[SparkSession]:
    settings = {"spark.sql.warehouse.dir": str(workspace / "warehouse")}
    spark = start_session(SessionRequest(name="goqueue bench", master=MASTER, settings=settings))
    # Errors are raised; the log would be about queries that were stopped on purpose.
    spark.sparkContext.setLogLevel("FATAL")
    try:
        yield spark
    finally:
        spark.stop()


def _topic(broker: Broker) -> AbstractContextManager[str]:
    return private_topic(broker, partitions=PARTITIONS, settings={})
