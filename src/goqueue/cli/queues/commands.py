"""`goqueue queue`: receive and settle messages (see `messages`), and manage queue groups."""

from __future__ import annotations

import time as clock
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.cli.connection import DEFAULT_SERVER, QueueArgument, ServerOption, TopicArgument, connected
from goqueue.cli.queues import messages
from goqueue.cli.terminal.confirm import DryRunOption, YesOption, require_typed
from goqueue.cli.terminal.output import Format, FormatOption, fields, show
from goqueue.cli.terminal.tables import Column, Table, clean, print_facts
from goqueue.cli.terminal.times import age_text, time_text
from goqueue.model.start_position import AtOffset, AtTime, FromEnd, parse_start
from goqueue.model.units import count_text

if TYPE_CHECKING:
    from goqueue.client import Call, MovedQueue, Queue, QueueMember, QueueMove, QueuePartition

app = typer.Typer(no_args_is_help=True, help="Receive and settle messages of queue groups, and manage the groups.")

PartitionsOption = Annotated[
    list[int] | None, typer.Option("--partition", min=0, help="Only this partition of the topic; repeatable.")
]


def _consumer_count(queue: Queue) -> str:
    return str(len({*queue.consumers, *(member.member_id for member in queue.members)}))


def _age(seconds: float | None) -> str | None:
    return None if seconds is None else age_text(seconds)


_QUEUES: Table[Queue] = Table(
    "queue",
    Column("group", lambda each: each.group),
    Column("depth", lambda each: each.depth, is_number=True),
    Column("in flight", lambda each: each.in_flight, is_number=True),
    Column("oldest", lambda each: _age(each.oldest_seconds), is_number=True),
    Column("consumers", _consumer_count, is_number=True, spared=1),
    Column("paused", lambda each: each.pause_reason or None),
)
_PARTITIONS: Table[QueuePartition] = Table(
    "partition",
    Column("partition", lambda each: f"{each.topic}-{each.partition}"),
    Column("new", lambda each: each.backlog, is_number=True),
    Column("leased", lambda each: each.leased, is_number=True),
    Column("waiting", lambda each: each.waiting, is_number=True),
    Column("ready", lambda each: each.ready, is_number=True),
    Column("held", lambda each: each.held, is_number=True),
    Column("dead", lambda each: each.dead, is_number=True),
    Column("oldest", lambda each: _age(each.oldest_seconds), is_number=True, spared=1),
    Column("floor", lambda each: str(each.floor), is_number=True, spared=2),
    Column("cursor", lambda each: str(each.cursor), is_number=True, spared=3),
)
_MOVES: Table[QueueMove] = Table(
    "move",
    Column("partition", lambda each: f"{each.topic}-{each.partition}"),
    Column("now", lambda each: each.cursor, is_number=True),
    Column("then", lambda each: each.offset, is_number=True),
    Column("skipped", lambda each: each.skipped, is_number=True),
    Column("again", lambda each: each.again, is_number=True),
    Column("in flight", lambda each: each.in_flight, is_number=True),
)

app.command()(messages.receive)
app.command()(messages.ack)
app.command()(messages.nack)
app.command()(messages.reject)
app.command()(messages.extend)


@app.command("list")
def list_queues(*, server: ServerOption = DEFAULT_SERVER, output_format: FormatOption = Format.TABLE) -> None:
    """List queue groups, with their depth and the age of the oldest message.

    Example: [bold]goqueue queue list[/bold]
    """
    from goqueue.client import queues

    with connected(server) as client:
        found = client.send(queues.list_all())
    _QUEUES.show(found, output_format)
    if not found and output_format is Format.TABLE:
        typer.echo("there are no queue groups; the first receive creates one", err=True)


@app.command()
def describe(
    group: QueueArgument, *, server: ServerOption = DEFAULT_SERVER, output_format: FormatOption = Format.TABLE
) -> None:
    """Describe a queue group: depth, messages in flight per consumer, settings and partitions.

    Example: [bold]goqueue queue describe billing[/bold]
    """
    from goqueue.client import queues

    with connected(server) as client:
        found = client.send(queues.describe(group))
    _show_queue(found, output_format)


