"""`goqueue queue`: receive messages of a queue group, say what became of them, and look after the group."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.cli.confirm import YesOption, require_typed
from goqueue.cli.connection import (
    DEFAULT_SERVER,
    QueueArgument,
    ServerOption,
    TopicArgument,
    complete_topic,
    connected,
)
from goqueue.cli.output import Format, FormatOption
from goqueue.cli.queue_seek import seek
from goqueue.errors import Invalid

if TYPE_CHECKING:
    from goqueue.client.queues import Settling

app = typer.Typer(no_args_is_help=True, help="Receive and settle messages of queue groups, and look after them.")

TopicsArgument = Annotated[
    list[str], typer.Argument(metavar="TOPIC...", help="The topics to receive from.", autocompletion=complete_topic)
]
ReceiptsArgument = Annotated[
    list[str], typer.Argument(metavar="RECEIPT...", help="Receipts as `receive` prints them; - reads lines of them.")
]
ReasonOption = Annotated[str, typer.Option(help="Why, for those who look at dead letters.")]


@app.command()
def receive(
    group: QueueArgument,
    topics: TopicsArgument,
    *,
    most: Annotated[int, typer.Option("--max", min=1, help="How many messages at most.")] = 10,
    wait: Annotated[str, typer.Option(metavar="DURATION", help="How long to wait for the first one.")] = "0s",
    visibility: Annotated[
        str | None, typer.Option(metavar="DURATION", help="How long to have them; otherwise as the group says.")
    ] = None,
    consumer: Annotated[str, typer.Option(help="Who receives; each may hold so many at once.")] = "",
    acks: Annotated[bool, typer.Option("--ack", help="Say at once that they are done.")] = False,
    server: ServerOption = DEFAULT_SERVER,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Lease messages for a while, and print them with their receipts; the first receive makes the group.

    Whatever is not settled before its time is up is delivered again.

    Example: [bold]goqueue queue receive billing orders --max 1 --wait 30s[/bold]

    Example: [bold]goqueue queue receive billing orders --format json | jq -r .receipt_handle[/bold]
    """
    from goqueue.cli import queue_output
    from goqueue.client import queues

    call = queues.receive(
        group,
        topics,
        limit=most,
        wait_s=_seconds(wait),
        visibility_s=None if visibility is None else _seconds(visibility),
        consumer=consumer,
    )
    with connected(server) as client:
        received = client.send(call)
        queue_output.show_received(received, output_format)
        if acks and received.messages:
            queue_output.require_settled(client.send(queues.ack(*received.messages)))


@app.command()
def ack(
    receipts: ReceiptsArgument, *, server: ServerOption = DEFAULT_SERVER, output_format: FormatOption = Format.TABLE
) -> None:
    """Say that messages are done: they never come again.

    Example: [bold]goqueue queue ack GqQrqFMgnFoAAAAAAAAAAAAAAAAAAQAAZwBvcmRlcnM=[/bold]
    """
    from goqueue.client import queues

    given = _given(receipts)
    _settle(given, queues.ack(*given), server, output_format)


