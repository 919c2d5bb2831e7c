"""A pipeline that reads no stream is run once: each sink writes all rows of its table, and that is the end.

A write is one job of Spark, and whatever it leaves half done is not seen: it is not tried again by itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from goqueue.seams.clock import Clock
from goqueue.spark.pipelines.progress import RULES_PREFIX, WRITTEN_METRIC, QueryProgress, bad_rows
from goqueue.spark.pipelines.run_failures import Failure, failure_of
from goqueue.spark.pipelines.run_query import EXPECTED_ERRORS, BatchDone, Event, QueryFailed, State

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation, SparkSession


_STOPPED = Failure("it was stopped before its table was written")


class Observed:
    """Counts of one write; they are known when it has ended."""

    def __init__(self) -> None:
        self._observations: dict[str, Observation] = {}

    def observe(self, rows: DataFrame, name: str, counted: Mapping[str, Column]) -> DataFrame:
        """Count the rows that break the rules of a part."""
        return self._observe(rows, f"{RULES_PREFIX}{name}", counted)

    def observe_written(self, rows: DataFrame) -> DataFrame:
        """Count all rows."""
        from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

        return self._observe(rows, WRITTEN_METRIC, {"rows": F.count("*")})

    def metrics(self) -> dict[str, Mapping[str, Any]]:
        """Return all counts, by the names that they have in a stream."""
        return {name: observation.get for name, observation in self._observations.items()}

    def _observe(self, rows: DataFrame, name: str, counted: Mapping[str, Column]) -> DataFrame:
        from pyspark.sql import Observation

        observation = self._observations[name] = Observation(name)
        return rows.observe(observation, *(column.alias(each) for each, column in counted.items()))


class TableRun:
    """A write of a table, on a thread of its own."""

    def __init__(
        self, pipeline: str, name: str, session: SparkSession, write: Callable[[], Observed], clock: Clock
    ) -> None:
        self._pipeline = pipeline
        self._session = session
        self._write = write
        self._clock = clock
        self._group = f"{pipeline}.{name}"
        self._thread = threading.Thread(target=self._run, name=self._group, daemon=True)
        self._began = clock.monotonic()
        self._metrics: dict[str, Mapping[str, Any]] = {}
        self._error: Exception | None = None
        self._is_written = False
        self._is_stopped = False
        self.state = State.STARTING
        self.progress = QueryProgress(name)
        self.failure: Failure | None = None
        self.restarts = 0

    @property
    def is_settling(self) -> bool:
        return False

    def look(self, *, may_start: bool) -> Iterator[Event]:
        if self.state is State.STARTING and may_start:
            self.state = State.RUNNING
            self._began = self._clock.monotonic()
            self._thread.start()
        elif not self.state.is_over and not self._thread.is_alive():
            yield self._ended()

    def stop(self, deadline: float) -> None:
        del deadline
        self._is_stopped = True
        if self.state is State.STARTING:
            self.state = State.ENDED
        elif self.state is State.RUNNING:
            self.state = State.STOPPING
            self._session.sparkContext.cancelJobGroup(self._group)

    def _ended(self) -> Event:
        if not self._is_written:
            self.failure = _STOPPED if self._is_stopped else failure_of(self._error or RuntimeError("nobody knows why"))
            self.state = State.FAILED
            return QueryFailed(self._pipeline, self.progress.name, self.failure, None)
        seconds = self._clock.monotonic() - self._began
        written = self._metrics.get(WRITTEN_METRIC, {}).get("rows", 0)
        self.progress = replace(
            self.progress,
            batch=0,
            rows=written,
            rows_written=written,
            rows_per_second=written / seconds if seconds else 0.0,
            batch_seconds=seconds,
            bad_rows=bad_rows(self._metrics),
            updated_at_ms=self._clock.now_ms(),
        )
        self.state = State.ENDED
        return BatchDone(self._pipeline, self.progress)

    def _run(self) -> None:
        self._session.sparkContext.setJobGroup(self._group, self._group, interruptOnCancel=True)
        try:
            self._metrics = self._write().metrics()
            self._is_written = True
        except EXPECTED_ERRORS as error:
            self._error = error