@app.command()
def alter(
    group: QueueArgument,
    *,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting, see above; repeatable.")
    ] = None,
    unset: Annotated[
        list[str] | None, typer.Option("--unset", metavar="NAME", help="Reset a setting to its default; repeatable.")
    ] = None,
    server: ServerOption = DEFAULT_SERVER,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Change settings of a queue group. Creates the group if there is none.

    \b
    visibility_timeout  default lease duration [dim](30s)[/dim]
    retries             retries before a message becomes a dead letter [dim](3)[/dim]
    backoff             delay after the first failure [dim](1s)[/dim]
    backoff_factor      multiplies the delay after each further failure [dim](2)[/dim]
    backoff_max         longest delay [dim](60s)[/dim]
    in_flight_max       messages that a consumer may hold [dim](1000)[/dim]
    ordering            none, or key: one message per key at a time [dim](none)[/dim]
    start               start of new topics: earliest, latest, a time, '10m ago' [dim](earliest)[/dim]
    dead_letters        topic for dead letters [dim](TOPIC.dlq)[/dim]
    breaker_ratio       share of dead letters above which the group pauses [dim](0.5)[/dim]

    Example: [bold]goqueue queue alter billing --set retries=5 --set visibility_timeout=2m[/bold]
    """
    from goqueue.cli.queues import arguments
    from goqueue.client import queues

    wanted = arguments.parse_changes(settings or [], unset or [])
    if not wanted:
        raise typer.BadParameter("name a change: --set or --unset")
    with connected(server) as client:
        found = client.send(queues.alter(group, **wanted))
    _show_queue(found, output_format)


app.command()(messages.peek)


@app.command()
def pause(
    group: QueueArgument,
    *,
    reason: Annotated[str, typer.Option(help="Why; shown to consumers that receive nothing.")] = "paused by hand",
    server: ServerOption = DEFAULT_SERVER,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Stop delivery to a group until it is resumed. Leased messages can still be settled.

    Example: [bold]goqueue queue pause billing --reason 'the database moves'[/bold]
    """
    from goqueue.cli.queues import arguments
    from goqueue.client import queues

    call = queues.pause(group, arguments.check_pause_reason(reason))
    with connected(server) as client:
        found = client.send(call)
    _show_changed(found, f"paused {group}: {reason}", output_format)


@app.command()
def resume(
    group: QueueArgument, *, server: ServerOption = DEFAULT_SERVER, output_format: FormatOption = Format.TABLE
) -> None:
    """Resume delivery to a paused group.

    Example: [bold]goqueue queue resume billing[/bold]
    """
    from goqueue.client import queues

    with connected(server) as client:
        found = client.send(queues.resume(group))
    _show_changed(found, f"resumed {group}, with {count_text(found.depth, 'message')} to process", output_format)


@app.command()
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
    """Move a group in a topic: back to old messages, or forward over some.

    Leases in that topic end, and their receipts become invalid. Shows which
    messages are skipped or delivered again, and asks you to type the name of
    the group. An offset outside of a partition becomes the nearest one
    inside. Times without a zone are local.

    Example: [bold]goqueue queue seek billing orders --to '1h ago' --dry-run[/bold]

    Example: [bold]goqueue queue seek billing orders --to 1200 --partition 0 --yes[/bold]
    """
    # "10m ago" means the same time in the preview and in the move.
    now_ms = clock.time_ns() // 1_000_000
    plan = _seek_call(group, topic, to, partition, now_ms, is_dry_run=True)
    move = _seek_call(group, topic, to, partition, now_ms, is_dry_run=False)
    with connected(server) as client:
        moves = client.send(plan).moves
        if not dry_run:
            if not yes:
                typer.echo(f"This moves {clean(group)} in {topic}, and ends its leases there:\n", err=True)
                _MOVES.print(moves, is_aside=True)
                typer.echo(err=True)
                require_typed(group, "the name of the group", "nothing was moved")
            moves = client.send(move).moves
    if output_format is Format.TABLE:
        done = "would move" if dry_run else "moved"
        typer.echo(f"{done} {clean(group)} in {count_text(len(moves), 'partition')}\n")
        _MOVES.print(moves)
    else:
        show("move", [{"group": group, **fields(each), "is_done": not dry_run} for each in moves], output_format)