@app.command()
def nack(
    receipts: ReceiptsArgument,
    *,
    delay: Annotated[
        str | None, typer.Option(metavar="DURATION", help="When to try again; otherwise after the group's backoff.")
    ] = None,
    reason: ReasonOption = "",
    server: ServerOption = DEFAULT_SERVER,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Say that messages failed, and are to be tried again.

    Example: [bold]goqueue queue nack RECEIPT --delay 1m --reason 'the bank does not answer'[/bold]
    """
    from goqueue.client import queues

    given = _given(receipts)
    delay_s = None if delay is None else _seconds(delay)
    _settle(given, queues.nack(*given, delay_s=delay_s, reason=reason), server, output_format)


@app.command()
def reject(
    receipts: ReceiptsArgument,
    *,
    reason: ReasonOption = "",
    server: ServerOption = DEFAULT_SERVER,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Say that messages can never be processed: they become dead letters.

    Example: [bold]goqueue queue reject RECEIPT --reason 'no such customer'[/bold]
    """
    from goqueue.client import queues

    given = _given(receipts)
    _settle(given, queues.reject(*given, reason=reason), server, output_format)


@app.command()
def extend(
    receipts: ReceiptsArgument,
    *,
    timeout: Annotated[
        str, typer.Option("--for", metavar="DURATION", help="How long from now on; 0s gives them back.")
    ],
    server: ServerOption = DEFAULT_SERVER,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Keep messages for longer.

    Example: [bold]goqueue queue extend RECEIPT --for 5m[/bold]
    """
    from goqueue.client import queues

    given = _given(receipts)
    _settle(given, queues.extend(*given, timeout_s=_seconds(timeout)), server, output_format)


@app.command("list")
def list_queues(*, server: ServerOption = DEFAULT_SERVER, output_format: FormatOption = Format.TABLE) -> None:
    """List all queue groups: how much is in them, and how old the oldest message is.

    Example: [bold]goqueue queue list[/bold]
    """
    from goqueue.cli import queue_output
    from goqueue.client import queues

    with connected(server) as client:
        found = client.send(queues.list_all())
    queue_output.show_list(found, output_format)


@app.command()
def describe(
    group: QueueArgument, *, server: ServerOption = DEFAULT_SERVER, output_format: FormatOption = Format.TABLE
) -> None:
    """Describe a queue group: depth, what is in flight and with whom, and its settings.

    Example: [bold]goqueue queue describe billing[/bold]
    """
    from goqueue.cli import queue_output
    from goqueue.client import queues

    with connected(server) as client:
        found = client.send(queues.describe(group))
    queue_output.show_queue(found, output_format)


@app.command()
def alter(
    group: QueueArgument,
    *,
    settings: Annotated[
        list[str], typer.Option("--set", metavar="NAME=VALUE", help="A setting; repeatable. docs/queues.md has all.")
    ],
    server: ServerOption = DEFAULT_SERVER,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Change settings of a queue group, which is made if there is none.

    Example: [bold]goqueue queue alter billing --set retries=5 --set visibility_timeout=2m[/bold]
    """
    from goqueue.cli import queue_output
    from goqueue.client import queues

    wanted = dict(_setting(each) for each in settings)
    with connected(server) as client:
        found = client.send(queues.alter(group, **wanted))
    queue_output.show_queue(found, output_format)


@app.command()
def peek(
    group: QueueArgument,
    topic: TopicArgument,
    *,
    most: Annotated[int, typer.Option("--max", min=1, help="How many messages at most.")] = 10,
    server: ServerOption = DEFAULT_SERVER,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Show what the next receives would bring, and lease nothing.

    Example: [bold]goqueue queue peek billing orders[/bold]
    """
    from goqueue.cli import queue_output
    from goqueue.client import queues

    with connected(server) as client:
        found = client.send(queues.peek(group, topic, limit=most))
    queue_output.show_messages(found, output_format)


@app.command()
def pause(
    group: QueueArgument,
    *,
    reason: Annotated[str, typer.Option(help="Why, for those who receive nothing.")] = "paused by hand",
    server: ServerOption = DEFAULT_SERVER,
) -> None:
    """Deliver nothing to a group until it is resumed; what is leased can still be settled.

    Example: [bold]goqueue queue pause billing --reason 'the database moves'[/bold]
    """
    from goqueue.client import queues

    with connected(server) as client:
        client.send(queues.pause(group, reason))
    typer.echo(f"paused {group}: {reason}")


@app.command()
def resume(group: QueueArgument, *, server: ServerOption = DEFAULT_SERVER) -> None:
    """Deliver to a group again, which was paused or has paused itself.

    Example: [bold]goqueue queue resume billing[/bold]
    """
    from goqueue.client import queues

    with connected(server) as client:
        found = client.send(queues.resume(group))
    typer.echo(f"resumed {group}, with {found.depth:,} messages to be done")


app.command()(seek)


@app.command()
def purge(
    group: QueueArgument, topic: TopicArgument, *, yes: YesOption = False, server: ServerOption = DEFAULT_SERVER
) -> None:
    """Have everything done for a group that is in a topic now; you are asked to type its name.

    The messages stay in the topic, and other groups notice nothing.

    Example: [bold]goqueue queue purge billing orders --yes[/bold]
    """
    from goqueue.client import queues

    with connected(server) as client:
        found = client.send(queues.describe(group))
        if not yes:
            count = sum(_open_in(each) for each in found.partitions if each.topic == topic)
            typer.echo(f"This skips {count:,} messages of {topic} for {group}.", err=True)
            require_typed(group, "the name of the group", "nothing was purged")
        client.send(queues.purge(group, topic))
    typer.echo(f"purged {topic} for {group}")


@app.command()
def delete(group: QueueArgument, *, yes: YesOption = False, server: ServerOption = DEFAULT_SERVER) -> None:
    """Forget a queue group, with its settings and all that is in flight; you are asked to type its name.

    Example: [bold]goqueue queue delete billing --yes[/bold]
    """
    from goqueue.client import queues

    with connected(server) as client:
        found = client.send(queues.describe(group))
        if not yes:
            text = f"This forgets {group}, with {found.depth:,} messages that are not done."
            typer.echo(text, err=True)
            require_typed(group, "the name of the group", "nothing was deleted")
        client.send(queues.delete(group))
    typer.echo(f"deleted {group}")


def _settle(given: Sequence[str], call: Settling, server: str, output_format: Format) -> None:
    from goqueue.cli import queue_output

    with connected(server) as client:
        results = client.send(call)
    queue_output.show_settled(given, results, output_format)
    queue_output.require_settled(results)


def _given(receipts: Sequence[str]) -> list[str]:
    given = [line.strip() for line in sys.stdin if line.strip()] if list(receipts) == ["-"] else list(receipts)
    if not given:
        raise Invalid("there is no receipt", hint="receive prints them")
    return given


def _setting(written: str) -> tuple[str, str | float]:
    name, equals, value = written.partition("=")
    if not equals:
        raise Invalid(f"{written!r} is no setting", hint="write NAME=VALUE")
    try:
        return name, int(value)
    except ValueError:
        pass
    try:
        return name, float(value)
    except ValueError:
        return name, value


def _seconds(written: str) -> float:
    from goqueue.model.units import parse_duration_ms

    return parse_duration_ms(written) / 1000


def _open_in(partition: object) -> int:
    return sum(getattr(partition, name) for name in ("backlog", "leased", "waiting", "ready", "held", "dead"))
