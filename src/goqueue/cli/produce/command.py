"""`goqueue produce`: publish lines, files or JSON to a topic."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.cli.connection import DEFAULT_SERVER, ServerOption, TopicArgument, connected, telling_what_to_do
from goqueue.cli.produce.options import AcksChoice, parse_headers, unescaped
from goqueue.cli.produce.summary import Tally, ignore
from goqueue.cli.terminal.output import Format, FormatOption
from goqueue.cli.terminal.streams import console, require_input

if TYPE_CHECKING:
    from goqueue.cli.produce.input import Shape
    from goqueue.cli.produce.outbox import Outbox

_INTERRUPTED = 130
# A broker that is restarted comes back within this many attempts, which take some seconds.
_ATTEMPTS = 7

FilesArgument = Annotated[
    list[Path] | None,
    typer.Argument(metavar="FILE", help="Files to read; - or none is stdin."),
]


def produce(
    topic: TopicArgument,
    files: FilesArgument = None,
    *,
    key: Annotated[str | None, typer.Option(help="The key of all messages.")] = None,
    key_separator: Annotated[
        str | None, typer.Option(metavar="TEXT", help=r"A line is the key, this text, and the value; \t is a tab.")
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", metavar="NAME=VALUE", help="A header of all messages; repeatable.")
    ] = None,
    partition: Annotated[int | None, typer.Option(min=0, help="The partition; else the key decides.")] = None,
    json_lines: Annotated[
        bool, typer.Option("--json-lines", help="A line is a JSON object: key, value, headers, partition, timestamp.")
    ] = False,
    whole_file: Annotated[bool, typer.Option("--whole-file", help="A file is one message, not its lines.")] = False,
    acks: Annotated[AcksChoice, typer.Option(help="What to wait for: all replicas, the leader, or nothing.")] = (
        AcksChoice.ALL
    ),
    server: ServerOption = DEFAULT_SERVER,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Publish messages: each line of the files or of standard input is one.

    Lines stay in order. JSON lines are what `goqueue consume --format json`
    prints, and what the HTTP interface takes; binary values are
    `value_base64` there. Exits with 1 if a message was refused, and tells
    which lines. Ctrl-C sends what has been read.

    Example: [bold]goqueue produce orders orders.txt --key-separator '\\t'[/bold]

    Example: [bold]goqueue consume orders --format json | goqueue produce copy --json-lines[/bold]
    """
    from goqueue.cli.produce.input import Shape
    from goqueue.client import NewMessage

    _check(key, key_separator, header, partition, is_json=json_lines, is_whole_file=whole_file)
    _check_files(files or [])
    template = NewMessage(key=key, headers=parse_headers(header or []), partition=partition)
    separator = unescaped(key_separator or "").encode()
    shape = Shape(template, key_separator=separator, is_json=json_lines, is_whole_file=whole_file)
    tally = Tally(topic, output_format, is_new_topic=not _exists(server, topic))
    try:
        stopped_by = _send(server, topic, acks, shape, files or [], tally)
    except KeyboardInterrupt:
        typer.echo("goqueue: interrupted again; the last lines may not have been published", err=True)
        raise typer.Exit(_INTERRUPTED) from None
    tally.show()
    if isinstance(stopped_by, OSError):
        raise stopped_by
    if stopped_by is not None:
        raise typer.Exit(_INTERRUPTED)
    if tally.failed:
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
    """Refuse options that do not go together."""
    given = {"--key": key, "--key-separator": separator, "--header": headers, "--partition": partition}
    if is_json and is_whole_file:
        raise typer.BadParameter("--json-lines and --whole-file do not go together")
    wrong = [name for name, value in given.items() if value is not None]
    if is_json and wrong:
        raise typer.BadParameter(f"{wrong[0]} does not go with --json-lines, where each line has its own")
    if separator is not None and (key is not None or is_whole_file or not separator):
        raise typer.BadParameter("--key-separator is some text, and goes neither with --key nor with --whole-file")


def _check_files(files: Sequence[Path]) -> None:
    """Refuse files that are not there; those of typer's own checks refuse the dash."""
    from goqueue.cli.produce.input import STANDARD_INPUT

    for file in files:
        if file != STANDARD_INPUT and (not file.exists() or file.is_dir()):
            raise typer.BadParameter(f"there is no file {file}", param_hint="FILE")


def _exists(server: str, topic: str) -> bool:
    """Tell whether there is such a topic; if not, the first message may create it.

    Fails now if there is no broker, or no topic can have that name, and not after reading input.
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
    server: str, topic: str, acks: AcksChoice, shape: Shape, files: Sequence[Path], tally: Tally
) -> KeyboardInterrupt | OSError | None:
    """Publish all input that could be read; return what ended it early: Ctrl-C, or a file that cannot be read."""
    from goqueue.cli.produce.outbox import Outbox
    from goqueue.client import Acks, Client, Patience

    stopped_by: KeyboardInterrupt | OSError | None = None
    with (
        telling_what_to_do(server),
        Client(server, patience=Patience(attempts=_ATTEMPTS)) as client,
        _bar(files) as advance,
    ):
        tally.advance = advance
        outbox = Outbox(client, topic, Acks(acks.value), tally.add)
        try:
            _feed(outbox, shape, files, tally)
        except (KeyboardInterrupt, OSError) as error:
            stopped_by = error
        outbox.close()
        if outbox.failure is not None:
            tally.show()
            typer.echo(outbox.lost(), err=True)
            raise outbox.failure
    return stopped_by


def _feed(outbox: Outbox, shape: Shape, files: Sequence[Path], tally: Tally) -> None:
    """Hand over all input as it is read, until nothing is taken any more."""
    from goqueue.cli.produce.input import Entry, Flaw

    for arrived in shape.read(files):
        for flaw in [each for each in arrived if isinstance(each, Flaw)]:
            tally.fail(flaw.place, flaw.error)
        if not outbox.put([each for each in arrived if isinstance(each, Entry)]):
            return


@contextmanager
def _bar(files: Sequence[Path]) -> Iterator[Callable[[int], None]]:
    """Show how far the work is, on a terminal only, and not while somebody types."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    from goqueue.cli.produce.input import STANDARD_INPUT, size_of

    screen = console(stderr=True)
    is_typed = (not files or STANDARD_INPUT in files) and require_input().isatty()
    if not screen.is_terminal or is_typed:
        yield ignore
        return
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=screen, transient=True) as bar:
        task = bar.add_task("", total=size_of(files))
        yield lambda step: bar.advance(task, step)
