"""One run of `goqueue pipeline run`: from what was read to an exit code.

The broker is asked first, then Spark is started, which takes ten seconds: what can be wrong is told before that.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import PurePath
from queue import SimpleQueue
from typing import TYPE_CHECKING

from goqueue.cli.output import Format
from goqueue.cli.pipeline_run import RunOptions
from goqueue.cli.pipeline_run_output import Screen, make_screen
from goqueue.cli.pipeline_run_spark import STDERR, spark_output
from goqueue.cli.spark_run import require_spark, stop_signals
from goqueue.errors import Invalid
from goqueue.seams.clock import SystemClock
from goqueue.seams.entropy import SystemEntropy
from goqueue.spark.pipelines.model import AvailableNow, PipelineSpec
from goqueue.spark.session import SessionRequest, SparkLost, is_remote, start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from goqueue.spark.pipelines import Reading
    from goqueue.spark.pipelines.run import PipelineStatus, RunSettings
    from goqueue.spark.pipelines.run_report import Reporter


def run_all(readings: Sequence[Reading], options: RunOptions, output_format: Format) -> bool:
    """Run pipelines until they have ended; tell whether all have ended well."""
    specs = [_chosen(reading, options) for reading in readings]
    settings_of_spark = _spark_settings(specs)
    require_spark()
    stops: SimpleQueue[str] = SimpleQueue()
    with make_screen(output_format) as screen, ExitStack() as stack:
        settings = [_settings(spec, reading, options, screen) for spec, reading in zip(specs, readings, strict=True)]
        reporters = _reporters(specs, settings, options, stops, stack)
        screen.say(f"starting Spark for {', '.join(spec.name for spec in specs)}")
        output = STDERR if options.has_spark_logs else stack.enter_context(spark_output())
        request = SessionRequest("goqueue pipeline", options.master or None, settings_of_spark, output=output)
        session = start_session(request)
        if is_remote(session):
            # Otherwise the server would go on with what is left in the middle.
            stack.callback(session.stop)
        elif not options.has_spark_logs:
            # Why a query fails is told by ourselves, and in a sentence.
            session.sparkContext.setLogLevel("OFF")
        with stop_signals(stops):
            statuses = _run(specs, settings, session, stops, _Watch(screen, reporters), options)
        screen.finish(statuses)
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

    from goqueue.spark.pipelines.run import PipelineRun
    from goqueue.spark.pipelines.run_failures import reason_in
    from goqueue.spark.pipelines.run_loop import run_pipelines

    clock = SystemClock()
    runs = [
        PipelineRun(spec, setting, session, clock, watch.screen.show_rows)
        for spec, setting in zip(specs, settings, strict=True)
    ]
    try:
        return run_pipelines(runs, stops, watch, clock, stop_s=options.stop_seconds)
    except (PySparkException, Py4JError, ConnectionError) as error:
        # What goes wrong with a query is the query's; this is Spark itself.
        raise SparkLost(
            f"Spark does not answer any more: {reason_in(str(error))}",
            hint="run it again: it goes on from its checkpoints",
        ) from error
    finally:
        for run in runs:
            run.close()


class _Watch:
    """Hands on what happens, to people and to the broker."""

    def __init__(self, screen: Screen, reporters: Sequence[Reporter]) -> None:
        self.screen = screen
        self.tell = screen.tell
        self._reporters = reporters
        self._problem: str | None = None

    def refresh(self, pipelines: tuple[PipelineStatus, ...]) -> None:
        by_name = {status.name: status for status in pipelines}
        for reporter in self._reporters:
            reporter.update(by_name[reporter.pipeline])
        problem = next((reporter.problem for reporter in self._reporters if reporter.problem), None)
        if problem is not None and self._problem is None:
            self.screen.say(f"the broker is not told how it goes: {problem}")
        self._problem = problem
        self.screen.refresh(pipelines)


def _chosen(reading: Reading, options: RunOptions) -> PipelineSpec:
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
                    hint="run them with a command each",
                )
    return found


def _settings(spec: PipelineSpec, reading: Reading, options: RunOptions, screen: Screen) -> RunSettings:
    from goqueue.spark.pipelines.run import RunSettings
    from goqueue.spark.pipelines.run_broker import DEFAULT_BOOTSTRAP, find_http_url, make_topics, uses_topics
    from goqueue.spark.pipelines.run_checkpoints import checkpoints_of

    bootstrap = spec.broker or options.broker or DEFAULT_BOOTSTRAP
    http_url = options.server or None
    if http_url is None and uses_topics(spec):
        http_url = find_http_url(bootstrap)
    if http_url is not None and (made := make_topics(spec, http_url)):
        screen.say(f"made for {spec.name}: {', '.join(f'topic {name}' for name in made)}")
    checkpoints = checkpoints_of(spec, PurePath(reading.file), options.checkpoint)
    failures_max = None if options.restarts is None else options.restarts + 1
    return RunSettings(bootstrap, checkpoints, http_url, failures_max)


def _reporters(
    specs: Sequence[PipelineSpec],
    settings: Sequence[RunSettings],
    options: RunOptions,
    stops: SimpleQueue[str],
    stack: ExitStack,
) -> list[Reporter]:
    """Begin to report, of those pipelines whose broker is known; PipelineRunning if one of them runs elsewhere."""
    from goqueue.spark.pipelines.run_report import Reporter

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
