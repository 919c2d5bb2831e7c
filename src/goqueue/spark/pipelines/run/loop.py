"""Runs pipelines side by side until all have ended, or somebody wants them to."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Final

from goqueue.seams.clock import Clock
from goqueue.spark.pipelines.run.pipeline import PipelineRun, PipelineStatus, View

LOOK_S: Final = 0.25
STOP_S: Final = 30.0


def run_pipelines(
    runs: Sequence[PipelineRun], stops: SimpleQueue[str], view: View, clock: Clock, *, stop_s: float = STOP_S
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
