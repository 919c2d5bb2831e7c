"""`goqueue queue`: receive messages of a queue group, say what became of them, and look after the group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.cli.connection import (
    DEFAULT_SERVER,
    QueueArgument,
    ServerOption,
    TopicArgument,
    complete_topic,
    connected,
)
from goqueue.cli.queues.seek import seek
from goqueue.cli.terminal.confirm import YesOption, require_typed
from goqueue.cli.terminal.output import Format, FormatOption

if TYPE_CHECKING:
    from goqueue.client.queues import SettledMessage, Settling
    from goqueue.errors import GoQueueError

app = typer.Typer(no_args_is_help=True, help="Receive and settle messages of queue groups, and look after them.")

TopicsArgument = Annotated[
    list[str], typer.Argument(metavar="TOPIC...", help="The topics to receive from.", autocompletion=complete_topic)
]
ReceiptsArgument = Annotated[
    list[str], typer.Argument(metavar="RECEIPT...", help="Receipts as `receive` prints them; - reads lines of them.")
]
ReasonOption = Annotated[str, typer.Option(help="Why, for those who look at dead letters.")]
MostOption = Annotated[int, typer.Option("--max", min=1, max=10_000, help="How many messages at most.")]


@app.command()
def receive(
    group: QueueArgument,
    topics: TopicsArgument,
    *,
    most: MostOption = 10,
    wait: Annotated[
        str, typer.Option(metavar="DURATION", help="How long to wait for the first one, up to 60s.")
    ] = "0s",
    visibility: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="How long to have them, up to 12h; otherwise as the group says."),
    ] = None,
    consumer: Annotated[
        str, typer.Option(help="Who receives; each may hold so many at once. A name of its own, if none is given.")
    ] = "",
    acks: Annotated[bool, typer.Option("--ack", help="Say at once that they are done.")] = False,
    server: ServerOption = DEFAULT_SERVER,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Lease messages for a while, and print them with their receipts; the first receive makes the group.

    Whatever is not settled before its time is up is delivered again.

    Example: [bold]goqueue queue receive billing orders --max 1 --wait 30s[/bold]

    Example: [bold]goqueue queue receive billing orders --format json | jq -r .receipt_handle[/bold]
    """
    from goqueue.cli.queues import output as queue_output
    from goqueue.cli.queues import words as queue_words
    from goqueue.client import queues

    visibility_s = None
    if visibility is not None:
        visibility_s = queue_words.parse_duration_s(visibility, "--visibility", queue_words.VISIBILITY_MAX)
    call = queues.receive(
        group,
        queue_words.check_topics(topics),
        limit=most,
        wait_s=queue_words.parse_duration_s(wait, "--wait", queue_words.WAIT_MAX),
        visibility_s=visibility_s,
        consumer=queue_words.check_consumer(consumer) or queue_words.own_name(),
    )
    with connected(server) as client:
        received = client.send(call)
        queue_output.show_received(received, output_format)
        if acks and received.messages:
            queues.require_settled(client.send(queues.ack(*received.messages)))


@app.command()
def ack(
    receipts: ReceiptsArgument, *, server: ServerOption = DEFAULT_SERVER, output_format: FormatOption = Format.TABLE
) -> None:
    """Say that messages are done: they never come again.

    Example: [bold]goqueue queue ack GqQrqFMgnFoAAAAAAAAAAAAAAAAAAQAAZwBvcmRlcnM=[/bold]
    """
    from goqueue.client import queues

    _settle(receipts, queues.ack, server, output_format)


@app.command()
def nack(
    receipts: ReceiptsArgument,
    *,
    delay: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="When to try again, up to 7d; otherwise after the group's backoff."),
    ] = None,
    reason: ReasonOption = "",
    server: ServerOption = DEFAULT_SERVER,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Say that messages failed, and are to be tried again.

    Example: [bold]goqueue queue nack RECEIPT --delay 1m --reason 'the bank does not answer'[/bold]
    """
    from goqueue.cli.queues import words as queue_words
    from goqueue.client import queues

    delay_s = None if delay is None else queue_words.parse_duration_s(delay, "--delay", queue_words.DELAY_MAX)
    said = partial(queues.nack, delay_s=delay_s, reason=queue_words.check_reason(reason))
    _settle(receipts, said, server, output_format)


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
    from goqueue.cli.queues import words as queue_words
    from goqueue.client import queues

    said = partial(queues.reject, reason=queue_words.check_reason(reason))
    _settle(receipts, said, server, output_format)


@app.command()
def extend(
    receipts: ReceiptsArgument,
    *,
    timeout: Annotated[
        str, typer.Option("--for", metavar="DURATION", help="How long from now on, up to 12h; 0s gives them back.")
    ],
    server: ServerOption = DEFAULT_SERVER,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Keep messages for longer.

    Example: [bold]goqueue queue extend RECEIPT --for 5m[/bold]
    """
    from goqueue.cli.queues import words as queue_words
    from goqueue.client import queues

    timeout_s = queue_words.parse_duration_s(timeout, "--for", queue_words.VISIBILITY_MAX)
    _settle(receipts, partial(queues.extend, timeout_s=timeout_s), server, output_format)


