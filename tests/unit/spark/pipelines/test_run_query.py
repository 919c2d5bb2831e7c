"""The life of a stream's query, with a query that does as it is told."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from pyspark.errors import StreamingQueryException

from goqueue.spark.pipelines.run.query import Backoff, BatchDone, Event, QueryFailed, QueryPlan, RunState, StreamRun
from goqueue.testing.clock import ManualClock


class Progress:
    """What Spark tells of a batch."""

    def __init__(self, batch: int) -> None:
        self.json = json.dumps(
            {
                "batchId": batch,
                "timestamp": f"2026-01-31T10:00:{batch:02}Z",
                "numInputRows": 5,
                "sources": [],
                "stateOperators": [],
                "sink": {},
                "durationMs": {"triggerExecution": 100, "addBatch": 50},
            }
        )


class Handle:
    """A query of Spark, as far as a run looks at it."""

    def __init__(self) -> None:
        self.isActive = True
        self.is_busy = True
        self.error: Exception | None = None
        self.recentProgress: list[Progress] = []
        self.is_stopped = False

    @property
    def lastProgress(self) -> Progress | None:  # noqa: N802 - Spark's name
        return self.recentProgress[-1] if self.recentProgress else None

    @property
    def status(self) -> dict[str, Any]:
        return {"message": "Processing new data", "isTriggerActive": self.is_busy}

    def exception(self) -> Exception | None:
        return self.error

    def stop(self) -> None:
        self.isActive, self.is_stopped = False, True

    def fail(self) -> None:
        """End by an error."""
        self.isActive, self.error = False, StreamingQueryException("No space left on device")


class OddError(Exception):
    """An error that is nothing but an Exception, as those of many libraries are."""


class Stage:
    """A run, and what it is made to go through."""

    def __init__(self, failures_max: int = 0) -> None:
        self.clock = ManualClock()
        self.handles: list[Handle] = []
        self.refusal: Exception | None = None
        plan = QueryPlan("p", "out", "/checkpoint", self._start, Backoff(failures_max=failures_max))
        self.run = StreamRun(plan, self.clock)

    def look(self) -> list[Event]:
        return list(self.run.look(may_start=True))

    def _start(self) -> Any:
        if self.refusal is not None:
            raise self.refusal
        self.handles.append(Handle())
        return cast(Any, self.handles[-1])


def test_a_stop_waits_for_the_batch_under_way() -> None:
    stage = Stage()
    stage.look()
    (handle,) = stage.handles
    stage.run.stop(stage.clock.monotonic() + 30)
    assert stage.look() == []
    assert (stage.run.state, handle.is_stopped) == (RunState.STOPPING, False)
    handle.recentProgress.append(Progress(0))
    assert [type(event) for event in stage.look()] == [BatchDone]
    assert (stage.run.state, handle.is_stopped) == (RunState.ENDED, True)


def test_a_stop_waits_no_longer_than_it_may() -> None:
    stage = Stage()
    stage.look()
    stage.run.stop(stage.clock.monotonic() + 30)
    stage.clock.advance(31)
    assert stage.look() == []
    assert (stage.run.state, stage.handles[0].is_stopped) == (RunState.ENDED, True)


def test_a_batch_that_fails_while_it_is_waited_for_is_no_good_end() -> None:
    stage = Stage()
    stage.look()
    stage.run.stop(stage.clock.monotonic() + 30)
    stage.handles[0].fail()
    (event,) = stage.look()
    assert isinstance(event, QueryFailed)
    assert event.retry_s is None
    assert "No space left" in event.failure.reason
    assert stage.run.state is RunState.FAILED


def test_a_query_that_is_stopped_before_it_could_be_started_again_has_failed() -> None:
    stage = Stage()
    stage.look()
    stage.handles[0].fail()
    (event,) = stage.look()
    assert isinstance(event, QueryFailed)
    assert event.retry_s is not None
    states = [stage.run.state]
    stage.run.stop(stage.clock.monotonic() + 30)
    stage.look()
    assert [*states, stage.run.state] == [RunState.RESTARTING, RunState.FAILED]


@pytest.mark.parametrize("error", [OddError("the library says no"), KeyError("x")], ids=repr)
def test_whatever_a_function_raises_fails_its_query_and_is_told(error: Exception) -> None:
    stage = Stage()
    stage.refusal = error
    (event,) = stage.look()
    assert isinstance(event, QueryFailed)
    assert type(error).__name__ in event.failure.reason


def test_a_batch_that_succeeds_makes_failures_count_anew() -> None:
    stage = Stage(failures_max=2)
    for _ in range(4):
        stage.look()
        stage.handles[-1].recentProgress.append(Progress(len(stage.handles)))
        stage.look()
        stage.handles[-1].fail()
        (event,) = stage.look()
        assert isinstance(event, QueryFailed)
        assert event.retry_s is not None
        stage.clock.advance(event.retry_s)
