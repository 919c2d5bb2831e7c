"""`goqueue consume`: print the messages of a topic, up to its end or for ever."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.cli.connection import DEFAULT_SERVER, ServerOption, TopicArgument, telling_what_to_do
from goqueue.cli.consume_output import MessageFormat, writer
from goqueue.cli.consume_start import Start, parse_start

if TYPE_CHECKING:
    from goqueue.cli.consume_output import Writer

_INTERRUPTED = 130


def consume(
    topic: TopicArgument,
    *,
    start: Annotated[
        str,
        typer.Option(
            "--from", metavar="WHERE", help="beginning, end, OFFSET, -N for the last N, a time, or '10m ago'."
        ),
    ] = "beginning",
    partition: Annotated[int | None, typer.Option(min=0, help="Only this partition.")] = None,
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="Stop after so many messages.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for new messages at the end.")] = False,
    key: Annotated[bool, typer.Option("--key", help="With lines: the key and a tab in front of the value.")] = False,
    server: ServerOption = DEFAULT_SERVER,
    output_format: Annotated[
        MessageFormat, typer.Option("--format", help="Values as lines, or everything: JSON Lines, YAML or a table.")
    ] = MessageFormat.LINES,
) -> None:
    """Print the messages of a topic: all partitions, in order of time.

    It stops where the end was when it started, or goes on with --follow until
    Ctrl-C. Nothing is marked as read. A time without a zone is that of the
    clock here.

    Example: [bold]goqueue consume orders --follow --from end[/bold]

    Example: [bold]goqueue consume orders --from '10m ago' --format json | jq .value[/bold]
    """
    try:
        where = parse_start(start, now_ms=time.time_ns() // 1_000_000)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--from") from None
    import asyncio

    write = writer(output_format, with_key=key)
    try:
        with telling_what_to_do():
            asyncio.run(_consume(server, topic, partition, where, count, write, is_following=follow))
    except KeyboardInterrupt:
        raise typer.Exit(_INTERRUPTED) from None
    except BrokenPipeError:
        _forget_output()


async def _consume(
    server: str,
    topic: str,
    partition: int | None,
    where: Start,
    count: int | None,
    write: Writer,
    *,
    is_following: bool,
) -> None:
    from goqueue.cli.consume_merge import merged
    from goqueue.cli.consume_reading import open_feeds

    left = count
    async with open_feeds(server, topic, partition, where, is_following=is_following) as feeds:
        async for chunk in merged(feeds):
            shown = chunk if left is None else chunk[:left]
            write(shown)
            if left is not None:
                left -= len(shown)
                if left <= 0:
                    return


def _forget_output() -> None:
    """Leave nothing that would be written at exit to a pipe that nobody reads any more."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
