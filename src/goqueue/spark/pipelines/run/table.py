"""A pipeline that reads no stream is run once: each sink writes all rows of its table, and that is the end.

A write is one job of Spark, and whatever it leaves half done is not seen: it is not tried again by itself. `look` plans
the write, since all sinks of a pipeline share the names that SQL reads; the thread only writes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from goqueue.seams.clock import Clock
from goqueue.spark.failures import Failure, failure_of
from goqueue.spark.pipelines.run.progress import (
    RULES_PREFIX,
    WARNINGS_PREFIX,
    WRITTEN_METRIC,
    RunProgress,
    broken_rules,
)
from goqueue.spark.pipelines.run.query import BatchDone, Event, QueryFailed, RunState
from goqueue.spark.session import is_remote

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation, SparkSession


# # A function that ran no job never has counts.
_COUNTS_S_MAX: Final = 5.0
_STOPPED = Failure("it was stopped before its table was written", is_consequence=True)


class Observed:
    """Counts of one write; they are known when it has ended."""

    def __init__(self) -> None:
        self._observations: dict[str, Observation] = {}

    def observe(self, rows: DataFrame, name: str, counted: Mapping[str, Column]) -> DataFrame:
        """Count the rows that break the rules of a part."""
        return self._observe(rows, name, counted)

    def observe_written(self, rows: DataFrame) -> DataFrame:
        """Count all rows."""
        from pyspark.sql import functions as F  # noqa: N812 - its usual name

        return self._observe(rows, WRITTEN_METRIC, {"rows": F.count("*")})

    def metrics(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield all counts, by the names that they have in a stream; each is waited for.

        Tables that Spark found empty before it ran have no counts.
        """
        for name, observation in self._observations.items():
            found: Mapping[str, Any] = {}
            with suppress(PySparkException, Py4JError):
                found = observation.get
            yield name, found

    def _observe(self, rows: DataFrame, name: str, counted: Mapping[str, Column]) -> DataFrame:
        from pyspark.sql import Observation

        observation = self._observations[name] = Observation(name)
        return rows.observe(observation, *(column.alias(each) for each, column in counted.items()))


class TableWrite(NamedTuple):
    """A write that is planned, and what it counts."""

    write: Callable[[], None]
    observed: Observed


class TableRun:
    """A write of a table, on a thread of its own."""

    def __init__(
        self, pipeline: str, name: str, session: SparkSession, plan: Callable[[], TableWrite], clock: Clock
    ) -> None:
        self._pipeline = pipeline
        self._session = session
        self._plan = plan
        self._clock = clock
        # Commas are what Spark puts between tags.
        self._tag = f"{pipeline}.{name}".replace(",", " ")
        self._thread: threading.Thread | None = None
        self._began = clock.monotonic()
        self._metrics: dict[str, Mapping[str, Any]] = {}
        self._error: Exception | None = None
        self._written_at: float | None = None
        self._deadline: float | None = None
        self.state = RunState.STARTING
        self.progress = RunProgress(name)
        self.failure: Failure | None = None
        self.restarts = 0

    @property
    def is_settling(self) -> bool:
        return False

    def look(self, *, may_start: bool) -> Iterator[Event]:
        if self.state is RunState.STARTING and may_start:
            yield from self._start()
        elif self._thread is not None and not self.state.is_over and (not self._thread.is_alive() or self._is_late()):
            yield self._ended()

    def stop(self, deadline: float) -> None:
        self._deadline = deadline
        if self.state is RunState.STARTING:
            self.state, self.failure = RunState.FAILED, _STOPPED
        elif self.state is RunState.RUNNING:
            self.state = RunState.STOPPING
            self._session.interruptTag(self._tag)

    def _start(self) -> Iterator[Event]:
        self._began = self._clock.monotonic()
        try:
            planned = self._plan()
        except Exception as error:  # noqa: BLE001 - the edge: whatever a function of users raises fails this query only
            yield self._failed(failure_of(error))
            return
        self.state = RunState.RUNNING
        self._thread = threading.Thread(target=self._run, args=planned, name=self._tag, daemon=True)
        self._thread.start()

    def _is_late(self) -> bool:
        """Whether the thread is not waited for any longer: its counts do not come, or it does not stop."""
        now = self._clock.monotonic()
        has_no_counts = self._written_at is not None and now > self._written_at + _COUNTS_S_MAX
        return has_no_counts or (self._deadline is not None and now >= self._deadline)

    def _failed(self, failure: Failure) -> QueryFailed:
        self.failure = failure
        self.state = RunState.FAILED
        return QueryFailed(self._pipeline, self.progress.name, failure, None)

    def _ended(self) -> Event:
        if self._written_at is None:
            is_cancelled = self._deadline is not None and "CANCEL" in str(self._error).upper()
            return self._failed(_STOPPED if self._error is None or is_cancelled else failure_of(self._error))
        seconds = self._written_at - self._began
        written = self._metrics.get(WRITTEN_METRIC, {}).get("rows", 0)
        self.progress = replace(
            self.progress,
            batch=0,
            rows=written,
            rows_written=written,
            rows_per_second=written / seconds if seconds else 0.0,
            batch_seconds=seconds,
            bad_rows=broken_rules(self._metrics, RULES_PREFIX),
            warned_rows=broken_rules(self._metrics, WARNINGS_PREFIX),
            updated_at_ms=self._clock.now_ms(),
        )
        self.state = RunState.ENDED
        return BatchDone(self._pipeline, self.progress, self.progress.totals)

    def _run(self, write: Callable[[], None], observed: Observed) -> None:
        try:
            _make_active(self._session)
            self._session.addTag(self._tag)
            write()
            self._written_at = self._clock.monotonic()
            # # Assigned at once, so that `look` never sees half of them.
            self._metrics = dict(observed.metrics())
        except Exception as error:  # noqa: BLE001 - the edge of the thread: `look` reports it
            self._error = error


def _make_active(session: SparkSession) -> None:
    """Let Spark find Python data sources on this thread: it asks the session that is active there, if there is one."""
    if not is_remote(session):
        type(session)._get_j_spark_session_class(session._jvm).setActiveSession(session._jsparkSession)