@app.command()
def purge(
    group: QueueArgument,
    topic: TopicArgument,
    *,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    server: ServerOption = DEFAULT_SERVER,
) -> None:
    """Mark all current messages of a topic as processed for a group. Asks you to type its name.

    The messages stay in the topic; other groups are not affected.

    Example: [bold]goqueue queue purge billing orders --dry-run[/bold]
    """
    from goqueue.cli.queues import arguments
    from goqueue.client import queues

    (topic,) = arguments.check_topics([topic])
    with connected(server) as client:
        found = client.send(queues.describe(group))
        what = f"{count_text(_open_in(found, topic), 'message')} of {topic} for {group}"
        if dry_run:
            typer.echo(f"would skip {what}")
            return
        if not yes:
            typer.echo(f"This skips {what}.", err=True)
            require_typed(group, "the name of the group", "nothing was purged")
        client.send(queues.purge(group, topic))
    typer.echo(f"purged {topic} for {group}")


@app.command()
def delete(group: QueueArgument, *, yes: YesOption = False, server: ServerOption = DEFAULT_SERVER) -> None:
    """Delete a queue group, its settings and its leases. Asks you to type its name.

    Example: [bold]goqueue queue delete billing --yes[/bold]
    """
    from goqueue.client import queues

    with connected(server) as client:
        found = client.send(queues.describe(group))
        if not yes:
            typer.echo(f"This deletes {group}, which has {found.depth:,} unprocessed messages.", err=True)
            require_typed(group, "the name of the group", "nothing was deleted")
        client.send(queues.delete(group))
    typer.echo(f"deleted {group}")


def _show_changed(found: Queue, done: str, output_format: Format) -> None:
    if output_format is Format.TABLE:
        typer.echo(clean(done))
    else:
        _QUEUES.show([found], output_format)


def _show_queue(found: Queue, output_format: Format) -> None:
    if output_format is not Format.TABLE:
        _QUEUES.show([found], output_format)
        return
    http_consumers = found.consumers.keys() - {each.member_id for each in found.members}
    facts = [
        ("state", f"paused: {found.pause_reason}" if found.paused else "delivering"),
        ("depth", count_text(found.depth, "message")),
        ("in flight", count_text(found.in_flight, "message")),
        ("oldest", _age(found.oldest_seconds) or "-"),
        *((f"held by {name}", count_text(found.consumers[name], "message")) for name in sorted(http_consumers)),
        *((f"member {each.client_id or each.member_id}", _member_text(each)) for each in found.members),
        *((name, _setting_text(name, value)) for name, value in found.settings.items()),
    ]
    print_facts(facts, title=f"queue group {found.group}")
    typer.echo()
    _PARTITIONS.print(found.partitions)
    for each in found.partitions:
        if each.dead_letter_trouble:
            waiting = f"{count_text(each.dead, 'dead message')} of {each.topic}-{each.partition}"
            typer.echo(f"{waiting} cannot become dead letters now: {clean(each.dead_letter_trouble)}")


def _setting_text(name: str, value: float | str) -> str:
    if name == "start" and isinstance(value, int):
        return time_text(value)
    if name == "dead_letters" and not value:
        return "{topic}.dlq"
    return str(value)


def _member_text(member: QueueMember) -> str:
    place = f" on {member.host}" if member.host else ""
    return f"{count_text(member.in_flight, 'message')} of {', '.join(member.topics)} ({member.member_id}{place})"


def _open_in(found: Queue, topic: str) -> int:
    """Return the number of unprocessed messages of a topic."""
    return sum(
        each.backlog + each.leased + each.waiting + each.ready + each.held + each.dead
        for each in found.partitions
        if each.topic == topic
    )


def _seek_call(
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
            raise typer.BadParameter("a distance from the end is not supported; give an offset", param_hint="--to")
