"""One run of pipelines in a Spark session.

Checks that need only the broker come before the ten seconds that Spark takes to start.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import PurePath
from queue import SimpleQueue
from typing import TYPE_CHECKING, Protocol

from goqueue.errors import Invalid
from goqueue.seams.clock import SystemClock
from goqueue.seams.entropy import SystemEntropy
from goqueue.spark.pipelines.spec.model import AvailableNow, PipelineSpec
from goqueue.spark.runs.output import STDERR, spark_output
from goqueue.spark.runs.session import quiet, require_spark, stop_signals
from goqueue.spark.session import SessionRequest, SparkLost, SparkNotStarted, is_remote, java_exit, start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from goqueue.spark.pipelines import LoadedFile
    from goqueue.spark.pipelines.run.pipeline import PipelineStatus, RunSettings
    from goqueue.spark.pipelines.run.query import Event
    from goqueue.spark.pipelines.run.report import Reporter
    from goqueue.spark.pipelines.run.topics import LiveEnds
    from goqueue.spark.pipelines.write.sinks import ShownRows

_TELL_S = 5.0


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of a run; empty texts mean the setting of the files or of the broker."""

    master: str = ""
    is_available_now: bool = False
    checkpoint: str = ""
    broker: str = ""
    server: str = ""
    has_reports: bool = True
    restarts: int | None = None
    stop_seconds: float = 30.0
    has_spark_logs: bool = False


class RunScreen(Protocol):
    """Shows the progress of pipelines."""

    def say(self, line: str) -> None:
        """Show a line about the whole run."""
        ...

    def tell(self, event: Event) -> None:
        """Show an event."""
        ...

    def show_rows(self, shown: ShownRows) -> None:
        """Show rows of a console sink; called from threads of Spark."""
        ...

    def wait_for(self, what: str, waited_s: float) -> None:
        """Show that the run waits for something; called from a thread every few seconds."""
        ...

    def refresh(self, pipelines: tuple[PipelineStatus, ...]) -> None:
        """Show the current status."""
        ...

    def finish(self, pipelines: tuple[PipelineStatus, ...]) -> None:
        """Show the end of the run."""
        ...


def run_all(
    readings: Sequence[LoadedFile], options: RunOptions, screens: Callable[[], AbstractContextManager[RunScreen]]
) -> bool:
    """Run pipelines until they end; return whether all ended without an error."""
    specs = [_chosen(reading, options) for reading in readings]
    settings_of_spark = _spark_settings(specs)
    require_spark()
    stops: SimpleQueue[str] = SimpleQueue()
    with screens() as screen, ExitStack() as stack:
        settings = [_settings(spec, reading, options, screen) for spec, reading in zip(specs, readings, strict=True)]
        reporters = _reporters(specs, settings, options, stops, stack)
        screen.say(f"starting Spark for {', '.join(spec.name for spec in specs)}")
        output = STDERR if options.has_spark_logs else stack.enter_context(spark_output())
        if not options.has_spark_logs:
            # When Java is gone, Py4J logs a stack trace for each call.
            stack.enter_context(quiet())
        request = SessionRequest("goqueue pipeline", options.master or None, settings_of_spark, output=output)
        with _telling(screen, "Spark is starting"):
            session = start_session(request)
        if is_remote(session):
            # Otherwise the server would continue interrupted queries.
            stack.callback(session.stop)
        elif not options.has_spark_logs:
            # The run reports failures of queries itself, in a sentence.
            session.sparkContext.setLogLevel("OFF")
        watch = _Watch(screen, reporters, _live_ends(specs, settings, stack))
        with stop_signals(stops):
            statuses = _run(specs, settings, session, stops, watch, options)
        screen.finish(watch.applied(statuses))
        is_well = all(status.state.value == "ended" for status in statuses)
        if all(status.state.is_over for status in statuses):
            session.stop()
        return is_well


def _run(
    specs: Sequence[PipelineSpec],
    settings: Sequence[RunSettings],
    session: SparkSession,
    stops: SimpleQueue[str],
    watch: _Watch,
    options: RunOptions,
) -> tuple[PipelineStatus, ...]:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from goqueue.spark.failures import reason_in
    from goqueue.spark.pipelines.run.pipeline import PipelineRun, run_pipelines

    clock = SystemClock()
    try:
        runs = [
            PipelineRun(spec, setting, session, clock, watch.screen.show_rows)
            for spec, setting in zip(specs, settings, strict=True)
        ]
    except (PySparkException, Py4JError) as error:
        # Spark checks some settings only when a session is used.
        raise SparkNotStarted(
            f"Spark refuses its settings: {reason_in(str(error))}", hint="correct them under spark: in the file"
        ) from None
    try:
        return run_pipelines(runs, stops, watch, clock, stop_s=options.stop_seconds)
    except (PySparkException, Py4JError, ConnectionError) as error:
        # The status has errors of queries; this is an error of Spark itself.
        what = java_exit(session) or f"lost the connection to Spark: {reason_in(str(error))}"
        lost = tuple(_lost(run.status, what) for run in runs)
        watch.refresh(lost)
        watch.screen.finish(lost)
        raise SparkLost(
            f"{what}; the pipelines have stopped, and committed work is kept",
            hint="run the same command again: it continues from the checkpoints",
        ) from error
    finally:
        for run in runs:
            run.close()


def _lost(status: PipelineStatus, what: str) -> PipelineStatus:
    """Return the status of a pipeline after Spark was lost: running queries have failed."""
    from goqueue.spark.failures import Failure
    from goqueue.spark.pipelines.run.query import RunState

    failure = Failure(what)
    queries = tuple(
        query if query.state.is_over else replace(query, state=RunState.FAILED, failure=failure)
        for query in status.queries
    )
    return status if status.state.is_over else replace(status, state=RunState.FAILED, failure=failure, queries=queries)


