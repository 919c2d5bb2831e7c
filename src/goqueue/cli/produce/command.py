"""`goqueue produce`: publish lines, files or JSON to a topic."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.cli.connection import DEFAULT_SERVER, ServerOption, TopicArgument, connected, telling_what_to_do
from goqueue.cli.terminal.output import Format, FormatOption, Row, show
from goqueue.cli.terminal.streams import console, require_input
from goqueue.cli.terminal.tables import clean, size_text
from goqueue.errors import GoQueueError
from goqueue.model.units import count_text

if TYPE_CHECKING:
    from goqueue.cli.produce.input import Entry, InputFormat, InputLocation
    from goqueue.cli.produce.outbox import Outbox
    from goqueue.client import Published

_INTERRUPTED = 130
# These attempts take some seconds; a restarted broker is back by then.
_ATTEMPTS = 7
_FAILURES_SHOWN = 20
_ESCAPES = {r"\t": "\t", r"\n": "\n", r"\0": "\0", r"\\": "\\"}


class AcksChoice(StrEnum):
    """A copy of the client's `Acks`, because the client takes long to import."""

    ALL = "all"
    LEADER = "leader"
    NONE = "none"


FilesArgument = Annotated[
    list[Path] | None,
    typer.Argument(metavar="FILE", help="Files to read; stdin for - or no files."),
]


