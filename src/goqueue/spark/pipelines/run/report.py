"""Tells the broker how a pipeline is, every second, and hears whether it should stop.

Reports are best effort: a broker that cannot be reached does not affect the run. Only the first report matters: its
reply tells whether the pipeline runs elsewhere already, and then it must not run here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from queue import SimpleQueue
from typing import Final

from goqueue.client import Client, Patience, RequestTimedOut, ServerUnreachable, pipelines
from goqueue.client.pipeline_values import PipelineReport
from goqueue.client.pipeline_values import QueryProgress as ToldProgress
from goqueue.errors import GoQueueError, PipelineRunning
from goqueue.seams.clock import Clock
from goqueue.seams.entropy import Entropy
from goqueue.spark.pipelines.render.describe import trigger_words
from goqueue.spark.pipelines.render.picture import picture_of
from goqueue.spark.pipelines.run.pipeline import PipelineStatus
from goqueue.spark.pipelines.run.progress import RunProgress
from goqueue.spark.pipelines.run.query import RunState
from goqueue.spark.pipelines.spec.model import PipelineSpec

INTERVAL_S: Final = 1.0
_TIMEOUT_S: Final = 5.0
# A broker that was restarted in between knows nothing of the plan any more.
_PLAN_EVERY: Final = 60


class Reporter:
    """Reports of one run of a pipeline, from a thread of its own; wishes to stop go to `stops` by its name."""

    def __init__(
        self, spec: PipelineSpec, server: str, *, master: str, stops: SimpleQueue[str], clock: Clock, entropy: Entropy
    ) -> None:
        self.pipeline = spec.name
        self.server = server
        self._spec = spec
        self._stops = stops
        self._client = Client(server, timeout_s=_TIMEOUT_S, patience=Patience(attempts=1))
        self._master = master
        self._run_id = str(entropy.uuid())
        self._started_at = _moment(clock.now_ms())
        self._status = PipelineStatus(spec.name, RunState.STARTING, 0, None, ())
        self._is_stop_told = False
        self._sent = 0
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"report-{spec.name}", daemon=True)
        self.problem: str | None = None
        """Why the last report did not arrive, if it did not."""
        self.is_unreachable = False
        """Whether that is since there was no answer at all."""

    def begin(self) -> None:
        """Report for the first time, and go on with it; PipelineRunning if the pipeline runs elsewhere."""
        try:
            self._report()
        except PipelineRunning:
            self._client.close()
            raise
        self._thread.start()

    def update(self, status: PipelineStatus) -> None:
        """Take note of how the pipeline is now."""
        self._status = status

    def end(self) -> None:
        """Report for the last time; whatever has not come to its end by now has failed."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join(2 * _TIMEOUT_S)
        if not self._status.state.is_over:
            self._status = replace(self._status, state=RunState.FAILED)
        self._guarded(self._report)
        self._client.close()

    def _run(self) -> None:
        while not self._ending.wait(INTERVAL_S):
            self._guarded(self._report)

    def _guarded(self, act: Callable[[], None]) -> None:
        try:
            act()
        except PipelineRunning as error:
            # # Another run began while this one could not report. Two runs would share the checkpoints.
            self.problem = str(error)
            self._stop()

    def _report(self) -> None:
        has_plan = self._sent % _PLAN_EVERY == 0
        try:
            wish = self._client.send(pipelines.report(self._spec.name, self._told(has_plan=has_plan)))
        except PipelineRunning:
            raise
        except GoQueueError as error:
            self.is_unreachable = isinstance(error, ServerUnreachable | RequestTimedOut)
            self.problem = str(error)
            return
        self.problem = None
        self._sent += 1
        if wish.is_stop:
            self._stop()

    def _stop(self) -> None:
        if not self._is_stop_told:
            self._is_stop_told = True
            self._stops.put(self._spec.name)

    def _told(self, *, has_plan: bool) -> PipelineReport:
        status, spec = self._status, self._spec
        return PipelineReport(
            run_id=self._run_id,
            state=status.state.value,
            started_at=self._started_at,
            master=self._master,
            trigger=trigger_words(spec.trigger),
            description=spec.description,
            restarts=status.restarts,
            error=str(status.failure) if status.failure else None,
            plan=_plan(spec) if has_plan else None,
            queries=tuple(_told(query.progress) for query in status.queries),
        )


def _told(progress: RunProgress) -> ToldProgress:
    has_begun = progress.batch >= 0
    return ToldProgress(
        name=progress.name,
        query_id=progress.query_id,
        batch=progress.batch if has_begun else None,
        rows=progress.rows,
        rows_per_second=progress.rows_per_second,
        batch_seconds=progress.batch_seconds if has_begun else None,
        lag=progress.lag,
        state_rows=progress.state_rows,
        state_bytes=progress.state_bytes,
        watermark=progress.watermark,
        bad_rows=dict(progress.bad_rows),
        warned_rows=dict(progress.warned_rows),
        updated_at=_moment(progress.updated_at_ms) if progress.updated_at_ms else None,
    )


def _plan(spec: PipelineSpec) -> list[dict[str, object]]:
    """Return the parts as `goqueue pipeline plan --format json` prints them."""
    return [
        {
            "id": box.id,
            "type": box.kind.value,
            "name": box.name,
            "reads": list(box.reads),
            "is_stream": box.is_stream,
            "words": list(box.words),
        }
        for box in picture_of(spec).boxes
    ]


def _moment(timestamp_ms: int) -> str:
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
