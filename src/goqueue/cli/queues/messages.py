"""`goqueue queue receive`, `ack`, `nack`, `reject`, `extend` and `peek`: the messages of a queue group."""

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
from goqueue.cli.terminal.output import Format, FormatOption, Value, fields, show
from goqueue.cli.terminal.tables import Column, Table, clean, data_text
from goqueue.cli.terminal.times import time_text
from goqueue.errors import GoQueueError
from goqueue.model.units import count_text

if TYPE_CHECKING:
    from goqueue.client import Message, QueueMessage, SettledMessage
    from goqueue.client.queues import Settling

# Enough to tell messages of one partition apart.
_RECEIPT_CHARS_MAX = 40

TopicsArgument = Annotated[
    list[str], typer.Argument(metavar="TOPIC...", help="The topics to receive from.", autocompletion=complete_topic)
]
ReceiptsArgument = Annotated[
    list[str], typer.Argument(metavar="RECEIPT...", help="Receipts that `receive` printed; - reads them from stdin.")
]
ReasonOption = Annotated[str, typer.Option(help="Why processing failed; stored in the dead letter.")]
MostOption = Annotated[int, typer.Option("--max", min=1, max=10_000, help="Maximum number of messages.")]


def _received_row(received: QueueMessage) -> dict[str, Value]:
    from goqueue.client.messages import as_json

    return {
        "receipt_handle": received.receipt_handle,
        "delivery_count": received.delivery_count,
        "deadline": received.deadline,
        **fields(as_json(received.message)),
    }


def _message_row(message: Message) -> dict[str, Value]:
    from goqueue.client.messages import as_json

    return fields(as_json(message))


_RECEIVED: Table[QueueMessage] = Table(
    "message",
    Column("receipt", lambda each: each.receipt_handle),
    Column("delivery", lambda each: str(each.delivery_count), is_number=True),
    Column("until", lambda each: time_text(each.deadline), spared=2),
    Column("partition", lambda each: f"{each.message.topic}-{each.message.partition}", spared=3),
    Column("offset", lambda each: str(each.message.offset), is_number=True, spared=4),
    Column("key", lambda each: data_text(each.message.key), spared=5),
    Column("value", lambda each: data_text(each.message.value)),
    row=_received_row,
)
_MESSAGES: Table[Message] = Table(
    "message",
    Column("partition", lambda each: f"{each.topic}-{each.partition}"),
    Column("offset", lambda each: str(each.offset), is_number=True),
    Column("time", lambda each: time_text(each.timestamp), spared=1),
    Column("key", lambda each: data_text(each.key)),
    Column("value", lambda each: data_text(each.value)),
    row=_message_row,
)


def receive(
    group: QueueArgument,
    topics: TopicsArgument,
    *,
    most: MostOption = 10,
    wait: Annotated[
        str, typer.Option(metavar="DURATION", help="How long to wait for the first message, up to 60s.")
    ] = "0s",
    visibility: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION", help="How long the leases last, up to 12h; otherwise the group's visibility_timeout."
        ),
    ] = None,
    consumer: Annotated[
        str, typer.Option(help="Consumer name; in_flight_max applies per name. Otherwise cli-HOST-PID.")
    ] = "",
    acks: Annotated[bool, typer.Option("--ack", help="Acknowledge the messages after they are printed.")] = False,
    server: ServerOption = DEFAULT_SERVER,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Lease messages, and print them with their receipts. The first receive creates the group.

    A message that is not settled before its lease ends is delivered again.

    Example: [bold]goqueue queue receive billing orders --max 1 --wait 30s[/bold]

    Example: [bold]goqueue queue receive billing orders --format json | jq -r .receipt_handle[/bold]
    """
    from goqueue.cli.queues import arguments
    from goqueue.client import queues

    visibility_s = None
    if visibility is not None:
        visibility_s = arguments.parse_duration_s(visibility, "--visibility", arguments.VISIBILITY_MAX)
    call = queues.receive(
        group,
        arguments.check_topics(topics),
        limit=most,
        wait_s=arguments.parse_duration_s(wait, "--wait", arguments.WAIT_MAX),
        visibility_s=visibility_s,
        consumer=arguments.check_consumer(consumer) or arguments.own_name(),
    )
    with connected(server) as client:
        received = client.send(call)
        _RECEIVED.show(received.messages, output_format)
        if received.shortfall:
            typer.echo(clean(received.shortfall), err=True)
        elif not received.messages:
            typer.echo("no messages are available", err=True)
        if acks and received.messages:
            queues.require_settled(client.send(queues.ack(*received.messages)))


def ack(
    receipts: ReceiptsArgument, *, server: ServerOption = DEFAULT_SERVER, output_format: FormatOption = Format.TABLE
) -> None:
    """Acknowledge messages: the group never receives them again.

    Example: [bold]goqueue queue ack GqQrqFMgnFoAAAAAAAAAAAAAAAAAAQAAZwBvcmRlcnM=[/bold]
    """
    from goqueue.client import queues

    _settle(receipts, queues.ack, server, output_format)


def nack(
    receipts: ReceiptsArgument,
    *,
    delay: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Retry after this time, up to 7d; otherwise after the group's backoff."),
    ] = None,
    reason: ReasonOption = "",
    server: ServerOption = DEFAULT_SERVER,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Report that processing failed; messages are retried after a delay.

    Example: [bold]goqueue queue nack RECEIPT --delay 1m --reason 'the bank does not answer'[/bold]
    """
    from goqueue.cli.queues import arguments
    from goqueue.client import queues

    delay_s = None if delay is None else arguments.parse_duration_s(delay, "--delay", arguments.DELAY_MAX)
    settling = partial(queues.nack, delay_s=delay_s, reason=arguments.check_reason(reason))
    _settle(receipts, settling, server, output_format)


