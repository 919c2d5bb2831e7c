"""What `goqueue txn` prints: rows for programs, tables and sentences for people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import typer

from goqueue.cli.groups.words import age_text, moment_text
from goqueue.cli.terminal.output import Format, Value, show
from goqueue.cli.terminal.tables import Column, Row, clean, count_text, print_facts, print_table
from goqueue.client import OpenTransaction, TransactionView

_LIST = (
    Column("transactional id"),
    Column("state"),
    Column("open for", is_number=True),
    Column("time left", is_number=True, spared=1),
    Column("partitions", is_number=True, spared=2),
    Column("groups", is_number=True, spared=3),
    Column("producer id", is_number=True, spared=4),
    Column("epoch", is_number=True, spared=5),
)
_PARTITIONS = (Column("topic"), Column("partition", is_number=True))


def show_list(found: Sequence[TransactionView], now: datetime | None, output_format: Format) -> None:
    """Print transactional ids; `now` is the time of the broker's clock."""
    if output_format is not Format.TABLE:
        show("transaction", [_row(each) for each in found], output_format)
        return
    print_table(_LIST, [Row(_cells(each, now)) for each in found])
    if not found:
        typer.echo("there are no transactional ids, or none that you asked for", err=True)


def show_transaction(found: TransactionView, now: datetime | None, output_format: Format) -> None:
    """Print all that is known of a transactional id."""
    if output_format is not Format.TABLE:
        show("transaction", [_row(found)], output_format)
        return
    facts = [
        ("state", found.state),
        ("producer id", str(found.producer_id)),
        ("epoch", str(found.epoch)),
        ("timeout", age_text(found.timeout_ms / 1000)),
        ("last change", moment_text(found.updated_at)),
    ]
    if found.started_at is not None:
        facts.append(("began", f"{moment_text(found.started_at)}, {_open_text(found, now)} ago"))
        left = "none: its end is decided" if found.time_left_ms is None else age_text(found.time_left_ms / 1000)
        facts.append(("time left", left))
        facts.append(("groups", ", ".join(found.groups) or "none"))
    print_facts(facts, title=f"transactional id {found.transactional_id}")
    if found.partitions:
        typer.echo()
        print_table(_PARTITIONS, [Row([each.topic, str(each.partition)]) for each in found.partitions])


def show_abort(doomed: TransactionView, output_format: Format, *, is_done: bool) -> None:
    """Tell what was aborted, or would be."""
    if output_format is Format.TABLE:
        verb = "aborted" if is_done else "would abort"
        typer.echo(f"{verb} the transaction of {clean(doomed.transactional_id)} with {content_text(doomed)}")
        return
    show("abort", [{**_row(doomed), "is_done": is_done}], output_format)


def show_hanging(where: str, doomed: Sequence[OpenTransaction], output_format: Format, *, is_done: bool) -> None:
    """Tell what was aborted in a partition, or would be."""
    if output_format is Format.TABLE:
        verb = "aborted" if is_done else "would abort"
        for each in doomed:
            typer.echo(f"{verb} in {where} {hanging_text(each)}")
        return
    topic, _, partition = where.rpartition(":")
    rows: list[dict[str, Value]] = [
        {
            "topic": topic,
            "partition": int(partition),
            "producer_id": each.producer_id,
            "epoch": each.epoch,
            "first_offset": each.first_offset,
            "may_be_committed": each.may_be_committed,
            "is_done": is_done,
        }
        for each in doomed
    ]
    show("abort", rows, output_format)


def hanging_text(found: OpenTransaction) -> str:
    """Return what is known of a transaction that nobody will end, in words."""
    doubt = ", which may have been committed: its end may be lost in damage" if found.may_be_committed else ""
    return f"what producer {found.producer_id} has written from offset {found.first_offset} on{doubt}"


def content_text(found: TransactionView) -> str:
    """Return what belongs to the transaction under way, in words."""
    parts = count_text(len(found.partitions), "partition")
    return f"{parts} and offsets of {', '.join(found.groups)}" if found.groups else parts


def _row(found: TransactionView) -> dict[str, Value]:
    return {
        "transactional_id": found.transactional_id,
        "state": found.state,
        "producer_id": found.producer_id,
        "epoch": found.epoch,
        "timeout_ms": found.timeout_ms,
        "time_left_ms": found.time_left_ms,
        "started_at": found.started_at,
        "updated_at": found.updated_at,
        "partitions": [{"topic": each.topic, "partition": each.partition} for each in found.partitions],
        "groups": list(found.groups),
    }


def _cells(found: TransactionView, now: datetime | None) -> list[str]:
    left = "" if found.time_left_ms is None else age_text(found.time_left_ms / 1000)
    counts = [count_text(len(found.partitions)), count_text(len(found.groups))] if found.is_under_way else ["", ""]
    return [
        found.transactional_id,
        found.state,
        _open_text(found, now),
        left,
        *counts,
        str(found.producer_id),
        str(found.epoch),
    ]


def _open_text(found: TransactionView, now: datetime | None) -> str:
    """Return for how long a transaction has been open; nothing if that cannot be told."""
    if found.started_at is None or now is None:
        return ""
    return age_text(max((now - datetime.fromisoformat(found.started_at)).total_seconds(), 0))
