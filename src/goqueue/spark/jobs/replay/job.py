"""A replay: messages of a topic are published again, into another topic or the same one, each exactly once.

It is a stream with an end, from the data source to its sink. Both ends of what is read are found when the job begins,
and are in the checkpoint from then on; the sink commits each batch once for this checkpoint. So it can be killed at any
moment and run again, and what comes into the source meanwhile, be it by the replay itself, is not read.

Without a rate, batches follow each other as fast as they can. With one, a batch of so many offsets begins every second:
a limit on what is read, which is at least what is published. If a second's worth is less than one for each partition,
which a batch reads in any case, the interval is longer.

From the rows of a topic to the messages of another: which are chosen, and what becomes of them. Pure.

Key, value, headers and timestamp stay as they are. Behind the headers of a message come those that say where it was:

| header                     | value                                                    |
|----------------------------|----------------------------------------------------------|
| `goqueue-replay-topic`     | the topic it was read from                               |
| `goqueue-replay-partition` | its partition there                                      |
| `goqueue-replay-offset`    | its offset there                                         |
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from goqueue.errors import Conflict, Invalid
from goqueue.seams.clock import Clock
from goqueue.spark.failures import Failure, reason_in
from goqueue.spark.jobs.replay.failures import reworded
from goqueue.spark.jobs.replay.topics import require_target
from goqueue.spark.pipelines.run.pipeline import LOOK_S
from goqueue.spark.pipelines.run.progress import WRITTEN_METRIC
from goqueue.spark.pipelines.run.query import Backoff, BatchDone, Event, QueryPlan, RunState, StreamRun
from goqueue.spark.source.options import ARCHIVE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


FAILURES_MAX: Final = 5
_COUNT_SCHEMA: Final = "partition INT, offset BIGINT, timestamp TIMESTAMP"
_SETTINGS: Final = {
    # By default, Spark waits for ever for a query that does not stop.
    "spark.sql.streaming.stopTimeout": "10000",
    # Who waits for the end of a job that has nothing left to do hears so at once.
    "spark.sql.streaming.noDataProgressEventInterval": "1000",
}

TEXT: Final = "text"
"""The value as a string, for whoever chooses rows."""

TOPIC_HEADER: Final = "goqueue-replay-topic"
PARTITION_HEADER: Final = "goqueue-replay-partition"
OFFSET_HEADER: Final = "goqueue-replay-offset"

_HEADERS_TYPE: Final = "ARRAY<STRUCT<key: STRING, value: BINARY>>"
MESSAGE_SCHEMA: Final = (
    f"key BINARY, value BINARY, headers {_HEADERS_TYPE}, topic STRING, partition INT, offset BIGINT"
    ", timestamp TIMESTAMP"
)
"""What `messages` needs of the rows of a topic."""


class ReplayFailed(Conflict):
    """What is to be replayed cannot be read."""

    code = "replay_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPlan:
    """All that is decided about a replay before Spark begins with it; `bounds` are options of the source."""

    name: str
    source: str
    target: str
    bootstrap: str
    http_url: str
    bounds: Mapping[str, str]
    archive: str
    """What is read that the log has not any more: as the source's option says it."""
    where: str
    keeps_partitions: bool
    has_origin: bool
    fails_on_data_loss: bool
    offsets_per_batch: int
    interval_s: int | None
    """How often a batch begins; None if they follow each other."""
    target_id: str = ""
    """Which topic of that name it is; empty if that is not known."""


@dataclass(frozen=True, slots=True)
class ReplayStatus:
    """How far a replay is; `read` and `published` are those of this run, `left` counts offsets, None if not known."""

    state: RunState
    read: int = 0
    published: int = 0
    batches: int = 0
    left: int | None = None
    rows_per_second: float = 0.0
    seconds: float = 0.0
    failure: Failure | None = None
    missing: int = 0
    """How many offsets had no message: it is lost, or there was none, but a marker or what was compacted."""

    @property
    def seconds_left(self) -> float | None:
        """How long the rest takes if it goes on as it went so far."""
        if self.left is None or (self.left and not self.rows_per_second):
            return None
        return self.left / self.rows_per_second if self.left else 0.0


class ReplayView(Protocol):
    """Whoever is shown what happens."""

    def tell(self, event: Event, status: ReplayStatus) -> None:
        """Take note of something that has happened."""
        ...

    def refresh(self, status: ReplayStatus) -> None:
        """Take note of how it is now."""
        ...