@app.command("list")
def list_queues(*, server: ServerOption = DEFAULT_SERVER, output_format: FormatOption = Format.TABLE) -> None:
    """List all queue groups: how much is in them, and how old the oldest message is.

    Example: [bold]goqueue queue list[/bold]
    """
    from goqueue.cli.queues import output as queue_output
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
    from goqueue.cli.queues import output as queue_output
    from goqueue.client import queues

    with connected(server) as client:
        found = client.send(queues.describe(group))
    queue_output.show_queue(found, output_format)


@app.command()
def alter(
    group: QueueArgument,
    *,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting, as listed above; repeatable.")
    ] = None,
    unset: Annotated[
        list[str] | None, typer.Option("--unset", metavar="NAME", help="Go back to the default; repeatable.")
    ] = None,
    server: ServerOption = DEFAULT_SERVER,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Change settings of a queue group, which is made if there is none.

    \b
    visibility_timeout  how long a lease lasts, if a receive does not say [dim](30s)[/dim]
    retries             how often a message is tried again [dim](3)[/dim]
    backoff             how long it waits after the first failure [dim](1s)[/dim]
    backoff_factor      how much longer after each further one [dim](2)[/dim]
    backoff_max         the longest wait [dim](60s)[/dim]
    in_flight_max       how many messages a consumer may hold [dim](1000)[/dim]
    ordering            none, or key: one after another of each key [dim](none)[/dim]
    start               where a topic begins: earliest, latest, a time, '10m ago' [dim](earliest)[/dim]
    dead_letters        the topic for dead letters [dim](TOPIC.dlq)[/dim]
    breaker_ratio       the share of dead letters above which it pauses [dim](0.5)[/dim]

    Example: [bold]goqueue queue alter billing --set retries=5 --set visibility_timeout=2m[/bold]
    """
    from goqueue.cli.queues import output as queue_output
    from goqueue.cli.queues import words as queue_words
    from goqueue.client import queues

    wanted = queue_words.parse_changes(settings or [], unset or [])
    if not wanted:
        raise typer.BadParameter("name what is to change: --set or --unset")
    with connected(server) as client:
        found = client.send(queues.alter(group, **wanted))
    queue_output.show_queue(found, output_format)


@app.command()
def peek(
    group: QueueArgument,
    topic: TopicArgument,
    *,
    most: MostOption = 10,
    server: ServerOption = DEFAULT_SERVER,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Show what the next receives would bring, and lease nothing.

    Example: [bold]goqueue queue peek billing orders[/bold]
    """
    from goqueue.cli.queues import output as queue_output
    from goqueue.cli.queues import words as queue_words
    from goqueue.client import queues

    (topic,) = queue_words.check_topics([topic])
    with connected(server) as client:
        found = client.send(queues.peek(group, topic, limit=most))
    queue_output.show_messages(found, output_format)


@app.command()
def pause(
    group: QueueArgument,
    *,
    reason: Annotated[str, typer.Option(help="Why, for those who receive nothing.")] = "paused by hand",
    server: ServerOption = DEFAULT_SERVER,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Deliver nothing to a group until it is resumed; what is leased can still be settled.

    Example: [bold]goqueue queue pause billing --reason 'the database moves'[/bold]
    """
    from goqueue.cli.queues import output as queue_output
    from goqueue.cli.queues import words as queue_words
    from goqueue.client import queues

    call = queues.pause(group, queue_words.check_pause_reason(reason))
    with connected(server) as client:
        found = client.send(call)
    queue_output.show_changed(found, f"paused {group}: {reason}", output_format)


@app.command()
def resume(
    group: QueueArgument, *, server: ServerOption = DEFAULT_SERVER, output_format: FormatOption = Format.TABLE
) -> None:
    """Deliver to a group again, which was paused or has paused itself.

    Example: [bold]goqueue queue resume billing[/bold]
    """
    from goqueue.cli.queues import output as queue_output
    from goqueue.client import queues

    with connected(server) as client:
        found = client.send(queues.resume(group))
    done = f"resumed {group}, with {queue_output.messages_text(found.depth)} to be done"
    queue_output.show_changed(found, done, output_format)


app.command()(seek)


@app.command()
def purge(
    group: QueueArgument,
    topic: TopicArgument,
    *,
    yes: YesOption = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would be skipped.")] = False,
    server: ServerOption = DEFAULT_SERVER,
) -> None:
    """Have everything done for a group that is in a topic now; you are asked to type its name.

    The messages stay in the topic, and other groups notice nothing.

    Example: [bold]goqueue queue purge billing orders --dry-run[/bold]
    """
    from goqueue.cli.queues import output as queue_output
    from goqueue.cli.queues import words as queue_words
    from goqueue.client import queues

    (topic,) = queue_words.check_topics([topic])
    with connected(server) as client:
        found = client.send(queues.describe(group))
        what = f"{queue_output.messages_text(queue_output.open_in(found, topic))} of {topic} for {group}"
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


def _settle(receipts: Sequence[str], said: Callable[..., Settling], server: str, output_format: Format) -> None:
    """Say something about messages, however many, and print what became of each."""
    from goqueue.cli.queues import output as queue_output
    from goqueue.cli.queues import words as queue_words

    given = queue_words.given_receipts(receipts)
    results: list[SettledMessage | GoQueueError] = []
    with connected(server) as client:
        for start in range(0, len(given), queue_words.MESSAGES_MAX):
            results += client.send(said(*given[start : start + queue_words.MESSAGES_MAX]))
    queue_output.show_settled(given, results, output_format)
    queue_output.require_settled(given, results)
