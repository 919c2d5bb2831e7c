"""The life of one query: started, watched batch by batch, started again when it fails, and stopped between batches.

    starting -> running -> ended               worked off, or stopped
                running -> restarting -> running     failed, and waits for its turn
                running -> failed              failed too often, or in a way that comes again

Nothing here waits: `look` is called now and then, and does what is due. Queries begin one after another: each starts a
few processes of Python, which Spark expects within ten seconds, and many of them at once would not make it.

How long to wait before a query that has failed is started again. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Protocol

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from goqueue.seams.clock import Clock
from goqueue.spark.failures import Failure, failure_of
from goqueue.spark.pipelines.run.progress import Figures, RunProgress, advance, read_batch

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


# What Spark calls the state of a query before its first batch; one that is still there after a while has other worries.
_SETTLING_MESSAGES: Final = ("Initializing", "Getting offsets")
_SETTLING_S_MAX: Final = 30.0


class RunState(StrEnum):
    """How a query, or a whole pipeline, is."""

    STARTING = "starting"
    RUNNING = "running"
    RESTARTING = "restarting"
    STOPPING = "stopping"
    ENDED = "ended"
    FAILED = "failed"

    @property
    def is_over(self) -> bool:
        """Whether nothing will happen any more."""
        return self in {RunState.ENDED, RunState.FAILED}


@dataclass(frozen=True, slots=True)
class BatchDone:
    """A query has finished a batch."""

    pipeline: str
    progress: RunProgress
    figures: Figures
    """Those of the batch; `progress` has the totals."""


@dataclass(frozen=True, slots=True)
class QueryFailed:
    """A query has failed; it starts again after `retry_s`, or never if that is None."""

    pipeline: str
    query: str
    failure: Failure
    retry_s: float | None


Event = BatchDone | QueryFailed


class QueryRun(Protocol):
    """A query under way, whichever way it is run."""

    @property
    def state(self) -> RunState: ...

    @property
    def progress(self) -> RunProgress: ...

    @property
    def failure(self) -> Failure | None: ...

    @property
    def restarts(self) -> int: ...

    @property
    def is_settling(self) -> bool:
        """Whether it has begun, but does not work yet."""
        ...

    def look(self, *, may_start: bool) -> Iterator[Event]:
        """Do what is due, and tell what has happened since the last look."""
        ...

    def stop(self, deadline: float) -> None:
        """Come to an end: behind the batch under way, or without it when the deadline (monotonic) has passed."""
        ...


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """How a query is started, again and again if need be."""

    pipeline: str
    name: str
    checkpoint: str
    start: Callable[[], StreamingQuery]
    backoff: Backoff
    counts_written: bool = False
    """Whether its rows are those that it writes: a query over dead letters reads much that is none."""


class StreamRun:
    """A query of Structured Streaming."""

    def __init__(self, plan: QueryPlan, clock: Clock) -> None:
        self._plan = plan
        self._clock = clock
        self._handle: StreamingQuery | None = None
        self._seen: tuple[int, str] = (-1, "")
        self._is_settled = False
        self._failures = 0
        self._due = clock.monotonic()
        self._deadline: float | None = None
        self._batches_before_stop = 0
        self._batches = 0
        self.state = RunState.STARTING
        self.progress = RunProgress(plan.name)
        self.failure: Failure | None = None
        self.restarts = 0

    @property
    def is_settling(self) -> bool:
        handle = self._handle
        if handle is None or self._is_settled:
            return False
        is_early = self._clock.monotonic() < self._due + _SETTLING_S_MAX
        message = str(handle.status["message"])
        self._is_settled = not (is_early and handle.isActive and message.startswith(_SETTLING_MESSAGES))
        return not self._is_settled

    def look(self, *, may_start: bool) -> Iterator[Event]:
        if self.state.is_over:
            return
        if self._handle is None:
            if self._deadline is not None:
                # What has failed, and is not tried again, has not ended well.
                self.state = RunState.ENDED if self.failure is None else RunState.FAILED
            elif may_start and self._clock.monotonic() >= self._due:
                yield from self._start()
            return
        yield from self._follow(self._handle)
        if not self._handle.isActive:
            # What it did between the two questions is not to be missed.
            yield from self._follow(self._handle)
            yield from self._end(self._handle)
        elif self._deadline is not None and self._is_between_batches(self._handle, self._deadline):
            self._halt(self._handle)

    def stop(self, deadline: float) -> None:
        self._deadline = deadline
        self._batches_before_stop = self._batches
        if not self.state.is_over:
            self.state = RunState.STOPPING

    def _start(self) -> Iterator[Event]:
        try:
            self._handle = self._plan.start()
        except Py4JNetworkError:
            # Java is gone, and so are all queries: that is not a failure of this one.
            raise
        except Exception as error:  # noqa: BLE001 - the edge: whatever a function of users raises fails this query only
            yield self._failed(failure_of(error, self._plan.checkpoint))
        else:
            self._seen = (-1, "")
            self._is_settled = False
            self._due = self._clock.monotonic()
            self.state = RunState.RUNNING

    def _follow(self, handle: StreamingQuery) -> Iterator[Event]:
        """Add up what Spark has told since the last time."""
        for account in self._new_accounts(handle):
            batch = read_batch(account)
            known = self.progress
            self.progress = advance(known, batch, self._clock.now_ms())
            if self._plan.counts_written:
                self.progress = _by_written(self.progress, batch.rows_written, batch.seconds)
            if batch.is_idle:
                continue
            self._batches += 1
            self._failures = 0
            self.failure = None
            read = batch.rows_written if self._plan.counts_written else batch.rows_read
            figures = Figures(read, batch.rows_written, batch.bad_rows, batch.warned_rows)
            yield BatchDone(self._plan.pipeline, self.progress, figures)

    def _new_accounts(self, handle: StreamingQuery) -> list[dict[str, object]]:
        last = handle.lastProgress
        if last is None or _mark(json.loads(last.json)) == self._seen:
            return []
        accounts = [json.loads(each.json) for each in handle.recentProgress]
        marks = [_mark(account) for account in accounts]
        new = accounts[marks.index(self._seen) + 1 :] if self._seen in marks else accounts
        if accounts:
            self._seen = marks[-1]
        return new

    def _end(self, handle: StreamingQuery) -> Iterator[Event]:
        error = handle.exception()
        self._handle = None
        self.progress = _at_rest(self.progress)
        if error is None:
            self.state = RunState.ENDED
            return
        yield self._failed(failure_of(error, self._plan.checkpoint))

    def _failed(self, failure: Failure) -> QueryFailed:
        self._failures += 1
        self.failure = failure
        self.progress = _at_rest(self.progress)
        is_last = failure.is_hopeless or self._deadline is not None
        delay_s = None if is_last else self._plan.backoff.delay_s(self._failures)
        if delay_s is None:
            self.state = RunState.FAILED
        else:
            self.state = RunState.RESTARTING
            self.restarts += 1
            self._due = self._clock.monotonic() + delay_s
        return QueryFailed(self._plan.pipeline, self._plan.name, failure, delay_s)

    def _is_between_batches(self, handle: StreamingQuery, deadline: float) -> bool:
        if self._batches > self._batches_before_stop or self._clock.monotonic() >= deadline:
            return True
        return not handle.status["isTriggerActive"]

    def _halt(self, handle: StreamingQuery) -> None:
        # One that does not end in time is left alone: what it has not committed is repeated by the next run.
        with suppress(PySparkException, Py4JError):
            handle.stop()
        self._handle = None
        self.progress = _at_rest(self.progress)
        self.state = RunState.ENDED


def _mark(account: dict[str, object]) -> tuple[int, str]:
    """Return what tells one account of a query from another."""
    number = account["batchId"]
    assert isinstance(number, int)
    return number, str(account["timestamp"])


def _by_written(progress: RunProgress, written: int, seconds: float) -> RunProgress:
    rate = written / seconds if seconds else 0.0
    return replace(progress, rows=progress.rows_written, rows_per_second=rate)


def _at_rest(progress: RunProgress) -> RunProgress:
    return replace(progress, rows_per_second=0.0)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Twice as long after each failure in a row, up to a limit; `failures_max` in a row are enough, 0 is no limit."""

    first_s: float = 1.0
    longest_s: float = 60.0
    failures_max: int = 0

    def delay_s(self, failures: int) -> float | None:
        """Return how long to wait after so many failures in a row, from 1 on; None if it is time to give up."""
        if self.failures_max and failures >= self.failures_max:
            return None
        # Beyond this, the limit has long been reached, and powers of two would become too large.
        return min(self.first_s * 2.0 ** min(failures - 1, 60), self.longest_s)
