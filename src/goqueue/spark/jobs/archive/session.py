"""One run of the archive job: the broker is asked first, then Spark is started if there is something to copy."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Protocol

from goqueue.errors import GoQueueError
from goqueue.model.units import count_text
from goqueue.spark.broker import find_http_url
from goqueue.spark.jobs.archive.job import ArchiveJob, ArchiveOutcome, ArchiveRequest, Copied
from goqueue.spark.jobs.archive.verify import Verification, Verified
from goqueue.spark.jobs.report import JobReporter
from goqueue.spark.runs.reporting import job_reporting
from goqueue.spark.runs.session import interrupts, job_session

_NAME = "goqueue job archive"


@dataclass(frozen=True, slots=True)
class SparkChoice:
    """The Spark master, and whether Spark's own log is shown."""

    master: str = ""
    has_logs: bool = False


class ArchiveScreen(Protocol):
    """Shows the progress of an archive job."""

    def say(self, line: str) -> None:
        """Show a line about the whole job."""
        ...

    def tell(self, copied: Copied) -> None:
        """Show the amount that was copied so far."""
        ...


Screens = Callable[[], AbstractContextManager[ArchiveScreen]]


def run_archive(request: ArchiveRequest, spark: SparkChoice, screens: Screens) -> tuple[ArchiveOutcome, str]:
    """Archive the new records of a topic; return the outcome and the path of the archive.

    SIGTERM raises KeyboardInterrupt, as Ctrl-C does.
    """
    about = f"topic {request.topic} to {request.path}"
    server = request.http_url or _http_url(request.bootstrap)
    with interrupts(), job_reporting(server, "archive", request.topic, about, spark.master) as reporter:
        job = ArchiveJob(request)
        reporter.update(offsets=job.plan.offsets)
        with screens() as screen:
            if job.needs_spark:
                offsets = count_text(job.plan.offsets, "offset")
                screen.say(f"{offsets} of topic {request.topic} to archive; starting Spark")
                with job_session(_NAME, spark.master, has_logs=spark.has_logs) as session:
                    reporter.update(state="running")
                    outcome = job.run(session, lambda copied: _tell(copied, screen, reporter))
            else:
                outcome = job.run(None)
        reporter.update(state="done")
    return outcome, job.path


def verify_archive(topic: str, path: str, spark: SparkChoice, screens: Screens) -> Verified:
    """Check everything in an archive."""
    verification = Verification(topic, path)
    with screens() as screen:
        screen.say(f"checking the archive of topic {topic}; starting Spark")
        with job_session(_NAME, spark.master, has_logs=spark.has_logs) as session:
            return verification.run(session)


def _tell(copied: Copied, screen: ArchiveScreen, reporter: JobReporter) -> None:
    screen.tell(copied)
    reporter.update(offsets_done=copied.offsets_done, offsets=copied.offsets, read=copied.rows, written=copied.rows)


def _http_url(bootstrap: str) -> str | None:
    """Return the HTTP address of the broker, which gets the reports; None if the broker does not say."""
    with suppress(GoQueueError):
        return find_http_url(bootstrap)
    return None
