"""`goqueue txn`: list and describe transactions, and abort those that hang."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.cli.connection import DEFAULT_SERVER, ServerOption, TransactionArgument, complete_transaction, connected
from goqueue.cli.terminal.confirm import DryRunOption, YesOption, require_typed
from goqueue.cli.terminal.output import Format, FormatOption, Value, fields, show
from goqueue.cli.terminal.tables import Column, Table, clean, print_facts
from goqueue.cli.terminal.times import age_text, moment_text
from goqueue.errors import InvalidTransactionState
from goqueue.model.units import count_text

if TYPE_CHECKING:
    from goqueue.client import Client, GroupPartition, OpenTransaction, TransactionView

app = typer.Typer(no_args_is_help=True, help="List, describe and abort transactions.")


class StateChoice(StrEnum):
    """The state of a transaction, as the broker writes it."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"


def _row(found: TransactionView) -> dict[str, Value]:
    names = ("transactional_id", "state", "producer_id", "epoch", "timeout_ms", "time_left_ms")
    return fields(found, *names, "started_at", "updated_at", "partitions", "groups")


def _table(now: datetime | None) -> Table[TransactionView]:
    """Return the table of transactional ids; `now` is the broker's clock, which stamped their beginnings."""
    return Table(
        "transaction",
        Column("transactional id", lambda each: each.transactional_id),
        Column("state", lambda each: each.state),
        Column("open for", lambda each: _open_text(each, now), is_number=True),
        Column(
            "time left",
            lambda each: "" if each.time_left_ms is None else age_text(each.time_left_ms / 1000),
            is_number=True,
            spared=1,
        ),
        Column("partitions", lambda each: len(each.partitions) if each.is_under_way else "", is_number=True, spared=2),
        Column("groups", lambda each: len(each.groups) if each.is_under_way else "", is_number=True, spared=3),
        Column("producer id", lambda each: str(each.producer_id), is_number=True, spared=4),
        Column("epoch", lambda each: str(each.epoch), is_number=True, spared=5),
        row=_row,
    )


_PARTITIONS: Table[GroupPartition] = Table(
    "partition",
    Column("topic", lambda each: each.topic),
    Column("partition", lambda each: str(each.partition), is_number=True),
)


