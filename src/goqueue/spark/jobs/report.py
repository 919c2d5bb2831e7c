"""Reports the status of a job to the broker every second.

Reports are best effort, like those of pipelines: a broker that cannot be reached, or knows no jobs, does not affect the
run.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Final

import msgspec

from goqueue.client import Client, Patience
from goqueue.client.jobs import JobReport, report
from goqueue.errors import GoQueueError
from goqueue.seams.clock import Clock
from goqueue.seams.entropy import Entropy

INTERVAL_S: Final = 1.0
_TIMEOUT_S: Final = 5.0
_ENDS: Final = ("done", "stopped", "failed")


class JobReporter:
    """Sends the reports of one run of a job from its own thread; sends nothing without a server."""

    def __init__(self, server: str | None, run_id: str, first: JobReport) -> None:
        self._run_id = run_id
        self._said = first
        self._client = Client(server, timeout_s=_TIMEOUT_S, patience=Patience(attempts=1)) if server else None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"report-{first.verb}", daemon=True)

    def begin(self) -> None:
        """Start reporting."""
        if self._client is not None:
            self._thread.start()

    def update(self, **changes: object) -> None:
        """Change fields of the report."""
        self._said = msgspec.structs.replace(self._said, **changes)

    def end(self) -> None:
        """Send the last report; a job that has not ended by now has failed."""
        if self._client is None:
            return
        self._ending.set()
        self._thread.join(2 * _TIMEOUT_S)
        if self._said.state not in _ENDS:
            self.update(state="failed")
        self._tell(self._client)
        self._client.close()

    def _run(self) -> None:
        assert self._client is not None
        while not self._ending.is_set():
            self._tell(self._client)
            self._ending.wait(INTERVAL_S)

    def _tell(self, client: Client) -> None:
        with suppress(GoQueueError):
            client.send(report(self._run_id, self._said))


@contextmanager
def reporting(
    server: str | None, verb: str, name: str, description: str, *, master: str, clock: Clock, entropy: Entropy
) -> Iterator[JobReporter]:
    """Report a job until the end of the block; an exception is its error."""
    started_at = datetime.fromtimestamp(clock.now_ms() / 1000, UTC).isoformat(timespec="milliseconds")
    first = JobReport(
        verb=verb,
        name=name,
        state="starting",
        started_at=started_at.replace("+00:00", "Z"),
        description=description,
        master=master,
    )
    reporter = JobReporter(server, f"{verb}-{entropy.uuid().hex[:12]}", first)
    reporter.begin()
    try:
        yield reporter
    except KeyboardInterrupt:
        reporter.update(state="stopped")
        raise
    except BaseException as error:
        reporter.update(state="failed", error=_words(error))
        raise
    finally:
        reporter.end()


def _words(error: BaseException) -> str:
    if isinstance(error, GoQueueError):
        return error.message
    return str(error) or type(error).__name__
