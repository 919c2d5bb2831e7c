"""Supervision of the demonstration: a broker or a pipeline that dies is reported and restarted.

| what ended                                           | what happens                                                 |
|------------------------------------------------------|--------------------------------------------------------------|
| the broker                                           | it is restarted at its addresses; the pipeline waits for it  |
| the pipeline, by a signal or because Spark was lost  | it is restarted, and continues from its checkpoints          |
| the pipeline, by itself                              | the demonstration ends                                       |
"""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

from goqueue.cli.pipelines.run import SPARK_LOST_EXIT

_WATCH_S: Final = 0.5
# The broker declares a silent run lost after ten seconds, and accepts another one then.
PAUSE_S: Final = 12.0


class Revivable(Protocol):
    """A broker that can be restarted."""

    @property
    def exit_code(self) -> int | None:
        """Its exit code; None if it runs."""
        ...

    def start_again(self) -> None:
        """Restart it at its addresses, and wait until it accepts connections."""
        ...


class Stage:
    """A broker, and a pipeline that needs it."""

    def __init__(
        self, broker: Revivable, start: Callable[[], subprocess.Popen[bytes]], *, pause_s: float = PAUSE_S
    ) -> None:
        self._broker = broker
        self._start = start
        self._pause_s = pause_s
        self._never = threading.Event()
        self._running = start()
        self.is_stopping = False
        """Whether a process that ends now stays ended."""

    def stop(self) -> None:
        """Stop the pipeline, and the demonstration with it."""
        self.is_stopping = True
        self._running.terminate()

    def watch(self, say: Callable[[str], None]) -> int:
        """Keep both running until the pipeline ends by itself or is stopped; return its exit code."""
        while True:
            with suppress(subprocess.TimeoutExpired):
                self._running.wait(_WATCH_S)
            self._revive_broker(say)
            code = self._running.poll()
            if code is None:
                continue
            if self.is_stopping or (code >= 0 and code != SPARK_LOST_EXIT):
                return code
            self._revive_pipeline(code, say)

    def _revive_broker(self, say: Callable[[str], None]) -> None:
        code = self._broker.exit_code
        if code is None or self.is_stopping:
            return
        say(f"the broker {how_it_ended(code)}; starting it again, and the pipeline goes on when it is back")
        self._broker.start_again()
        say("the broker is back")

    def _revive_pipeline(self, code: int, say: Callable[[str], None]) -> None:
        if code == SPARK_LOST_EXIT:
            say("the pipeline has lost its Spark; starting both again: it goes on from its checkpoints")
        else:
            when = f"in {self._pause_s:g} s, when the broker takes it for lost"
            say(f"the pipeline {how_it_ended(code)}; starting it again {when}: it goes on from its checkpoints")
            self._pause()
        if not self.is_stopping:
            self._running = self._start()
            if self.is_stopping:
                # The stop came just before this process started.
                self._running.terminate()

    def _pause(self) -> None:
        """Wait until the broker has forgotten the run; not if everything is to end."""
        # Signal handlers that set an event which the same thread waits for can lock up: so it looks every now and then.
        left_s = self._pause_s
        while left_s > 0 and not self.is_stopping:
            self._never.wait(min(left_s, _WATCH_S))
            left_s -= _WATCH_S


def how_it_ended(code: int) -> str:
    """Return how a process has ended, in words."""
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"has ended with exit code {code}"