def produce(
    topic: TopicArgument,
    files: FilesArgument = None,
    *,
    key: Annotated[str | None, typer.Option(help="Key of all messages.")] = None,
    key_separator: Annotated[
        str | None, typer.Option(metavar="TEXT", help=r"Separates key and value in a line; \t is a tab.")
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", metavar="NAME=VALUE", help="Header of all messages; repeatable.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option(min=0, help="Partition of all messages; otherwise chosen by key.")
    ] = None,
    json_lines: Annotated[
        bool,
        typer.Option("--json-lines", help="Each line is a JSON object with key, value, headers, partition, timestamp."),
    ] = False,
    whole_file: Annotated[bool, typer.Option("--whole-file", help="Publish each file as one message.")] = False,
    acks: Annotated[AcksChoice, typer.Option(help="all: on disk; leader: in memory; none: do not wait.")] = (
        AcksChoice.ALL
    ),
    server: ServerOption = DEFAULT_SERVER,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Publish each line of files or of standard input as a message.

    Lines keep their order. JSON lines are those of `goqueue consume --format
    json` and of the HTTP interface; binary values are `value_base64`. Reports
    refused lines, and exits with 1 then. Ctrl-C publishes what was read.

    Example: [bold]goqueue produce orders orders.txt --key-separator '\\t'[/bold]

    Example: [bold]goqueue consume orders --format json | goqueue produce copy --json-lines[/bold]
    """
    from goqueue.cli.produce.input import InputFormat
    from goqueue.client import NewMessage

    _check(key, key_separator, header, partition, is_json=json_lines, is_whole_file=whole_file)
    _check_files(files or [])
    template = NewMessage(key=key, headers=_parse_headers(header or []), partition=partition)
    separator = _unescaped(key_separator or "").encode()
    shape = InputFormat(template, key_separator=separator, is_json=json_lines, is_whole_file=whole_file)
    summary = ProduceSummary(topic, output_format, is_new_topic=not _exists(server, topic))
    try:
        stopped_by = _send(server, topic, acks, shape, files or [], summary)
    except KeyboardInterrupt:
        typer.echo("goqueue: interrupted again; the last lines may not have been published", err=True)
        raise typer.Exit(_INTERRUPTED) from None
    summary.show()
    if isinstance(stopped_by, OSError):
        raise stopped_by
    if stopped_by is not None:
        raise typer.Exit(_INTERRUPTED)
    if summary.failed:
        raise typer.Exit(1)


def _check(
    key: str | None,
    separator: str | None,
    headers: list[str] | None,
    partition: int | None,
    *,
    is_json: bool,
    is_whole_file: bool,
) -> None:
    """Refuse options that contradict each other."""
    given = {"--key": key, "--key-separator": separator, "--header": headers, "--partition": partition}
    if is_json and is_whole_file:
        raise typer.BadParameter("give --json-lines or --whole-file, not both")
    wrong = [name for name, value in given.items() if value is not None]
    if is_json and wrong:
        raise typer.BadParameter(f"{wrong[0]} does not go with --json-lines; write it in each line")
    if separator is not None and (key is not None or is_whole_file or not separator):
        raise typer.BadParameter("--key-separator must not be empty, and does not go with --key or --whole-file")


def _check_files(files: Sequence[Path]) -> None:
    """Refuse missing files; typer's own check would refuse the dash."""
    from goqueue.cli.produce.input import STANDARD_INPUT

    for file in files:
        if file != STANDARD_INPUT and (not file.exists() or file.is_dir()):
            raise typer.BadParameter(f"there is no file {file}", param_hint="FILE")


def _exists(server: str, topic: str) -> bool:
    """Return whether the topic exists; if not, the first message may create it.

    Fails before input is read if there is no broker, or if the name is invalid.
    """
    from goqueue.client import topics
    from goqueue.errors import UnknownTopic

    with connected(server) as client:
        try:
            client.send(topics.describe(topic))
        except UnknownTopic:
            return False
    return True


def _send(
    server: str, topic: str, acks: AcksChoice, shape: InputFormat, files: Sequence[Path], summary: ProduceSummary
) -> KeyboardInterrupt | OSError | None:
    """Publish all input; return what ended it early: Ctrl-C, or the error of an unreadable file."""
    from goqueue.cli.produce.outbox import Outbox
    from goqueue.client import Acks, Client, Patience

    stopped_by: KeyboardInterrupt | OSError | None = None
    with (
        telling_what_to_do(server),
        Client(server, patience=Patience(attempts=_ATTEMPTS)) as client,
        _bar(files) as advance,
    ):
        summary.advance = advance
        outbox = Outbox(client, topic, Acks(acks.value), summary.add)
        try:
            _feed(outbox, shape, files, summary)
        except (KeyboardInterrupt, OSError) as error:
            stopped_by = error
        outbox.close()
        if outbox.failure is not None:
            summary.show()
            typer.echo(outbox.lost(), err=True)
            raise outbox.failure
    return stopped_by


def _feed(outbox: Outbox, shape: InputFormat, files: Sequence[Path], summary: ProduceSummary) -> None:
    """Put input into the outbox as it is read, until the outbox refuses more."""
    from goqueue.cli.produce.input import Entry, Flaw

    for arrived in shape.read(files):
        for flaw in [each for each in arrived if isinstance(each, Flaw)]:
            summary.fail(flaw.place, flaw.error)
        if not outbox.put([each for each in arrived if isinstance(each, Entry)]):
            return


@contextmanager
def _bar(files: Sequence[Path]) -> Iterator[Callable[[int], None]]:
    """Show a progress bar, on a terminal only, and not while the user types messages."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    from goqueue.cli.produce.input import STANDARD_INPUT, size_of

    screen = console(stderr=True)
    is_typed = (not files or STANDARD_INPUT in files) and require_input().isatty()
    if not screen.is_terminal or is_typed:
        yield _ignore
        return
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=screen, transient=True) as bar:
        task = bar.add_task("", total=size_of(files))
        yield lambda step: bar.advance(task, step)


def _parse_headers(pairs: Sequence[str]) -> list[tuple[str, str]]:
    """Return headers in order; BadParameter if one is not NAME=VALUE."""
    headers = []
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name:
            raise typer.BadParameter(f"{pair!r} is not NAME=VALUE", param_hint="--header")
        headers.append((name, value))
    return headers


def _unescaped(text: str) -> str:
    r"""Return a separator with \t, \n, \0 and \\ replaced by their characters."""
    for written, meant in _ESCAPES.items():
        if text == written:
            return meant
    return text


def _ignore(step: int) -> None:
    """Ignore progress."""
    del step


class ProduceSummary:
    """Counts the results of messages, and reports failures."""

    def __init__(self, topic: str, output_format: Format, *, is_new_topic: bool = False) -> None:
        self._is_new_topic = is_new_topic
        self.advance: Callable[[int], None] = _ignore
        self.failed = 0
        self._topic = topic
        self._format = output_format
        self._messages = 0
        self._bytes = 0
        self._began = time.monotonic()
        self._lock = threading.Lock()

    def add(self, entries: Sequence[Entry], outcomes: Sequence[Published | GoQueueError]) -> None:
        """Count the results of a batch."""
        read_bytes = sum([entry.input_bytes for entry in entries])
        self._messages += len(entries)
        self._bytes += read_bytes
        for entry, outcome in zip(entries, outcomes, strict=True):
            if isinstance(outcome, GoQueueError):
                self._messages -= 1
                self._bytes -= entry.input_bytes
                self.fail(entry.place, outcome)
        # With the line feeds.
        self.advance(read_bytes + len(entries))

    def fail(self, place: InputLocation, error: GoQueueError) -> None:
        """Count and report a refused message."""
        with self._lock:
            self.failed += 1
            if self._format is not Format.TABLE:
                where: Row = {"source": place.source, "line": place.line or None}
                what: Row = {"code": error.code, "message": error.message, "hint": error.hint}
                show("failure", [{**where, **what}], self._format)
            elif self.failed <= _FAILURES_SHOWN:
                typer.echo(clean(f"{place}: {error} [{error.code}]"), err=True)

    def show(self) -> None:
        """Print the number of published and failed messages, and the speed."""
        seconds = time.monotonic() - self._began
        is_created = self._is_new_topic and self._messages > 0
        if self._format is not Format.TABLE:
            row: Row = {"topic": self._topic, "messages": self._messages, "bytes": self._bytes}
            fates: Row = {"failed": self.failed, "topic_created": is_created}
            show("summary", [{**row, "seconds": round(seconds, 3), **fates}], self._format)
            return
        if self.failed > _FAILURES_SHOWN:
            typer.echo(f"... and {count_text(self.failed - _FAILURES_SHOWN, 'more failure')}", err=True)
        speed = f" ({self._messages / seconds:,.0f} per second)" if self._messages >= 1000 else ""
        failed = f"; {self.failed:,} failed" if self.failed else ""
        created = "; the topic did not exist and was created" if is_created else ""
        amount = f"{count_text(self._messages, 'message')}, {size_text(self._bytes)}"
        typer.echo(f"published to {self._topic}: {amount} in {seconds:.1f} s{speed}{failed}{created}")