@contextmanager
def _telling(screen: RunScreen, what: str) -> Iterator[None]:
    """Show every few seconds that the run still waits."""
    is_over = threading.Event()
    clock = SystemClock()
    began = clock.monotonic()

    def tell() -> None:
        while not is_over.wait(_TELL_S):
            screen.wait_for(what, clock.monotonic() - began)

    thread = threading.Thread(target=tell, name="telling", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


class _Watch:
    """Passes events and status to the screen and to the broker, with the current lag."""

    def __init__(self, screen: RunScreen, reporters: Sequence[Reporter], ends: Mapping[str, LiveEnds]) -> None:
        self.screen = screen
        self._reporters = reporters
        self._ends = ends
        self._problem: str | None = None

    def tell(self, event: Event) -> None:
        from goqueue.spark.pipelines.run.query import BatchDone

        if isinstance(event, BatchDone):
            event = replace(event, progress=self._ends[event.pipeline].applied(event.progress))
        self.screen.tell(event)

    def applied(self, pipelines: tuple[PipelineStatus, ...]) -> tuple[PipelineStatus, ...]:
        return tuple(self._ends[status.name].applied_to_all(status) for status in pipelines)

    def refresh(self, pipelines: tuple[PipelineStatus, ...]) -> None:
        pipelines = self.applied(pipelines)
        by_name = {status.name: status for status in pipelines}
        for reporter in self._reporters:
            reporter.update(by_name[reporter.pipeline])
        self._tell_of_broker()
        self.screen.refresh(pipelines)

    def _tell_of_broker(self) -> None:
        silent = next((reporter for reporter in self._reporters if reporter.problem), None)
        problem = silent.problem if silent else None
        if silent is not None and self._problem is None:
            self.screen.say(
                f"the broker at {silent.server} does not answer: {problem}; queries that need it fail and restart, "
                f"and continue from their checkpoints when it is back"
                if silent.is_unreachable
                else f"the broker at {silent.server} refuses reports: {problem}"
            )
        elif silent is None and self._problem is not None:
            self.screen.say(f"the broker at {self._reporters[0].server} answers again")
        self._problem = problem


def _chosen(reading: LoadedFile, options: RunOptions) -> PipelineSpec:
    assert reading.pipeline is not None
    spec = reading.pipeline
    return replace(spec, trigger=AvailableNow()) if options.is_available_now else spec


def _spark_settings(specs: Sequence[PipelineSpec]) -> dict[str, str]:
    """Return the settings of all pipelines, which share one Spark; Invalid if they contradict each other."""
    names = [spec.name for spec in specs]
    for name in names:
        if names.count(name) > 1:
            raise Invalid(f"two of the files are pipeline {name}", hint="every pipeline needs a name of its own")
    found: dict[str, str] = {}
    for spec in specs:
        for name, text in spec.spark.items():
            if found.setdefault(name, text) != text:
                raise Invalid(
                    f"the pipelines want {name} to be {found[name]} and {text}, but they share one Spark",
                    hint="run each with a command of its own",
                )
    return found


def _settings(spec: PipelineSpec, reading: LoadedFile, options: RunOptions, screen: RunScreen) -> RunSettings:
    from goqueue.spark.broker import DEFAULT_BOOTSTRAP, find_http_url
    from goqueue.spark.pipelines.run.checkpoints import checkpoints_of
    from goqueue.spark.pipelines.run.pipeline import RunSettings
    from goqueue.spark.pipelines.run.topics import make_topics, uses_topics

    bootstrap = spec.broker or options.broker or DEFAULT_BOOTSTRAP
    http_url = options.server or None
    if http_url is None and uses_topics(spec):
        http_url = find_http_url(bootstrap)
    if http_url is not None and (made := make_topics(spec, http_url)):
        screen.say(f"made for {spec.name}: {', '.join(f'topic {name}' for name in made)}")
    checkpoints = checkpoints_of(spec, PurePath(reading.file), options.checkpoint)
    failures_max = None if options.restarts is None else options.restarts + 1
    return RunSettings(bootstrap, checkpoints, http_url, failures_max)


def _live_ends(specs: Sequence[PipelineSpec], settings: Sequence[RunSettings], stack: ExitStack) -> dict[str, LiveEnds]:
    """Start to poll the ends of the topics of pipelines."""
    from goqueue.spark.pipelines.run.topics import LiveEnds, topics_of

    found = {spec.name: LiveEnds(made.bootstrap, topics_of(spec)) for spec, made in zip(specs, settings, strict=True)}
    for ends in found.values():
        ends.begin()
        stack.callback(ends.end)
    return found


def _reporters(
    specs: Sequence[PipelineSpec],
    settings: Sequence[RunSettings],
    options: RunOptions,
    stops: SimpleQueue[str],
    stack: ExitStack,
) -> list[Reporter]:
    """Start to report pipelines whose broker is known; PipelineRunning if one runs elsewhere."""
    from goqueue.spark.pipelines.run.report import Reporter

    reporters: list[Reporter] = []
    for spec, setting in zip(specs, settings, strict=True):
        if not options.has_reports or setting.http_url is None:
            continue
        reporter = Reporter(
            spec,
            setting.http_url,
            master=options.master or os.environ.get("SPARK_REMOTE") or "local[*]",
            stops=stops,
            clock=SystemClock(),
            entropy=SystemEntropy(),
        )
        reporter.begin()
        stack.callback(reporter.end)
        reporters.append(reporter)
    return reporters
