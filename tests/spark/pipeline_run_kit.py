"""What the tests of running pipelines share: files, runs to their end, and what was told meanwhile."""

from __future__ import annotations

from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

from goqueue.seams.clock import SystemClock
from goqueue.spark.pipelines import load
from goqueue.spark.pipelines.run.checkpoints import checkpoints_of
from goqueue.spark.pipelines.run.pipeline import PipelineRun, PipelineStatus, RunSettings, run_pipelines
from goqueue.spark.pipelines.run.query import Event, QueryFailed
from goqueue.spark.pipelines.spec.model import PipelineSpec
from goqueue.spark.pipelines.write.sinks import ShownRows
from goqueue.testing.broker import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Pipelines:
    """Pipelines run by the session of the tests; it keeps what was told of the last run."""

    def __init__(self, spark: SparkSession, directory: Path, broker: Broker | None = None) -> None:
        self._spark = spark
        self._directory = directory
        self._broker = broker
        self.events: list[Event] = []
        self.shown: list[ShownRows] = []

    @property
    def failures(self) -> list[QueryFailed]:
        """Which queries have failed, in that order."""
        return [event for event in self.events if isinstance(event, QueryFailed)]

    def run(self, text: str, *, failures_max: int | None = None, name: str = "pipeline.yaml") -> PipelineStatus:
        """Run the text of a pipeline file to its end, and return how that was."""
        file = self._directory / name
        file.write_text(text)
        spec = self.spec(file)
        self.events, self.shown = [], []
        settings = RunSettings(
            self._broker.bootstrap if self._broker else "127.0.0.1:1",
            checkpoints_of(spec, file),
            self._broker.http if self._broker else None,
            failures_max,
        )
        clock = SystemClock()
        run = PipelineRun(spec, settings, self._spark, clock, self.shown.append)
        (status,) = run_pipelines([run], SimpleQueue(), self, clock)
        return status

    def spec(self, file: Path) -> PipelineSpec:
        """Read a file without errors."""
        reading = load(file, {})
        assert reading.pipeline is not None, reading.mistakes
        return reading.pipeline

    def tell(self, event: Event) -> None:
        self.events.append(event)

    def refresh(self, pipelines: tuple[PipelineStatus, ...]) -> None:
        del pipelines
