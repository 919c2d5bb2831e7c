"""A replay: publishes messages of a topic again, to another topic or the same one, each exactly once.

It is a stream with an end, from the data source to its sink. Start and end are resolved when the job begins and stored
in the checkpoint; the sink commits each batch once. So the job can be killed at any moment and run again, and messages
published meanwhile, including its own, are not read.

Without a rate, batches follow each other immediately. With a rate, a batch of that many offsets begins every second.
The rate limits reads; publishing is at most as fast. A batch reads at least one offset per partition, so for low rates
the interval is longer.

Key, value, headers and timestamp of messages do not change. These headers are appended:

| header                     | value                                                    |
|----------------------------|----------------------------------------------------------|
| `goqueue-replay-topic`     | its topic in the source                               |
| `goqueue-replay-partition` | its partition in the source                                      |
| `goqueue-replay-offset`    | its offset in the source                                         |
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - its usual name

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
    # # By default, Spark waits forever for a query that does not stop.
    "spark.sql.streaming.stopTimeout": "10000",
    # # A finished job is noticed at once.
    "spark.sql.streaming.noDataProgressEventInterval": "1000",
}

TEXT: Final = "text"
"""The value as a string, for conditions."""

TOPIC_HEADER: Final = "goqueue-replay-topic"
PARTITION_HEADER: Final = "goqueue-replay-partition"
OFFSET_HEADER: Final = "goqueue-replay-offset"

_HEADERS_TYPE: Final = "ARRAY<STRUCT<key: STRING, value: BINARY>>"
MESSAGE_SCHEMA: Final = (
    f"key BINARY, value BINARY, headers {_HEADERS_TYPE}, topic STRING, partition INT, offset BIGINT"
    ", timestamp TIMESTAMP"
)
"""The columns that `messages` needs."""


class ReplayFailed(Conflict):
    """The messages cannot be read."""

    code = "replay_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPlan:
    """A replay as planned before Spark starts; `bounds` are options of the source."""

    name: str
    source: str
    target: str
    bootstrap: str
    http_url: str
    bounds: Mapping[str, str]
    archive: str
    """The source's option for records that the log no longer has."""
    where: str
    keeps_partitions: bool
    has_origin: bool
    fails_on_data_loss: bool
    offsets_per_batch: int
    interval_s: int | None
    """The interval of batches; None if they follow each other immediately."""
    target_id: str = ""
    """The id of the target; empty if unknown."""


@dataclass(frozen=True, slots=True)
class ReplayStatus:
    """The progress of a replay; `read` and `published` of this run, `left` in offsets, None if unknown."""

    state: RunState
    read: int = 0
    published: int = 0
    batches: int = 0
    left: int | None = None
    rows_per_second: float = 0.0
    seconds: float = 0.0
    failure: Failure | None = None
    missing: int = 0
    """Offsets without a message: lost messages, transaction markers and compacted records."""

    @property
    def seconds_left(self) -> float | None:
        """Estimated time for the rest at the current rate."""
        if self.left is None or (self.left and not self.rows_per_second):
            return None
        return self.left / self.rows_per_second if self.left else 0.0


class ReplayView(Protocol):
    """Shows the events of a replay."""

    def tell(self, event: Event, status: ReplayStatus) -> None:
        """Show an event."""
        ...

    def refresh(self, status: ReplayStatus) -> None:
        """Show the current status."""
        ...


class PartitionCount(NamedTuple):
    """The messages to replay of a partition; times in milliseconds since 1970, None without timestamps."""

    partition: int
    messages: int
    first_offset: int
    last_offset: int
    first_time_ms: int | None
    last_time_ms: int | None


def pace(rate: int | None, partitions: int, batch: int) -> tuple[int, int | None]:
    """Return the offsets per batch and the interval of batches in seconds, None for no interval."""
    if rate is None:
        return batch, None
    interval_s = max(1, -(-partitions // rate))
    return rate * interval_s, interval_s


def ending_of(status: ReplayStatus, *, is_wished: bool) -> tuple[ReplayStatus, bool]:
    """Return the final status of a replay, and whether everything is replayed. Nothing may be left; lost offsets that
    the replay skips do not count. A run that found nothing to do has no lag and ends by itself. A run that was stopped
    while it waited for a retry has not failed.
    """
    if is_wished and status.state is RunState.FAILED and status.failure and not status.failure.is_hopeless:
        return replace(status, state=RunState.ENDED), False
    has_ended = status.state is RunState.ENDED
    if has_ended and not is_wished and status.left:
        failure = Failure(f"the query has ended, but {status.left:,} offsets before its end were not read")
        return replace(status, state=RunState.FAILED, failure=failure), False
    return status, has_ended and (not is_wished or status.left == 0)


def check_where(session: SparkSession, plan: ReplayPlan) -> None:
    """Raise Invalid if the condition is malformed; reads nothing."""
    try:
        _ = _rows(session, plan, is_stream=False).schema
    except PySparkException as error:
        raise Invalid(
            f"--where {plan.where!r} cannot be used: {reason_in(str(error))}",
            hint="write a condition of SQL over key, value, text (the value as a string), headers, topic, partition, "
            "offset, timestamp, priority, trace_id and schema_id",
        ) from None


def count_messages(session: SparkSession, plan: ReplayPlan) -> list[PartitionCount]:
    """Return the messages to replay, for each partition that has any."""
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
    """Start or continue the query; TargetLost if the target is another topic than at the beginning."""
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
    """A running replay."""

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
        """The current status."""
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
        """Run until the end or a request to stop; return the status, and whether everything is replayed. A second
        request ends the run at once; the next run repeats the batch under way.
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
        """Whether a query that does not end by itself has reached its end."""
        return self._plan.interval_s is not None and self._run.progress.lag == 0

    def _look(self, view: ReplayView) -> None:
        for told in self._run.look(may_start=True):
            event = told
            if isinstance(event, BatchDone):
                if self._offsets is None and event.progress.lag is not None:
                    # # The offsets of this run, before any of them are lost.
                    self._offsets = event.progress.offsets + event.progress.lag
                # # The first batch has no rows and includes Spark's start, so it does not count for the rate.
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
    """Return the rows to replay, with the required columns."""
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
        # # Naming columns saves building the others; a condition may use any of them.
        reader = reader.schema(schema)
    return chosen(reader.load(), plan.where)


def chosen(rows: DataFrame, where: str) -> DataFrame:
    """Return the rows for which a SQL condition is true; all if it is empty."""
    if not where:
        return rows
    return rows.withColumn(TEXT, F.col("value").cast("string")).where(F.expr(where)).drop(TEXT)


def messages(rows: DataFrame, *, keeps_partitions: bool, has_origin: bool) -> DataFrame:
    """Return rows as messages; without `keeps_partitions` the key chooses the partition."""
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
