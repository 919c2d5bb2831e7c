"""Findings of `goqueue doctor`, and how they are printed."""

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


class CheckStatus(StrEnum):
    """The result of a check."""

    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"
    SKIPPED = "skipped"


class CheckResult(NamedTuple):
    """The result of one check, and how to fix a problem."""

    check: str
    verdict: CheckStatus
    what: str
    fix: str = ""

    @classmethod
    def ok(cls, check: str, what: str) -> CheckResult:
        """Return a finding without a problem."""
        return cls(check, CheckStatus.OK, what)

    @classmethod
    def warning(cls, check: str, what: str, fix: str) -> CheckResult:
        """Return a finding that may become a problem."""
        return cls(check, CheckStatus.WARNING, what, fix)

    @classmethod
    def failure(cls, check: str, what: str, fix: str) -> CheckResult:
        """Return a finding of something that does not work."""
        return cls(check, CheckStatus.FAILURE, what, fix)

    @classmethod
    def skipped(cls, check: str, why: str) -> CheckResult:
        """Return a finding of a check that could not run."""
        return cls(check, CheckStatus.SKIPPED, why)


def show_findings(findings: Sequence[CheckResult], output_format: Format) -> None:
    """Print findings: for people one per line, with the fix below."""
    if output_format is Format.TABLE:
        _show_lines(findings)
        return
    rows = [
        {"check": found.check, "verdict": found.verdict.value, "what": found.what, "fix": found.fix}
        for found in findings
    ]
    show("finding", rows, output_format)


def _show_lines(findings: Sequence[CheckResult]) -> None:
    from rich.table import Table
    from rich.text import Text

    screen = console(highlight=False, emoji=False, markup=False)
    # Only the column of sentences wraps, so that the verdicts stay aligned on the left.
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
    failures = sum(found.verdict is CheckStatus.FAILURE for found in findings)
    warnings = sum(found.verdict is CheckStatus.WARNING for found in findings)
    screen.print(f"\n{_count(failures, 'failure')}, {_count(warnings, 'warning')}")


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"