def reject(
    receipts: ReceiptsArgument,
    *,
    reason: ReasonOption = "",
    server: ServerOption = DEFAULT_SERVER,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Reject messages that can never be processed; they become dead letters.

    Example: [bold]goqueue queue reject RECEIPT --reason 'no such customer'[/bold]
    """
    from goqueue.cli.queues import arguments
    from goqueue.client import queues

    settling = partial(queues.reject, reason=arguments.check_reason(reason))
    _settle(receipts, settling, server, output_format)


def extend(
    receipts: ReceiptsArgument,
    *,
    timeout: Annotated[
        str,
        typer.Option("--for", metavar="DURATION", help="New lease duration from now, up to 12h; 0s ends the leases."),
    ],
    server: ServerOption = DEFAULT_SERVER,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Extend leases.

    Example: [bold]goqueue queue extend RECEIPT --for 5m[/bold]
    """
    from goqueue.cli.queues import arguments
    from goqueue.client import queues

    timeout_s = arguments.parse_duration_s(timeout, "--for", arguments.VISIBILITY_MAX)
    _settle(receipts, partial(queues.extend, timeout_s=timeout_s), server, output_format)


def peek(
    group: QueueArgument,
    topic: TopicArgument,
    *,
    most: MostOption = 10,
    server: ServerOption = DEFAULT_SERVER,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Show the messages that the next receives would return, without leasing them.

    Example: [bold]goqueue queue peek billing orders[/bold]
    """
    from goqueue.cli.queues import arguments
    from goqueue.client import queues

    (topic,) = arguments.check_topics([topic])
    with connected(server) as client:
        found = client.send(queues.peek(group, topic, limit=most))
    _MESSAGES.show(found, output_format)


def _settle(receipts: Sequence[str], settling: Callable[..., Settling], server: str, output_format: Format) -> None:
    """Settle messages in requests of limited size, and print the result of each."""
    from goqueue.cli.queues import arguments

    given = arguments.given_receipts(receipts)
    results: list[SettledMessage | GoQueueError] = []
    with connected(server) as client:
        for start in range(0, len(given), arguments.MESSAGES_MAX):
            results += client.send(settling(*given[start : start + arguments.MESSAGES_MAX]))
    if output_format is Format.TABLE:
        done = [each for each in results if not isinstance(each, GoQueueError)]
        for status in dict.fromkeys(each.status for each in done):
            count = sum(each.status == status for each in done)
            typer.echo(f"{count_text(count, 'message')} {'is' if count == 1 else 'are'} {status}")
    else:
        show("settled", [_settled_row(*each) for each in zip(given, results, strict=True)], output_format)
    _require_settled(given, results)


def _settled_row(receipt: str, result: SettledMessage | GoQueueError) -> dict[str, Value]:
    if isinstance(result, GoQueueError):
        return {"receipt_handle": receipt, "status": "error", "code": result.code, "error": result.message}
    return {"receipt_handle": receipt, "status": result.status, "until": result.until}


def _require_settled(given: Sequence[str], results: Sequence[SettledMessage | GoQueueError]) -> None:
    """Raise the error of the first refused receipt, and name the receipt."""
    pairs = zip(given, results, strict=True)
    refused = [(receipt, result) for receipt, result in pairs if isinstance(result, GoQueueError)]
    if refused:
        receipt, error = refused[0]
        others = f" (and {len(refused) - 1:,} more)" if len(refused) > 1 else ""
        raise type(error)(f"receipt {_shortened(receipt)}: {error.message}{others}", hint=error.hint)


def _shortened(receipt: str) -> str:
    # Receipts of one topic end alike.
    return clean(receipt if len(receipt) <= _RECEIPT_CHARS_MAX else receipt[: _RECEIPT_CHARS_MAX - 3] + "...")
