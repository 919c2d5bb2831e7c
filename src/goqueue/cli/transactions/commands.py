"""`goqueue txn`: list and describe transactions of a running broker, and abort those that hang."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.cli.connection import DEFAULT_SERVER, ServerOption, TransactionArgument, complete_transaction, connected
from goqueue.cli.terminal.confirm import require_typed
from goqueue.cli.terminal.output import Format, FormatOption
from goqueue.errors import InvalidTransactionState

if TYPE_CHECKING:
    from goqueue.client import Client

app = typer.Typer(no_args_is_help=True, help="List, describe and abort transactions.")


class State(StrEnum):
    """The states of transactions, as the broker writes them."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"


@app.command("list")
def list_transactions(
    *,
    state: Annotated[State | None, typer.Option(case_sensitive=False, help="Only those in a state.")] = None,
    producer_id: Annotated[int | None, typer.Option(min=0, help="Only that of a producer.")] = None,
    server: ServerOption = DEFAULT_SERVER,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """List transactional ids: in which state each is, and for how long its transaction has been open.

    Example: [bold]goqueue txn list --state Ongoing[/bold]

    Example: [bold]goqueue txn list --format json | jq -r .transactional_id[/bold]
    """
    from goqueue.cli.transactions import output as txn_output
    from goqueue.client import server as server_calls
    from goqueue.client import transactions

    with connected(server) as client:
        found = client.send(transactions.list_all(state=state and state.value, producer_id=producer_id))
        # The age of a transaction is by the clock that stamped its beginning.
        now = client.send(server_calls.greet()).time
    txn_output.show_list(found, now, output_format)


@app.command()
def describe(
    transactional_id: TransactionArgument,
    *,
    server: ServerOption = DEFAULT_SERVER,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Describe a transactional id: who acts under it, and what belongs to the transaction under way.

    Example: [bold]goqueue txn describe billing-1[/bold]
    """
    from goqueue.cli.transactions import output as txn_output
    from goqueue.client import server as server_calls
    from goqueue.client import transactions

    with connected(server) as client:
        found = client.send(transactions.describe(transactional_id))
        now = client.send(server_calls.greet()).time
    txn_output.show_transaction(found, now, output_format)


@app.command()
def abort(
    transactional_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="The transactional id.", autocompletion=complete_transaction)
    ] = None,
    *,
    partition: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC:PARTITION", help="Instead of an id: what hangs in this partition, and nobody ends."
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="With --partition: though the log that may know of it cannot be used.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would happen.")] = False,
    server: ServerOption = DEFAULT_SERVER,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Abort the transaction under way over the head of its producer; you are asked to type its id.

    Readers of what is committed go on behind it, and never see what it has written. Its producer is fenced: it has to
    take the id anew. Transactions that take too long are aborted by the broker without being told.

    With --partition it aborts what no transactional id belongs to any more, because the log that knew of it was damaged
    or lost. If the end of such a transaction may be lost in damage, it may have been committed: then the broker leaves
    it open, and readers wait, until you abort it here. While a log of __transactions cannot be used, nobody knows whose
    it is, and it takes --force: whoever it belongs to may still commit it in other partitions.

    Example: [bold]goqueue txn abort billing-1 --dry-run[/bold]

    Example: [bold]goqueue txn abort billing-1 --yes[/bold]

    Example: [bold]goqueue txn abort --partition orders:0[/bold]
    """
    if (transactional_id is None) is (partition is None):
        raise typer.BadParameter("give a transactional id, or a partition", param_hint="ID, --partition")
    if force and partition is None:
        raise typer.BadParameter("what has an id is aborted by its coordinator", param_hint="--force")
    with connected(server) as client:
        if transactional_id is not None:
            _abort(client, transactional_id, output_format, is_asked=not yes, is_done=not dry_run)
        elif partition is not None:
            _abort_hanging(client, partition, output_format, is_forced=force, is_asked=not yes, is_done=not dry_run)


def _abort(client: Client, transactional_id: str, output_format: Format, *, is_asked: bool, is_done: bool) -> None:
    from goqueue.cli.transactions import output as txn_output
    from goqueue.client import transactions

    doomed = client.send(transactions.describe(transactional_id))
    if not doomed.is_under_way:
        raise InvalidTransactionState(
            f"no transaction of {transactional_id!r} is under way", hint=f"its state is {doomed.state}"
        )
    if is_done:
        if is_asked:
            typer.echo(
                f"This aborts the transaction of {transactional_id} with {txn_output.content_text(doomed)}.", err=True
            )
            require_typed(transactional_id, "the transactional id", "nothing was aborted")
        client.send(transactions.force_abort(transactional_id))
    txn_output.show_abort(doomed, output_format, is_done=is_done)


def _abort_hanging(
    client: Client, written: str, output_format: Format, *, is_forced: bool, is_asked: bool, is_done: bool
) -> None:
    from goqueue.cli.transactions import output as txn_output
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
            hint=f"open there, and to be aborted by their ids: {ids}" if ids else "",
        )
    if is_done:
        if is_asked:
            for each in doomed:
                typer.echo(f"This aborts {txn_output.hanging_text(each)}.", err=True)
            require_typed(written, "the partition", "nothing was aborted")
        for each in doomed:
            client.send(transactions.abort_hanging(topic, int(number), each.producer_id, is_forced=is_forced))
    txn_output.show_hanging(written, doomed, output_format, is_done=is_done)