class PartitionCount(NamedTuple):
    """What would be replayed of a partition; times are milliseconds since 1970, None if no message has one."""

    partition: int
    messages: int
    first_offset: int
    last_offset: int
    first_time_ms: int | None
    last_time_ms: int | None


def pace(rate: int | None, partitions: int, batch: int) -> tuple[int, int | None]:
    """Return how many offsets a batch has at most, and every how many seconds one begins; None for at once."""
    if rate is None:
        return batch, None
    interval_s = max(1, -(-partitions // rate))
    return rate * interval_s, interval_s


def ending_of(status: ReplayStatus, *, is_wished: bool) -> tuple[ReplayStatus, bool]:
    """Return how a replay is that does not go on, and whether all is replayed.

    What is left must be nothing: what was lost and is done without does not count. A run that had nothing to do any
    more does not know it, and ends by itself. One that was stopped while it waited for its next try has not failed.
    """
    if is_wished and status.state is RunState.FAILED and status.failure and not status.failure.is_hopeless:
        return replace(status, state=RunState.ENDED), False
    has_ended = status.state is RunState.ENDED
    if has_ended and not is_wished and status.left:
        failure = Failure(f"the query has ended, but {status.left:,} offsets before its end were not read")
        return replace(status, state=RunState.FAILED, failure=failure), False
    return status, has_ended and (not is_wished or status.left == 0)


def check_where(session: SparkSession, plan: ReplayPlan) -> None:
    """Raise Invalid if the expression that chooses rows is none; nothing is read."""
    try:
        _ = _rows(session, plan, is_stream=False).schema
    except PySparkException as error:
        raise Invalid(
            f"--where {plan.where!r} cannot be used: {reason_in(str(error))}",
            hint="write a condition of SQL over key, value, text (the value as a string), headers, topic, partition, "
            "offset, timestamp, priority, trace_id and schema_id",
        ) from None


def count_messages(session: SparkSession, plan: ReplayPlan) -> list[PartitionCount]:
    """Return what would be replayed, by partitions that have something of it."""
    rows = _rows(session, plan, is_stream=False, schema=_COUNT_SCHEMA)
    counted = rows.groupBy("partition").agg(
        F.count("*"),
        F.min("offset"),
        F.max("offset"),
        F.unix_millis(F.min("timestamp")),
        F.unix_millis(F.max("timestamp")),
    )
    try:
        return sorted(PartitionCount(*row) for row in counted.collect())
    except PySparkException as error:
        raise ReplayFailed(f"the messages cannot be counted: {reason_in(str(error))}") from None


def start_query(session: SparkSession, plan: ReplayPlan, checkpoint: str) -> StreamingQuery:
    """Begin, or go on; TargetLost if the target is not the one that it began with."""
    require_target(plan.http_url, plan.name, plan.target, plan.target_id)
    rows = messages(
        _rows(session, plan, is_stream=True), keeps_partitions=plan.keeps_partitions, has_origin=plan.has_origin
    )
    options = {
        "kafka.bootstrap.servers": plan.bootstrap,
        "goqueue.http.url": plan.http_url,
        "topic": plan.target,
        "checkpointLocation": checkpoint,
    }
    writer = rows.observe(WRITTEN_METRIC, F.count("*").alias("rows")).writeStream.format("goqueue").options(**options)
    if plan.interval_s is None:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=f"{plan.interval_s} seconds")
    return writer.queryName(f"replay.{plan.name}").outputMode("append").start()


class ReplayRun:
    """A replay under way."""

    def __init__(self, session: SparkSession, plan: ReplayPlan, checkpoint: str, clock: Clock) -> None:
        session = session.newSession()
        for name, text in _SETTINGS.items():
            session.conf.set(name, text)
        self._plan = plan
        self._clock = clock
        self._began: float | None = None
        self._batches = 0
        self._offsets: int | None = None
        query = QueryPlan(
            plan.name,
            "replay",
            checkpoint,
            lambda: start_query(session, plan, checkpoint),
            Backoff(failures_max=FAILURES_MAX),
        )
        self._run = StreamRun(query, clock)

    @property
    def status(self) -> ReplayStatus:
        """How far it is."""
        progress, failure = self._run.progress, self._run.failure
        seconds = 0.0 if self._began is None else self._clock.monotonic() - self._began
        rate = progress.rows / seconds if seconds else 0.0
        return ReplayStatus(
            self._run.state,
            progress.rows,
            progress.rows_written,
            self._batches,
            progress.lag,
            rate,
            seconds,
            self._reworded(failure) if failure else None,
            max(0, (self._offsets or 0) - (progress.lag or 0) - progress.rows),
        )

    def work(self, stops: SimpleQueue[str], view: ReplayView, *, stop_s: float) -> tuple[ReplayStatus, bool]:
        """Run to the end, or until somebody wants it to stop; return how it was, and whether all is replayed.

        A second wish to stop ends this at once, with a batch under way, which the next run repeats.
        """
        is_wished = False
        is_ending = False
        while not self._run.state.is_over:
            self._look(view)
            if self._run.state.is_over:
                break
            if self._is_through and not is_ending:
                is_ending = True
                self._run.stop(self._clock.monotonic() + stop_s)
            wish = None
            with suppress(Empty):
                wish = stops.get(timeout=LOOK_S)
            if wish is not None and is_wished:
                break
            if wish is not None:
                is_wished = True
                self._run.stop(self._clock.monotonic() + stop_s)
        return ending_of(self.status, is_wished=is_wished)

    @property
    def _is_through(self) -> bool:
        """Whether a query that does not end by itself has nothing left to do."""
        return self._plan.interval_s is not None and self._run.progress.lag == 0

    def _look(self, view: ReplayView) -> None:
        for told in self._run.look(may_start=True):
            event = told
            if isinstance(event, BatchDone):
                if self._offsets is None and event.progress.lag is not None:
                    # All that this run is to go through, whatever becomes of it meanwhile.
                    self._offsets = event.progress.offsets + event.progress.lag
                # The first one has no rows, and with it comes Spark's start, which says nothing about the pace.
                if not event.progress.rows:
                    continue
                if self._began is None:
                    self._began = self._clock.monotonic() - event.progress.batch_seconds
                self._batches += 1
            else:
                event = replace(event, failure=self._reworded(event.failure))
            view.tell(event, self.status)
        view.refresh(self.status)

    def _reworded(self, failure: Failure) -> Failure:
        return reworded(failure, self._plan.name, self._plan.target)


def _rows(session: SparkSession, plan: ReplayPlan, *, is_stream: bool, schema: str = MESSAGE_SCHEMA) -> DataFrame:
    """Return the rows that are to be replayed, with the columns that are needed."""
    options = {
        "kafka.bootstrap.servers": plan.bootstrap,
        "topic": plan.source,
        "includeHeaders": "true",
        "failOnDataLoss": "true" if plan.fails_on_data_loss else "false",
        ARCHIVE: plan.archive,
        **plan.bounds,
    }
    if is_stream:
        options["maxOffsetsPerTrigger"] = str(plan.offsets_per_batch)
    reader = (session.readStream if is_stream else session.read).format("goqueue").options(**options)
    if not plan.where:
        # Who names columns saves making the others; an expression may want any of them.
        reader = reader.schema(schema)
    return chosen(reader.load(), plan.where)


def chosen(rows: DataFrame, where: str) -> DataFrame:
    """Return the rows for which an expression of SQL is true; all if it is empty."""
    if not where:
        return rows
    return rows.withColumn(TEXT, F.col("value").cast("string")).where(F.expr(where)).drop(TEXT)


def messages(rows: DataFrame, *, keeps_partitions: bool, has_origin: bool) -> DataFrame:
    """Return rows as messages to write; those that do not keep their partitions go where their keys belong."""
    headers = F.col("headers")
    if has_origin:
        origin = {TOPIC_HEADER: "topic", PARTITION_HEADER: "partition", OFFSET_HEADER: "offset"}
        pairs = [
            F.struct(F.lit(name).alias("key"), F.col(column).cast("string").cast("binary").alias("value"))
            for name, column in origin.items()
        ]
        originals = F.coalesce(headers, F.array().cast(_HEADERS_TYPE))
        headers = F.concat(originals, F.array(*pairs).cast(_HEADERS_TYPE))
    partition = [F.col("partition")] if keeps_partitions else []
    return rows.select("key", "value", headers.alias("headers"), "timestamp", *partition)
