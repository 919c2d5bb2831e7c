"""What `goqueue doctor` finds, and how it is told."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from goqueue.cli.terminal.output import Format, show
from goqueue.cli.terminal.streams import console

_MARKS = {
    "ok": ("ok", "green"),
    "warning": ("warn", "yellow"),
    "failure": ("FAIL", "bold red"),
    "skipped": ("-", "dim"),
}


class Verdict(StrEnum):
    """How good or bad a finding is."""

    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"
    SKIPPED = "skipped"


class Finding(NamedTuple):
    """One thing that was looked at: what was found, and what to do about it."""

    check: str
    verdict: Verdict
    what: str
    fix: str = ""

    @classmethod
    def ok(cls, check: str, what: str) -> Finding:
        """Make a finding that needs nothing."""
        return cls(check, Verdict.OK, what)

    @classmethod
    def warning(cls, check: str, what: str, fix: str) -> Finding:
        """Make a finding that may become a problem."""
        return cls(check, Verdict.WARNING, what, fix)

    @classmethod
    def failure(cls, check: str, what: str, fix: str) -> Finding:
        """Make a finding of something that does not work."""
        return cls(check, Verdict.FAILURE, what, fix)

    @classmethod
    def skipped(cls, check: str, why: str) -> Finding:
        """Make a finding of something that could not be looked at."""
        return cls(check, Verdict.SKIPPED, why)


def show_findings(findings: Sequence[Finding], output_format: Format) -> None:
    """Print findings: for people a line each, with the fix below it."""
    if output_format is Format.TABLE:
        _show_lines(findings)
        return
    rows = [
        {"check": found.check, "verdict": found.verdict.value, "what": found.what, "fix": found.fix}
        for found in findings
    ]
    show("finding", rows, output_format)


def _show_lines(findings: Sequence[Finding]) -> None:
    from rich.table import Table
    from rich.text import Text

    screen = console(highlight=False, emoji=False, markup=False)
    # Sentences may be wrapped, in a column of their own, so that the verdicts stand out on the left.
    lines = Table.grid(padding=(0, 2, 0, 0))
    lines.add_column(no_wrap=True)
    lines.add_column(no_wrap=True)
    lines.add_column(overflow="fold", ratio=1)
    for found in findings:
        mark, style = _MARKS[found.verdict]
        said = Text(found.what)
        if found.fix:
            said.append(f"\n-> {found.fix}", style="bold")
        lines.add_row(Text(mark, style=style), Text(found.check), said)
    screen.print(lines)
    failures = sum(found.verdict is Verdict.FAILURE for found in findings)
    warnings = sum(found.verdict is Verdict.WARNING for found in findings)
    screen.print(f"\n{_count(failures, 'failure')}, {_count(warnings, 'warning')}")


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"
