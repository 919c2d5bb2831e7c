"""`goqueue queue seek`: where a queue group is to go on, as people write it, and what that does."""

from __future__ import annotations

import time as clock
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.cli.connection import DEFAULT_SERVER, QueueArgument, ServerOption, TopicArgument, connected
from goqueue.cli.consume.start import AtOffset, AtTime, FromEnd, parse_start
from goqueue.cli.terminal.confirm import DryRunOption, YesOption, require_typed
from goqueue.cli.terminal.output import Format, FormatOption

if TYPE_CHECKING:
    from goqueue.client import Call, MovedQueue

PartitionsOption = Annotated[
    list[int] | None, typer.Option("--partition", min=0, help="Only this partition of the topic; repeatable.")
]


def seek(
    group: QueueArgument,
    topic: TopicArgument,
    *,
    to: Annotated[
        str, typer.Option("--to", metavar="WHERE", help="start, end, an offset, 2026-01-31T10:00, or '10m ago'.")
    ],
    partition: PartitionsOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    server: ServerOption = DEFAULT_SERVER,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Have a group go on with a topic elsewhere: go back to old messages, or skip some.

    What is in flight is forgotten, and receipts of it mean nothing any more.
    You are shown what is skipped or delivered again, and asked to type the
    name of the group. An offset that a partition does not hold becomes the
    nearest one that it holds. A time without a zone is that of the clock here.

    Example: [bold]goqueue queue seek billing orders --to '1h ago' --dry-run[/bold]

    Example: [bold]goqueue queue seek billing orders --to 1200 --partition 0 --yes[/bold]
    """
    from goqueue.cli.queues import output as queue_output

    # What was shown is what is done: "10m ago" is the same moment for both.
    now_ms = clock.time_ns() // 1_000_000
    plan = _call(group, topic, to, partition, now_ms, is_dry_run=True)
    move = _call(group, topic, to, partition, now_ms, is_dry_run=False)
    with connected(server) as client:
        moves = client.send(plan).moves
        if not dry_run:
            if not yes:
                queue_output.show_plan(group, topic, moves)
                require_typed(group, "the name of the group", "nothing was moved")
            moves = client.send(move).moves
    queue_output.show_moves(group, moves, output_format, is_done=not dry_run)


def _call(
    group: str, topic: str, to: str, partitions: Sequence[int] | None, now_ms: int, *, is_dry_run: bool
) -> Call[MovedQueue]:
    from goqueue.client import queues

    try:
        start = parse_start(to, now_ms=now_ms, beginning="start")
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--to") from None
    named = partitions or None
    match start:
        case AtOffset(offset):
            return queues.seek(group, topic, offset=offset, partitions=named, is_dry_run=is_dry_run)
        case AtTime(timestamp_ms):
            return queues.seek(group, topic, time=timestamp_ms, partitions=named, is_dry_run=is_dry_run)
        case FromEnd(0):
            return queues.seek(group, topic, to="latest", partitions=named, is_dry_run=is_dry_run)
        case FromEnd():
            raise typer.BadParameter("groups go on at an offset, and not so far before the end", param_hint="--to")
