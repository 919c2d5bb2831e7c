"""One run of `goqueue job archive`: the broker is asked first, then Spark is started, and what happens is shown."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import typer

from goqueue.cli.jobs.report import job_reporting
from goqueue.cli.spark.run import interrupts, job_session
from goqueue.cli.terminal.output import Format, show
from goqueue.cli.terminal.streams import console, write_line
from goqueue.cli.terminal.tables import count_text, print_facts, size_text
from goqueue.errors import GoQueueError
from goqueue.spark.broker import find_http_url
from goqueue.spark.jobs.archive.job import ArchiveJob, ArchiveOutcome, ArchiveRequest, Copied
from goqueue.spark.jobs.archive.verify import Verification, Verified
from goqueue.spark.jobs.report import JobReporter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.progress import Progress, TaskID

    from goqueue.cli.terminal.output import Row
    from goqueue.spark.archive.spans import Spans


_NAME = "goqueue job archive"
_STOPPED = 130


@dataclass(frozen=True, slots=True)
class SparkChoice:
    """Where Spark runs, and whether it may say something itself."""

    master: str = ""
    has_logs: bool = False


def run(request: ArchiveRequest, spark: SparkChoice, output_format: Format) -> None:
    """Archive what is new, and show how it goes; exits with 130 if it is stopped."""
    try:
        with interrupts():
            outcome, path = _archive(request, spark, output_format)
    except KeyboardInterrupt:
        typer.echo("goqueue: stopped; what was committed stays, and the same command goes on from there", err=True)
        raise typer.Exit(_STOPPED) from None
    _show_outcome(request.topic, path, outcome, output_format)


def _archive(request: ArchiveRequest, spark: SparkChoice, output_format: Format) -> tuple[ArchiveOutcome, str]:
    about = f"topic {request.topic} to {request.path}"
    server = request.http_url or _http_url(request.bootstrap)
    with job_reporting(server, "archive", request.topic, about, spark.master) as reporter:
        job = ArchiveJob(request)
        reporter.update(offsets=job.plan.offsets)
        with _screen(output_format) as screen:
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


def _tell(copied: Copied, screen: _Screen, reporter: JobReporter) -> None:
    screen.tell(copied)
    reporter.update(offsets_done=copied.offsets_done, offsets=copied.offsets, read=copied.rows, written=copied.rows)


def _http_url(bootstrap: str) -> str | None:
    """Return where the broker is told of the job, if it can be asked for that."""
    with suppress(GoQueueError):
        return find_http_url(bootstrap)
    return None


def verify(topic: str, path: str, spark: SparkChoice, output_format: Format) -> bool:
    """Check an archive, and show what is wrong; tell whether nothing is."""
    verification = Verification(topic, path)
    with _screen(output_format) as screen:
        screen.say(f"checking the archive of topic {topic}; starting Spark")
        with job_session(_NAME, spark.master, has_logs=spark.has_logs) as session:
            verified = verification.run(session)
    _show_verified(topic, path, verified, output_format)
    return not verified.findings


class _Screen(Protocol):
    def say(self, line: str) -> None: ...

    def tell(self, copied: Copied) -> None: ...


@contextmanager
def _screen(output_format: Format) -> Iterator[_Screen]:
    screen = console(stderr=True, highlight=False, emoji=False, markup=False)
    if output_format is not Format.TABLE:
        yield _JsonLines()
    elif not screen.is_terminal:
        yield _Lines()
    else:
        from rich.progress import Progress

        with Progress(console=screen, transient=True) as progress:
            yield _Bar(progress)


class _JsonLines:
    def say(self, line: str) -> None:
        self._show("note", {"text": line})

    def tell(self, copied: Copied) -> None:
        self._show("progress", _progress(copied))

    def _show(self, kind: str, row: Row) -> None:
        show(kind, [row], Format.JSON)
        sys.stdout.flush()


class _Lines:
    def say(self, line: str) -> None:
        write_line(line)

    def tell(self, copied: Copied) -> None:
        self.say(_progress_line(copied))


class _Bar:
    """A bar of what is copied, below everything that is said."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._bar: TaskID | None = None

    def say(self, line: str) -> None:
        self._progress.console.print(line, style="dim", soft_wrap=True)
        if self._bar is None:
            self._bar = self._progress.add_task("archiving", total=None)

    def tell(self, copied: Copied) -> None:
        if self._bar is not None:
            self._progress.update(self._bar, total=copied.offsets, completed=copied.offsets_done)


