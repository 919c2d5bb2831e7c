"""`goqueue consume`: print the messages of a topic, up to its end or for ever, alone or as a member of a group."""

from __future__ import annotations

import time
from collections.abc import Coroutine
from enum import StrEnum
from typing import Annotated, Any, NamedTuple

import typer

from goqueue.cli.connection import DEFAULT_SERVER, ServerOption, TopicArgument, complete_group, telling_what_to_do
from goqueue.cli.consume.output import MessageFormat, Writer, writer
from goqueue.cli.terminal.streams import forget_output, require_output
from goqueue.model.start_position import AtOffset, FromEnd, Start, parse_start

_INTERRUPTED = 130


class Isolation(StrEnum):
    """Which messages of transactions are read."""

    READ_COMMITTED = "read-committed"
    READ_UNCOMMITTED = "read-uncommitted"


FromOption = Annotated[
    str,
    typer.Option("--from", metavar="WHERE", help="beginning, end, OFFSET, -N for the last N, a time, or '10m ago'."),
]
GroupOption = Annotated[
    str | None,
    typer.Option(
        metavar="GROUP",
        help="Be a member of this group: share the partitions, and mark as read.",
        autocompletion=complete_group,
    ),
]
IsolationOption = Annotated[Isolation, typer.Option(help="Leave out what transactions have not committed, or show it.")]
MessageFormatOption = Annotated[
    MessageFormat, typer.Option("--format", help="Values as lines, or everything: JSON Lines, YAML or a table.")
]


class _Wanted(NamedTuple):
    """What to print, and how."""

    server: str
    topic: str
    messages_max: int | None
    write: Writer
    is_committed_only: bool


def consume(
    topic: TopicArgument,
    *,
    start: FromOption = "beginning",
    partition: Annotated[int | None, typer.Option(min=0, help="Only this partition.")] = None,
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="Stop after so many messages.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for new messages at the end.")] = False,
    group: GroupOption = None,
    isolation: IsolationOption = Isolation.READ_COMMITTED,
    key: Annotated[bool, typer.Option("--key", help="With lines: the key and a tab in front of the value.")] = False,
    server: ServerOption = DEFAULT_SERVER,
    output_format: MessageFormatOption = MessageFormat.LINES,
) -> None:
    """Print the messages of a topic: all partitions, in order of time.

    It stops where the end was when it started, or goes on with --follow until
    Ctrl-C. Nothing is marked as read. A time without a zone is that of the
    clock here.

    With --group it is a member of a group, until Ctrl-C or --count: it prints
    the partitions that it is given, begins where the group has got to, and
    commits what it has printed every 5 s and when it leaves. --from says where
    to begin where the group has not read: beginning or end.

    Example: [bold]goqueue consume orders --follow --from end[/bold]

    Example: [bold]goqueue consume orders --from '10m ago' --format json | jq .value[/bold]

    Example: [bold]goqueue consume orders --group billing[/bold]
    """
    try:
        where = parse_start(start, now_ms=time.time_ns() // 1_000_000)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--from") from None
    require_output()
    write = writer(output_format, with_key=key)
    wanted = _Wanted(server, topic, count, write, isolation is Isolation.READ_COMMITTED)
    if group is not None:
        _run(server, _consume_as_member(wanted, group, is_from_end=_is_from_end(where, partition)))
    else:
        _run(server, _consume(wanted, partition, where, is_following=follow))


def _run(server: str, reading: Coroutine[Any, Any, int]) -> None:
    """Read until it ends by itself, is interrupted, or nobody reads what it prints."""
    import asyncio

    try:
        with telling_what_to_do(server):
            exit_code = asyncio.run(reading)
    except KeyboardInterrupt:
        exit_code = _INTERRUPTED
    except BrokenPipeError:
        forget_output()
        return
    if exit_code:
        raise typer.Exit(exit_code)


def _is_from_end(where: Start, partition: int | None) -> bool:
    """Tell whether a member begins behind the newest message; refuse what cannot be meant of a member."""
    if partition is not None:
        raise typer.BadParameter("a group shares out the partitions itself", param_hint="--partition")
    match where:
        case AtOffset(0):
            return False
        case FromEnd(0):
            return True
    raise typer.BadParameter(
        "a group begins where it has got to, else at the beginning or the end; move it with `goqueue group seek`",
        param_hint="--from",
    )


async def _consume_as_member(wanted: _Wanted, group: str, *, is_from_end: bool) -> int:
    from goqueue.cli.consume.group import consume_as_member

    return await consume_as_member(
        wanted.server,
        wanted.topic,
        group,
        wanted.messages_max,
        wanted.write,
        is_from_end=is_from_end,
        is_committed_only=wanted.is_committed_only,
    )


async def _consume(wanted: _Wanted, partition: int | None, where: Start, *, is_following: bool) -> int:
    from goqueue.cli.consume.merge import merged
    from goqueue.cli.consume.reading import open_feeds

    left = wanted.messages_max
    async with open_feeds(
        wanted.server,
        wanted.topic,
        partition,
        where,
        is_following=is_following,
        is_committed_only=wanted.is_committed_only,
    ) as feeds:
        async for chunk in merged(feeds):
            shown = chunk if left is None else chunk[:left]
            wanted.write(shown)
            if left is not None:
                left -= len(shown)
                if left <= 0:
                    break
    return 0
