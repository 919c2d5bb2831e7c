"""Output of `goqueue job archive`: a progress bar on a terminal, lines elsewhere, or JSON; and the outcome."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from goqueue.cli.terminal.output import Format, show
from goqueue.cli.terminal.streams import console, write_line
from goqueue.cli.terminal.tables import print_facts, size_text
from goqueue.model.units import count_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.progress import Progress, TaskID

    from goqueue.cli.terminal.output import Row
    from goqueue.spark.archive.spans import Spans
    from goqueue.spark.jobs.archive.job import ArchiveOutcome, Copied
    from goqueue.spark.jobs.archive.session import ArchiveScreen
    from goqueue.spark.jobs.archive.verify import Verified


@contextmanager
def make_screen(output_format: Format) -> Iterator[ArchiveScreen]:
    """Return the screen that fits the format and the terminal."""
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
    """A progress bar below the lines."""

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


def show_outcome(topic: str, path: str, outcome: ArchiveOutcome, output_format: Format) -> None:
    """Print the result of a run."""
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
        write_line(f"nothing new in topic {topic}")
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
        facts.append(("registered", "Spark reads deleted records of the topic from this archive"))
    if facts:
        print_facts(facts, title=f"topic {topic} in {path}")


def _spans(spans: Mapping[int, Spans]) -> list[dict[str, int]]:
    return [
        {"partition": number, "start": span.start, "end": span.end}
        for number, each in sorted(spans.items())
        for span in each
    ]


def show_verified(topic: str, path: str, verified: Verified, output_format: Format) -> None:
    """Print the findings of a check, and a summary."""
    if output_format is not Format.TABLE:
        show("finding", [{"text": line} for line in verified.findings], output_format)
        row = {"topic": topic, "path": path, **verified._asdict(), "findings": len(verified.findings)}
        show("verified", [row], output_format)
        return
    for line in verified.findings:
        write_line(f"wrong: {line}")
    amount = f"{count_text(verified.files, 'file')}, {count_text(verified.rows, 'row')}, {size_text(verified.bytes)}"
    verdict = f"{count_text(len(verified.findings), 'problem')} found" if verified.findings else "no problems found"
    write_line(f"checked {amount} of topic {topic} in {path}: {verdict}")
