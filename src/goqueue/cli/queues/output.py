"""What `goqueue queue` prints: rows for programs, tables for people."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import typer

from goqueue.cli.groups.words import age_text
from goqueue.cli.terminal.output import Format, Value, show
from goqueue.cli.terminal.tables import Column, Row, clean, count_text, print_facts, print_table, time_text
from goqueue.client import Message, Queue, QueueMember, QueueMessage, QueueMove, Received, SettledMessage
from goqueue.client.messages import as_json
from goqueue.errors import GoQueueError

_VALUE_CHARS_MAX = 60
# Enough to tell messages of one partition apart.
_RECEIPT_CHARS_MAX = 40
_RECEIVED = (
    Column("receipt"),
    Column("delivery", is_number=True),
    Column("until", spared=2),
    Column("partition", spared=3),
    Column("offset", is_number=True, spared=4),
    Column("key", spared=5),
    Column("value"),
)
_MESSAGES = (
    Column("partition"),
    Column("offset", is_number=True),
    Column("time", spared=1),
    Column("key"),
    Column("value"),
)
_LIST = (
    Column("group"),
    Column("depth", is_number=True),
    Column("in flight", is_number=True),
    Column("oldest", is_number=True),
    Column("consumers", is_number=True, spared=1),
    Column("paused"),
)
_PARTITIONS = (
    Column("partition"),
    Column("new", is_number=True),
    Column("leased", is_number=True),
    Column("waiting", is_number=True),
    Column("ready", is_number=True),
    Column("held", is_number=True),
    Column("dead", is_number=True),
    Column("oldest", is_number=True, spared=1),
    Column("floor", is_number=True, spared=2),
    Column("cursor", is_number=True, spared=3),
)
_MOVES = (
    Column("partition"),
    Column("now", is_number=True),
    Column("then", is_number=True),
    Column("skipped", is_number=True),
    Column("again", is_number=True),
    Column("in flight", is_number=True),
)


def show_received(received: Received, output_format: Format) -> None:
    """Print messages with their receipts; why there are not more goes to standard error."""
    if output_format is Format.TABLE:
        print_table(_RECEIVED, [Row(_received_cells(each)) for each in received.messages])
    else:
        show("message", [_received_row(each) for each in received.messages], output_format)
    if received.shortfall:
        typer.echo(clean(received.shortfall), err=True)
    elif not received.messages:
        typer.echo("there is nothing to receive now", err=True)


def show_messages(messages: Sequence[Message], output_format: Format) -> None:
    """Print messages that nobody has."""
    if output_format is not Format.TABLE:
        show("message", [_plain(as_json(each)) for each in messages], output_format)
        return
    rows = [
        Row(
            [
                f"{each.topic}-{each.partition}",
                str(each.offset),
                time_text(each.timestamp),
                _text(each.key),
                _text(each.value),
            ]
        )
        for each in messages
    ]
    print_table(_MESSAGES, rows)


def show_settled(given: Sequence[str], results: Sequence[SettledMessage | GoQueueError], output_format: Format) -> None:
    """Print what became of each message."""
    if output_format is not Format.TABLE:
        show("settled", [_settled_row(*each) for each in zip(given, results, strict=True)], output_format)
        return
    done = [each for each in results if isinstance(each, SettledMessage)]
    for status in dict.fromkeys(each.status for each in done):
        count = sum(each.status == status for each in done)
        typer.echo(f"{count_text(count, 'message')} {'is' if count == 1 else 'are'} {status}")


def require_settled(given: Sequence[str], results: Sequence[SettledMessage | GoQueueError]) -> None:
    """Raise why the first receipt was refused, if any was, and which one that is."""
    pairs = zip(given, results, strict=True)
    refused = [(receipt, result) for receipt, result in pairs if isinstance(result, GoQueueError)]
    if refused:
        receipt, error = refused[0]
        others = f" (and {len(refused) - 1:,} more)" if len(refused) > 1 else ""
        raise type(error)(f"receipt {_shortened(receipt)}: {error.message}{others}", hint=error.hint)


def _shortened(receipt: str) -> str:
    # The end is the same for all messages of a topic.
    return clean(receipt if len(receipt) <= _RECEIPT_CHARS_MAX else receipt[: _RECEIPT_CHARS_MAX - 3] + "...")


def show_list(found: Sequence[Queue], output_format: Format) -> None:
    """Print queue groups."""
    if output_format is not Format.TABLE:
        show("queue", [_queue_row(each) for each in found], output_format)
        return
    rows = [
        Row(
            [
                each.group,
                count_text(each.depth),
                count_text(each.in_flight),
                _age(each.oldest_seconds),
                str(len({*each.consumers, *(member.member_id for member in each.members)})),
                each.pause_reason or "-",
            ]
        )
        for each in found
    ]
    print_table(_LIST, rows)
    if not found:
        typer.echo("there are no queue groups; the first receive makes one", err=True)


def show_queue(found: Queue, output_format: Format) -> None:
    """Print all that is known of a queue group."""
    if output_format is not Format.TABLE:
        show("queue", [_queue_row(found)], output_format)
        return
    strangers = found.consumers.keys() - {each.member_id for each in found.members}
    facts = [
        ("state", f"paused: {found.pause_reason}" if found.paused else "delivering"),
        ("depth", count_text(found.depth, "message")),
        ("in flight", count_text(found.in_flight, "message")),
        ("oldest", _age(found.oldest_seconds)),
        *((f"held by {name}", count_text(found.consumers[name], "message")) for name in sorted(strangers)),
        *((f"member {each.client_id or each.member_id}", _member_text(each)) for each in found.members),
        *((name, _setting_text(name, value)) for name, value in found.settings.items()),
    ]
    print_facts(facts, title=f"queue group {found.group}")
    typer.echo()
    rows = [
        Row(
            [
                f"{each.topic}-{each.partition}",
                *(count_text(number) for number in (each.backlog, each.leased, each.waiting, each.ready, each.held)),
                count_text(each.dead),
                _age(each.oldest_seconds),
                str(each.floor),
                str(each.cursor),
            ]
        )
        for each in found.partitions
    ]
    print_table(_PARTITIONS, rows)
    for each in found.partitions:
        if each.dead_letter_trouble:
            waiting = f"{count_text(each.dead, 'dead message')} of {each.topic}-{each.partition}"
            typer.echo(f"{waiting} cannot become dead letters now: {clean(each.dead_letter_trouble)}")


def show_changed(found: Queue, done: str, output_format: Format) -> None:
    """Print what was done to a queue group: in a sentence, or the group as it is now."""
    if output_format is Format.TABLE:
        typer.echo(clean(done))
    else:
        show_queue(found, output_format)


def messages_text(count: int) -> str:
    """Return so many messages in words."""
    return count_text(count, "message")


def open_in(found: Queue, topic: str) -> int:
    """Return how many messages of a topic are not done."""
    return sum(
        each.backlog + each.leased + each.waiting + each.ready + each.held + each.dead
        for each in found.partitions
        if each.topic == topic
    )


def _setting_text(name: str, value: float | str) -> str:
    if name == "start" and isinstance(value, int):
        return time_text(value)
    if name == "dead_letters" and not value:
        return "{topic}.dlq"
    return str(value)


def _member_text(member: QueueMember) -> str:
    place = f" on {member.host}" if member.host else ""
    return f"{count_text(member.in_flight, 'message')} of {', '.join(member.topics)} ({member.member_id}{place})"


def show_plan(group: str, topic: str, moves: Sequence[QueueMove]) -> None:
    """Tell whoever is about to move a group what that means."""
    typer.echo(f"This moves {clean(group)} in {topic}, and forgets what is in flight there:\n", err=True)
    print_table(_MOVES, [Row(_move_cells(each)) for each in moves], is_aside=True)
    typer.echo(err=True)


def show_moves(group: str, moves: Sequence[QueueMove], output_format: Format, *, is_done: bool) -> None:
    """Print how a group was moved, or would be."""
    if output_format is not Format.TABLE:
        show("move", [{"group": group, **_plain(each), "is_done": is_done} for each in moves], output_format)
        return
    typer.echo(f"{'moved' if is_done else 'would move'} {clean(group)} in {count_text(len(moves), 'partition')}\n")
    print_table(_MOVES, [Row(_move_cells(each)) for each in moves])


def _move_cells(move: QueueMove) -> list[str]:
    now = "-" if move.cursor is None else count_text(move.cursor)
    numbers = (move.offset, move.skipped, move.again, move.in_flight)
    return [f"{move.topic}-{move.partition}", now, *map(count_text, numbers)]


def _received_cells(received: QueueMessage) -> list[str]:
    message = received.message
    return [
        received.receipt_handle,
        str(received.delivery_count),
        time_text(received.deadline),
        f"{message.topic}-{message.partition}",
        str(message.offset),
        _text(message.key),
        _text(message.value),
    ]


def _received_row(received: QueueMessage) -> dict[str, Value]:
    return {
        "receipt_handle": received.receipt_handle,
        "delivery_count": received.delivery_count,
        "deadline": received.deadline,
        **_plain(as_json(received.message)),
    }


def _settled_row(receipt: str, result: SettledMessage | GoQueueError) -> dict[str, Value]:
    if isinstance(result, GoQueueError):
        return {"receipt_handle": receipt, "status": "error", "code": result.code, "error": result.message}
    return {"receipt_handle": receipt, "status": result.status, "until": result.until}


def _queue_row(queue: Queue) -> dict[str, Value]:
    return _plain(msgspec.to_builtins(queue))


def _plain(fields: object) -> dict[str, Value]:
    plain: dict[str, Value] = msgspec.convert(msgspec.to_builtins(fields), dict)
    return plain


def _text(data: bytes | None) -> str:
    if data is None:
        return "-"
    text = clean(data.decode("utf-8", "replace"))
    return text if len(text) <= _VALUE_CHARS_MAX else text[: _VALUE_CHARS_MAX - 3] + "..."


def _age(seconds: float | None) -> str:
    return "-" if seconds is None else age_text(seconds)