@app.command("list")
def list_transactions(
    *,
    state: Annotated[
        StateChoice | None, typer.Option(case_sensitive=False, help="Only transactional ids in this state.")
    ] = None,
    producer_id: Annotated[int | None, typer.Option(min=0, help="Only the transactional id of this producer.")] = None,
    server: ServerOption = DEFAULT_SERVER,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """List transactional ids, their states, and how long their transactions have been open.

    Example: [bold]goqueue txn list --state Ongoing[/bold]

    Example: [bold]goqueue txn list --format json | jq -r .transactional_id[/bold]
    """
    from goqueue.client import server as server_calls
    from goqueue.client import transactions

    with connected(server) as client:
        found = client.send(transactions.list_all(state=state and state.value, producer_id=producer_id))
        now = client.send(server_calls.greet()).time
    _table(now).show(found, output_format)
    if not found and output_format is Format.TABLE:
        typer.echo("no transactional ids, or none that match", err=True)


@app.command()
def describe(
    transactional_id: TransactionArgument,
    *,
    server: ServerOption = DEFAULT_SERVER,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Describe a transactional id: its producer, and the partitions and groups of its open transaction.

    Example: [bold]goqueue txn describe billing-1[/bold]
    """
    from goqueue.client import server as server_calls
    from goqueue.client import transactions

    with connected(server) as client:
        found = client.send(transactions.describe(transactional_id))
        now = client.send(server_calls.greet()).time
    if output_format is not Format.TABLE:
        show("transaction", [_row(found)], output_format)
        return
    print_facts(_facts(found, now), title=f"transactional id {found.transactional_id}")
    if found.partitions:
        typer.echo()
        _PARTITIONS.print(found.partitions)


@app.command()
def abort(
    transactional_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="The transactional id.", autocompletion=complete_transaction)
    ] = None,
    *,
    partition: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC:PARTITION", help="Instead of an id: abort transactions of this partition that have no id."
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="With --partition: abort even while logs of __transactions are unusable.")
    ] = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    server: ServerOption = DEFAULT_SERVER,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Abort an open transaction. Asks you to type its id.

    Read-committed consumers continue after it, and never see its messages.
    Its producer is fenced, and has to initialise the id again. The broker
    aborts transactions by itself when their timeout ends.

    --partition aborts transactions that no transactional id belongs to,
    because the log that knew it was damaged or lost. If the end of such a
    transaction may be lost in damage, it may have been committed: the broker
    leaves it open, and consumers wait, until you abort it here. While a log
    of __transactions is unusable, the transaction may belong to a producer
    that still commits it in other partitions; --force aborts it anyway.

    Example: [bold]goqueue txn abort billing-1 --dry-run[/bold]

    Example: [bold]goqueue txn abort billing-1 --yes[/bold]

    Example: [bold]goqueue txn abort --partition orders:0[/bold]
    """
    if (transactional_id is None) is (partition is None):
        raise typer.BadParameter("give either a transactional id or a partition", param_hint="ID, --partition")
    if force and partition is None:
        raise typer.BadParameter("needs --partition", param_hint="--force")
    with connected(server) as client:
        if transactional_id is not None:
            _abort(client, transactional_id, output_format, is_asked=not yes, is_done=not dry_run)
        elif partition is not None:
            _abort_hanging(client, partition, output_format, is_forced=force, is_asked=not yes, is_done=not dry_run)


def _abort(client: Client, transactional_id: str, output_format: Format, *, is_asked: bool, is_done: bool) -> None:
    from goqueue.client import transactions

    doomed = client.send(transactions.describe(transactional_id))
    if not doomed.is_under_way:
        raise InvalidTransactionState(
            f"{transactional_id!r} has no open transaction", hint=f"its state is {doomed.state}"
        )
    if is_done:
        if is_asked:
            typer.echo(
                f"This aborts the transaction of {clean(transactional_id)} with {_content_text(doomed)}.", err=True
            )
            require_typed(transactional_id, "the transactional id", "nothing was aborted")
        client.send(transactions.force_abort(transactional_id))
    if output_format is Format.TABLE:
        verb = "aborted" if is_done else "would abort"
        typer.echo(f"{verb} the transaction of {clean(doomed.transactional_id)} with {_content_text(doomed)}")
        return
    show("abort", [{**_row(doomed), "is_done": is_done}], output_format)


def _abort_hanging(
    client: Client, written: str, output_format: Format, *, is_forced: bool, is_asked: bool, is_done: bool
) -> None:
    from goqueue.client import transactions

    topic, _, number = written.rpartition(":")
    if not topic or not (number.isascii() and number.isdigit()):
        raise typer.BadParameter(f"{written!r} is not TOPIC:PARTITION", param_hint="--partition")
    found = client.send(transactions.list_open(topic, int(number)))
    doomed = [each for each in found if each.transactional_id is None]
    if not doomed:
        ids = ", ".join(str(each.transactional_id) for each in found)
        raise InvalidTransactionState(
            f"no transaction hangs in {written}",
            hint=f"abort the open ones by their ids: {ids}" if ids else "",
        )
    if is_done:
        if is_asked:
            for each in doomed:
                typer.echo(f"This aborts {_hanging_text(each)}.", err=True)
            require_typed(written, "the partition", "nothing was aborted")
        for each in doomed:
            client.send(transactions.abort_hanging(topic, int(number), each.producer_id, is_forced=is_forced))
    _show_hanging(topic, int(number), doomed, output_format, is_done=is_done)


def _show_hanging(
    topic: str, partition: int, doomed: Sequence[OpenTransaction], output_format: Format, *, is_done: bool
) -> None:
    if output_format is Format.TABLE:
        verb = "aborted" if is_done else "would abort"
        for each in doomed:
            typer.echo(f"{verb} in {topic}:{partition} {_hanging_text(each)}")
        return
    names = ("producer_id", "epoch", "first_offset", "may_be_committed")
    rows = [{"topic": topic, "partition": partition, **fields(each, *names), "is_done": is_done} for each in doomed]
    show("abort", rows, output_format)


def _facts(found: TransactionView, now: datetime | None) -> list[tuple[str, str]]:
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
    return facts


def _hanging_text(found: OpenTransaction) -> str:
    doubt = ", which may have been committed: its end may be lost in damage" if found.may_be_committed else ""
    return f"the messages of producer {found.producer_id} from offset {found.first_offset} on{doubt}"


def _content_text(found: TransactionView) -> str:
    parts = count_text(len(found.partitions), "partition")
    return f"{parts} and offsets of {', '.join(found.groups)}" if found.groups else parts


def _open_text(found: TransactionView, now: datetime | None) -> str:
    """Return how long a transaction has been open; empty if it is not, or the broker's time is unknown."""
    if found.started_at is None or now is None:
        return ""
    return age_text(max((now - datetime.fromisoformat(found.started_at)).total_seconds(), 0))
