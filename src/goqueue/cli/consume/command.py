"""`goqueue consume`: print the messages of a topic, alone or as a member of a group."""

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


class IsolationChoice(StrEnum):
    """The isolation level for messages of transactions."""

    READ_COMMITTED = "read-committed"
    READ_UNCOMMITTED = "read-uncommitted"


FromOption = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="WHERE",
        help="Start position: beginning, end, OFFSET, -N for the last N, a time, or '10m ago'.",
    ),
]
GroupOption = Annotated[
    str | None,
    typer.Option(
        metavar="GROUP",
        help="Join this group: share its partitions and commit offsets.",
        autocompletion=complete_group,
    ),
]
IsolationOption = Annotated[IsolationChoice, typer.Option(help="Hide or show messages of uncommitted transactions.")]
MessageFormatOption = Annotated[
    MessageFormat,
    typer.Option("--format", help="Output format: values as lines; whole messages as JSON Lines, YAML or table."),
]


class _Wanted(NamedTuple):
    """The options that both ways of reading share."""

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
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="Stop after this many messages.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for new messages at the end.")] = False,
    group: GroupOption = None,
    isolation: IsolationOption = IsolationChoice.READ_COMMITTED,
    key: Annotated[bool, typer.Option("--key", help="With lines: print the key and a tab before the value.")] = False,
    server: ServerOption = DEFAULT_SERVER,
    output_format: MessageFormatOption = MessageFormat.LINES,
) -> None:
    """Print the messages of all partitions of a topic, ordered by time.

    Stops at the end that the topic had at the start; --follow continues until
    Ctrl-C. Commits no offsets. Times without a zone are local.

    With --group, joins a group until Ctrl-C or --count: prints its assigned
    partitions from the committed offsets on, and commits every 5 s and when
    it leaves. --from is the start position of partitions without a committed
    offset: beginning or end.

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
    wanted = _Wanted(server, topic, count, write, isolation is IsolationChoice.READ_COMMITTED)
    if group is not None:
        _run(server, _consume_as_member(wanted, group, is_from_end=_is_from_end(where, partition)))
    else:
        _run(server, _consume(wanted, partition, where, is_following=follow))


def _run(server: str, reading: Coroutine[Any, Any, int]) -> None:
    """Run a reader until it ends, is interrupted, or its output is closed."""
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
    """Return whether a member starts at the end; BadParameter for positions that a group does not support."""
    if partition is not None:
        raise typer.BadParameter("does not go with --group, which assigns partitions", param_hint="--partition")
    match where:
        case AtOffset(0):
            return False
        case FromEnd(0):
            return True
    raise typer.BadParameter(
        "with --group, must be beginning or end; move committed offsets with `goqueue group seek`",
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