def _progress(copied: Copied) -> dict[str, int]:
    return {
        "offsets_done": copied.offsets_done,
        "offsets": copied.offsets,
        "rows": copied.rows,
        "bytes": copied.bytes,
    }


def _progress_line(copied: Copied) -> str:
    share = copied.offsets_done / copied.offsets if copied.offsets else 1.0
    rows = count_text(copied.rows, "row")
    return f"{share:.0%}: {copied.offsets_done:,} of {copied.offsets:,} offsets, {rows}, {size_text(copied.bytes)}"


def _show_outcome(topic: str, path: str, outcome: ArchiveOutcome, output_format: Format) -> None:
    if output_format is not Format.TABLE:
        row: dict[str, object] = {
            "topic": topic,
            "path": path,
            "rows": outcome.rows,
            "files": outcome.files,
            "bytes": outcome.bytes,
            "commits": outcome.commits,
            "merged_files": outcome.merged_files,
            "deleted_files": outcome.deleted_files,
            "is_registered_now": outcome.is_registered_now,
            "ranges": _spans({number: (span,) for number, span in outcome.ranges.items()}),
            "gaps": _spans(outcome.gaps),
        }
        show("archive", [row], output_format)  # type: ignore[list-item]
        return
    if not outcome.ranges and not outcome.gaps:
        write_line(f"nothing is new in topic {topic}")
    copied = [
        ("archived", f"{count_text(outcome.rows, 'row')} in {count_text(outcome.files, 'file')}"),
        ("size", size_text(outcome.bytes)),
    ]
    facts = [
        *(copied if outcome.ranges else ()),
        *(
            (f"partition {number}", f"offsets {span.start} to {span.end - 1}")
            for number, span in outcome.ranges.items()
        ),
        *(
            (f"missing of {number}", f"offsets {gap.start} to {gap.end - 1}")
            for number, gaps in outcome.gaps.items()
            for gap in gaps
        ),
    ]
    if outcome.merged_files:
        facts.append(("merged", count_text(outcome.merged_files, "file")))
    if outcome.deleted_files:
        facts.append(("deleted", count_text(outcome.deleted_files, "file")))
    if outcome.is_registered_now:
        facts.append(("from now on", "reads with Spark use this archive for what the log has not any more"))
    if facts:
        print_facts(facts, title=f"topic {topic} in {path}")


def _spans(spans: Mapping[int, Spans]) -> list[dict[str, int]]:
    return [
        {"partition": number, "start": span.start, "end": span.end}
        for number, each in sorted(spans.items())
        for span in each
    ]


def _show_verified(topic: str, path: str, verified: Verified, output_format: Format) -> None:
    if output_format is not Format.TABLE:
        show("finding", [{"text": line} for line in verified.findings], output_format)
        row = {"topic": topic, "path": path, **verified._asdict(), "findings": len(verified.findings)}
        show("verified", [row], output_format)
        return
    for line in verified.findings:
        write_line(f"wrong: {line}")
    amount = f"{count_text(verified.files, 'file')}, {count_text(verified.rows, 'row')}, {size_text(verified.bytes)}"
    verdict = f"{count_text(len(verified.findings), 'problem')} found" if verified.findings else "all is well"
    write_line(f"checked {amount} of topic {topic} in {path}: {verdict}")
