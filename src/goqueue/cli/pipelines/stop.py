"""How a pipeline is stopped from afar: the broker passes the wish on, and the next reports say what comes of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from goqueue.client import Client, pipelines
from goqueue.client.pipeline_values import Pipeline
from goqueue.errors import Unavailable, UnknownPipeline

_PAUSE_S = 0.3

Tell = Callable[[Pipeline], None]


class StopOutcome(NamedTuple):
    """What has come of a wish to stop: how the pipeline was seen last, and how long that took.

    If another run has begun in the meantime, `is_replaced`: the one that was to stop has ended.
    """

    run_id: str
    was_running: bool
    last: Pipeline
    waited_s: float
    is_waited_for: bool
    is_replaced: bool = False

    @property
    def is_stopped(self) -> bool:
        """Whether the run is known to have ended."""
        return self.is_replaced or self.last.state in {"ended", "failed"}

    @property
    def is_good_end(self) -> bool:
        """Whether the run has ended as it should."""
        return self.is_replaced or self.last.state == "ended" or (self.last.state == "failed" and not self.was_running)


def stop_pipeline(client: Client, name: str, *, wait_s: float, tell: Tell) -> StopOutcome:
    """Wish that a pipeline stops, and wait until it has, is lost, or the time is up.

    UnknownPipeline if there is none. If it does not run, nothing is waited for.
    """
    began = time.monotonic()
    asked = client.send(pipelines.stop(name))
    last = client.send(pipelines.describe(name))
    while True:
        waited_s = time.monotonic() - began
        if last.run_id != asked.run_id:
            return StopOutcome(asked.run_id, asked.is_running, last, waited_s, wait_s > 0, is_replaced=True)
        if not last.is_running or waited_s >= wait_s:
            return StopOutcome(asked.run_id, asked.is_running, last, waited_s, wait_s > 0)
        tell(last)
        if last.wish != "stop":
            # The broker was started anew, and has forgotten.
            with suppress(Unavailable, UnknownPipeline):
                client.send(pipelines.stop(name))
        time.sleep(min(_PAUSE_S, max(wait_s - waited_s, 0.0)))
        # While the broker starts it may not answer, or not have heard of the pipeline yet.
        with suppress(Unavailable, UnknownPipeline):
            last = client.send(pipelines.describe(name))
