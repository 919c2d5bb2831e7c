"""A pipeline as it runs: one query for each sink, and one for the dead letters.

Each sink has a query of its own, since a query of Spark has one sink, one checkpoint and one pace: a sink that is slow
or down holds up no other, and what is exactly once is so for each of them. The price is that sources are read once for
each sink. Dead letters have their own query for the same reason: if every sink wrote those that it meets, a message
would be dead once per sink.

A failed query restarts by itself. A permanent failure ends its pipeline, and no other. `run_pipelines` runs several
pipelines until all have ended or are stopped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final, Protocol

from pyspark.errors import PySparkException

from goqueue.errors import Invalid
from goqueue.seams.clock import Clock
from goqueue.spark.failures import Failure, reason_in
from goqueue.spark.pipelines.compile.pipeline import compile_dead_letters, compile_rows
from goqueue.spark.pipelines.compile.sources import QueryContext
from goqueue.spark.pipelines.graph import upstream
from goqueue.spark.pipelines.run.checkpoints import Checkpoints
from goqueue.spark.pipelines.run.progress import DEAD_LETTERS_NAME, WRITTEN_METRIC, RunProgress
from goqueue.spark.pipelines.run.query import Backoff, Event, QueryPlan, QueryRun, RunState, StreamRun
from goqueue.spark.pipelines.run.table import Observed, TableRun, TableWrite
from goqueue.spark.pipelines.spec.model import AvailableNow, ConsoleSink, PipelineSpec, Sink
from goqueue.spark.pipelines.write.delta import require_delta
from goqueue.spark.pipelines.write.sinks import Show, start_dead_letters, start_stream, write_dead_letters, write_table
from goqueue.spark.session import SESSION_SETTINGS, is_remote, release_session

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


FAILURES_MAX_OF_AVAILABLE_NOW: Final = 5
_STOP_TIMEOUT_MS: Final = 10_000

LOOK_S: Final = 0.25
STOP_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class RunSettings:
    """Settings of a run; it gives up after `failures_max` failures in a row, None for the default of the trigger."""

    bootstrap: str
    checkpoints: Checkpoints
    http_url: str | None = None
    failures_max: int | None = None


@dataclass(frozen=True, slots=True)
class QueryStatus:
    """A query as it is now."""

    state: RunState
    progress: RunProgress
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """A pipeline as it is now."""

    name: str
    state: RunState
    restarts: int
    failure: Failure | None
    queries: tuple[QueryStatus, ...]


class RunView(Protocol):
    """Shows the events of a run."""

    def tell(self, event: Event) -> None:
        """Show an event."""
        ...

    def refresh(self, pipelines: tuple[PipelineStatus, ...]) -> None:
        """Show the current status."""
        ...


class PipelineRun:
    """A pipeline under way; it has a session of its own, which shares everything but views and settings."""

    def __init__(
        self, spec: PipelineSpec, settings: RunSettings, session: SparkSession, clock: Clock, show: Show
    ) -> None:
        self.spec = spec
        self._settings = settings
        self._clock = clock
        self._show = show
        if is_remote(session):
            require_no_console(spec)
        else:
            require_delta(spec)
        self._session = session.newSession()
        self._set_up()
        self._is_stopping = False
        self._queries = [self._of_sink(sink) for sink in spec.sinks]
        if spec.dead_letter_parts:
            # # Before all others: with `start: latest`, later queries must not drop rows that have no dead letter.
            self._queries.insert(0, self._of_letters())

    @property
    def status(self) -> PipelineStatus:
        """How it is now."""
        queries = sorted(self._queries, key=lambda query: query.progress.name == DEAD_LETTERS_NAME)
        failures = [each.failure for each in queries if each.failure is not None]
        failures.sort(key=lambda failure: not failure.is_consequence)
        return PipelineStatus(
            self.spec.name,
            self._state(),
            sum(each.restarts for each in queries),
            failures[-1] if failures else None,
            tuple(QueryStatus(each.state, each.progress, each.failure) for each in queries),
        )

    @property
    def is_settling(self) -> bool:
        """Whether one of its queries has begun, but does not work yet."""
        return any(query.is_settling for query in self._queries)

    def look(self, *, may_start: bool) -> Iterator[Event]:
        """Do what is due, and tell what has happened since the last look."""
        for query in self._queries:
            # # Without its dead-letter query, a pipeline does not start.
            yield from query.look(may_start=may_start and not self.is_settling and not self._has_failed)
        if self._has_failed and not self._is_stopping:
            self.stop(self._clock.monotonic() + 30.0)

    def stop(self, deadline: float) -> None:
        """Let all queries come to an end."""
        self._is_stopping = True
        for query in self._queries:
            query.stop(deadline)

    def close(self) -> None:
        """Leave the session; a server of Spark Connect then ends what is left in the middle."""
        release_session(self._session)

    @property
    def _has_failed(self) -> bool:
        return any(query.state is RunState.FAILED for query in self._queries)

    def _state(self) -> RunState:
        states = {query.state for query in self._queries}
        if all(state.is_over for state in states):
            return RunState.FAILED if RunState.FAILED in states else RunState.ENDED
        for state in (RunState.STOPPING, RunState.RESTARTING, RunState.STARTING):
            if state in states or (state is RunState.STOPPING and self._is_stopping):
                return state
        return RunState.RUNNING

    def _set_up(self) -> None:
        # A new session of Spark Connect begins with what its server has.
        for name, text in {**SESSION_SETTINGS, **self.spec.spark}.items():
            if name.startswith("spark.sql.") and self._session.conf.isModifiable(name):
                self._set(name, text)
        # # By default, Spark waits forever for a query that does not stop.
        self._session.conf.set("spark.sql.streaming.stopTimeout", str(_STOP_TIMEOUT_MS))

    def _set(self, name: str, text: str) -> None:
        try:
            self._session.conf.set(name, text)
        except PySparkException as error:
            raise Invalid(
                f"Spark does not take the setting {name} of pipeline {self.spec.name}: {reason_in(str(error))}",
                hint="correct it under spark: in the file",
            ) from None

    def _ground(self, query: str) -> QueryContext:
        group = f"pipeline.{self.spec.name}.{query.replace(' ', '-')}"
        return QueryContext(self._session, self._settings.bootstrap, self._settings.http_url, group)

    def _of_sink(self, sink: Sink) -> QueryRun:
        ground = self._ground(sink.name)
        if not self._is_stream([sink.input]):
            return TableRun(
                self.spec.name, sink.name, self._session, lambda: self._plan_table(sink, ground), self._clock
            )

        checkpoint = self._settings.checkpoints.of_sink(sink.name)

        def start() -> StreamingQuery:
            rows = _observe_written(compile_rows(self.spec, sink, ground, _observe))
            return start_stream(
                sink,
                rows,
                ground,
                name=f"{self.spec.name}.{sink.name}",
                trigger=self.spec.trigger,
                checkpoint=checkpoint,
                show=self._show,
            )

        return StreamRun(QueryPlan(self.spec.name, sink.name, checkpoint, start, self._backoff()), self._clock)

    def _of_letters(self) -> QueryRun:
        ground = self._ground(DEAD_LETTERS_NAME)
        if not self._is_stream(self.spec.dead_letter_parts):
            return TableRun(
                self.spec.name, DEAD_LETTERS_NAME, self._session, lambda: self._plan_letters(ground), self._clock
            )
        checkpoint = self._settings.checkpoints.of_dead_letters

        def start() -> StreamingQuery:
            letters = compile_dead_letters(self.spec, ground)
            assert letters is not None
            return start_dead_letters(
                _observe_written(letters),
                self.spec.dead_letters,
                ground,
                name=f"{self.spec.name}.{DEAD_LETTERS_NAME}",
                trigger=self.spec.trigger,
                checkpoint=checkpoint,
            )

        plan = QueryPlan(self.spec.name, DEAD_LETTERS_NAME, checkpoint, start, self._backoff(), counts_written=True)
        return StreamRun(plan, self._clock)

    def _plan_table(self, sink: Sink, ground: QueryContext) -> TableWrite:
        observed = Observed()
        rows = observed.observe_written(compile_rows(self.spec, sink, ground, observed.observe))
        return TableWrite(lambda: write_table(sink, rows, ground, self._show), observed)

    def _plan_letters(self, ground: QueryContext) -> TableWrite:
        observed = Observed()
        letters = compile_dead_letters(self.spec, ground)
        assert letters is not None
        rows = observed.observe_written(letters)
        return TableWrite(lambda: write_dead_letters(rows, self.spec.dead_letters, ground), observed)

    def _is_stream(self, names: list[str]) -> bool:
        reads = {source.name: () for source in self.spec.sources} | {step.name: step.inputs for step in self.spec.steps}
        read = upstream(reads, names)
        return any(source.is_stream for source in self.spec.sources if source.name in read)

    def _backoff(self) -> Backoff:
        chosen = self._settings.failures_max
        if chosen is None:
            chosen = FAILURES_MAX_OF_AVAILABLE_NOW if isinstance(self.spec.trigger, AvailableNow) else 0
        return Backoff(failures_max=chosen)


def require_no_console(spec: PipelineSpec) -> None:
    """Refuse what Spark Connect cannot do: functions for batches run at the server, and so would what they print."""
    consoles = [sink.name for sink in spec.sinks if isinstance(sink, ConsoleSink)]
    if consoles:
        raise Invalid(
            f"sink {consoles[0]} of pipeline {spec.name} writes to the console, which does not work with Spark Connect",
            hint="write to a topic or to files, or run it with another --master",
        )


def _observe(rows: DataFrame, name: str, counted: Mapping[str, Column]) -> DataFrame:
    return rows.observe(name, *(column.alias(each) for each, column in counted.items()))


def _observe_written(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812 - its usual name

    return rows.observe(WRITTEN_METRIC, F.count("*").alias("rows"))


def run_pipelines(
    runs: Sequence[PipelineRun], stops: SimpleQueue[str], view: RunView, clock: Clock, *, stop_s: float = STOP_S
) -> tuple[PipelineStatus, ...]:
    """Run pipelines, and return how they have ended.

    `stops` brings wishes to stop: the name of a pipeline, or nothing for all of them. A second one for all of them ends
    this at once, with batches under way, which are repeated when the pipelines run again.
    """
    is_stopping = False
    while True:
        for run in runs:
            may_start = not any(other.is_settling for other in runs)
            for event in run.look(may_start=may_start):
                view.tell(event)
        statuses = tuple(run.status for run in runs)
        view.refresh(statuses)
        if all(status.state.is_over for status in statuses):
            return statuses
        name = None
        with suppress(Empty):
            name = stops.get(timeout=LOOK_S)
        if name is None:
            continue
        if not name and is_stopping:
            return statuses
        is_stopping = is_stopping or not name
        for run in runs:
            if not name or run.spec.name == name:
                run.stop(clock.monotonic() + stop_s)
