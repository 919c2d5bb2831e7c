"""`goqueue log`: read the files of a log, with or without a running broker.

Only `repair`, which has a file of its own, writes; nothing here runs recovery.
"""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from goqueue.cli.log import repair as log_repair
from goqueue.cli.terminal.output import Format, FormatOption, Row, Value, show
from goqueue.cli.terminal.streams import console

if TYPE_CHECKING:
    from goqueue.log.scan import Fault
    from goqueue.log.verify_segment import Finding, Severity
    from goqueue.records.reader import Record
    from goqueue.seams.disk import Disk

# The step of the progress bar: an update costs more than the check of a small batch.
_PROGRESS_STEP_BYTES = 4 * 1024 * 1024
_RECORD_FIELDS = ("offset", "timestamp", "time", "key", "value", "headers", "fault")

app = typer.Typer(no_args_is_help=True, help="Dump, verify and repair the files of logs, without a broker.")
app.command()(log_repair.repair)

DirectoryArgument = Annotated[
    Path, typer.Argument(metavar="DIR", help="The directory of a log, or a directory of logs.")
]


class _NamedRow(Protocol):
    def _asdict(self) -> dict[str, Any]: ...


@app.command()
def dump(
    directory: DirectoryArgument,
    *,
    batches: Annotated[bool, typer.Option("--batches", help="Show batches.")] = False,
    records: Annotated[bool, typer.Option("--records", help="Show records.")] = False,
    index: Annotated[bool, typer.Option("--index", help="Show the entries of the sparse indexes.")] = False,
    producers: Annotated[bool, typer.Option("--producers", help="Show the producers in the indexes.")] = False,
    from_offset: Annotated[int, typer.Option(min=0, help="First offset of batches and records.")] = 0,
    limit: Annotated[int | None, typer.Option(min=0, help="Maximum rows of each kind per log.")] = None,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Show the checkpoint and segments of a log; with options also batches, records and indexes.

    Changes nothing, and works on damaged logs and on logs in use. Bytes that are not UTF-8 are shown in base64.

    Example: [bold]goqueue log dump data/orders-0 --batches --from-offset 1000 --limit 20[/bold]
    """
    from goqueue.log import dump as core

    disk, logs = _find(directory)
    for log in logs:
        sections: list[tuple[str, Iterable[Row]]] = [
            ("checkpoint", _as_rows(core.checkpoint_rows(disk, log))),
            ("segment", _as_rows(core.segment_rows(disk, log))),
        ]
        if index:
            sections.append(("index", _as_rows(core.index_rows(disk, log))))
        if producers:
            sections.append(("producer", _as_rows(core.producer_rows(disk, log))))
        if batches:
            sections.append(("batch", _as_rows(core.batch_rows(disk, log, from_offset=from_offset))))
        if records:
            sections.append(("record", map(_record_row, core.records(disk, log, from_offset=from_offset))))
        for kind, rows in sections:
            _show_section(kind, log, islice(rows, limit), output_format)


@app.command()
def verify(directory: DirectoryArgument, *, output_format: FormatOption = Format.TABLE) -> None:
    """Check every byte: batches, offsets, indexes, segment boundaries, checkpoints, leftover files.

    Exits with 1 if records, an index or a checkpoint are damaged; with 0 if there are only notes, such as an
    unfinished write of a crash. Changes nothing.

    Example: [bold]goqueue log verify data --format json[/bold]
    """
    from goqueue.log.verify import verify as core
    from goqueue.log.verify_segment import Severity

    disk, logs = _find(directory)
    counts: Counter[Severity] = Counter()
    checked = _Meter()
    with _progress_bar(sum(_log_bytes(disk, log) for log in logs)) as advance:
        checked.advance = advance
        for log in logs:
            findings = _counted(core(disk, log, progress=checked.add), counts)
            _show_section("finding", log, map(_finding_row, findings), output_format)
    summary: Row = {
        "logs": len(logs),
        "bytes": checked.total_bytes,
        "damages": counts[Severity.DAMAGE],
        "defects": counts[Severity.DEFECT],
        "notes": counts[Severity.NOTE],
    }
    show("summary", [summary], output_format)
    if counts[Severity.DAMAGE] or counts[Severity.DEFECT]:
        raise typer.Exit(1)


class _Meter:
    """Adds up bytes and reports them in large steps."""

    def __init__(self) -> None:
        self.total_bytes = 0
        self.advance: Callable[[int], None] = _ignore
        self._shown_bytes = 0

    def add(self, step: int) -> None:
        self.total_bytes += step
        if self.total_bytes - self._shown_bytes >= _PROGRESS_STEP_BYTES:
            self.advance(self.total_bytes - self._shown_bytes)
            self._shown_bytes = self.total_bytes


def _find(directory: Path) -> tuple[Disk, list[PurePath]]:
    from goqueue.errors import NotFound
    from goqueue.log.dump import find_logs
    from goqueue.seams.disk import RealDisk

    disk = RealDisk()
    if not disk.is_directory(directory):
        raise NotFound(f"{directory} is not a directory")
    logs = list(find_logs(disk, directory))
    if not logs:
        raise NotFound(f"there is no log in {directory} or below", hint="a log is a directory with *.log files")
    return disk, logs


def _log_bytes(disk: Disk, log: PurePath) -> int:
    return sum(disk.size_of(log / name) for name in disk.list_directory(log) if name.endswith(".log"))


@contextmanager
def _progress_bar(total_bytes: int) -> Iterator[Callable[[int], None]]:
    """Show a progress bar, on a terminal only."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    screen = console(stderr=True)
    if not screen.is_terminal or total_bytes < _PROGRESS_STEP_BYTES:
        yield _ignore
        return
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=screen, transient=True) as bar:
        task = bar.add_task("", total=total_bytes)
        yield lambda step: bar.advance(task, step)


def _ignore(step: int) -> None:
    del step


def _counted(findings: Iterable[Finding], counts: Counter[Severity]) -> Iterator[Finding]:
    for finding in findings:
        counts[finding.severity] += 1
        yield finding


def _show_section(kind: str, log: PurePath, rows: Iterable[Row], output_format: Format) -> None:
    if output_format is Format.TABLE:
        show(kind, rows, output_format, title=f"{log}: {kind}")
    else:
        show(kind, ({"log": str(log), **row} for row in rows), output_format)


def _as_rows(entries: Iterable[_NamedRow]) -> Iterator[Row]:
    return (entry._asdict() for entry in entries)


def _finding_row(finding: Finding) -> Row:
    return {
        "severity": finding.severity.name.lower(),
        "file": finding.path.name,
        "position": finding.position if finding.position >= 0 else None,
        "offset": finding.offset if finding.offset >= 0 else None,
        "what": finding.what,
        "hint": finding.hint,
    }


def _record_row(record: Record | Fault) -> Row:
    from goqueue.log.dump import iso
    from goqueue.log.scan import Fault

    if isinstance(record, Fault):
        fields: list[Value] = [None, None, None, None, None, None, f"byte {record.position}: {record.reason}"]
    else:
        headers: list[Value] = [{"key": key, "value": _text(value)} for key, value in record.headers]
        fields = [record.offset, record.timestamp, iso(record.timestamp), _text(record.key), _text(record.value)]
        fields += [headers, ""]
    return dict(zip(_RECORD_FIELDS, fields, strict=True))


def _text(data: bytes | None) -> Value:
    """Return bytes as text, or as an object with base64."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}
