"""`goqueue txn`: list and describe transactions of a running broker, and abort those that hang."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.cli.connection import DEFAULT_SERVER, ServerOption, TransactionArgument, connected
from goqueue.cli.output import Format, FormatOption
from goqueue.errors import Conflict, InvalidTransactionState

if TYPE_CHECKING:
    from goqueue.client import TransactionView

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
    from goqueue.cli import txn_output
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
    from goqueue.cli import txn_output
    from goqueue.client import server as server_calls
    from goqueue.client import transactions

    with connected(server) as client:
        found = client.send(transactions.describe(transactional_id))
        now = client.send(server_calls.greet()).time
    txn_output.show_transaction(found, now, output_format)


@app.command()
def abort(
    transactional_id: TransactionArgument,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would happen.")] = False,
    server: ServerOption = DEFAULT_SERVER,
    output_format: FormatOption = Format.TABLE,
) -> None:
    """Abort the transaction under way over the head of its producer; you are asked to type its id.

    Readers of what is committed go on behind it, and never see what it has written. Its producer is fenced: it has to
    take the id anew. Transactions that take too long are aborted by the broker without being told.

    Example: [bold]goqueue txn abort billing-1 --dry-run[/bold]

    Example: [bold]goqueue txn abort billing-1 --yes[/bold]
    """
    from goqueue.cli import txn_output
    from goqueue.client import transactions

    with connected(server) as client:
        doomed = client.send(transactions.describe(transactional_id))
        if not doomed.is_under_way:
            raise InvalidTransactionState(
                f"no transaction of {transactional_id!r} is under way", hint=f"its state is {doomed.state}"
            )
        if not dry_run:
            if not yes:
                _confirm(doomed)
            client.send(transactions.force_abort(transactional_id))
    txn_output.show_abort(doomed, output_format, is_done=not dry_run)


def _confirm(doomed: TransactionView) -> None:
    from goqueue.cli.txn_output import content_text

    typer.echo(f"This aborts the transaction of {doomed.transactional_id} with {content_text(doomed)}.", err=True)
    # Not typer's prompt, which writes a space to standard output, where a program may read what is aborted.
    typer.echo("Type the transactional id to go on: ", nl=False, err=True)
    if sys.stdin.readline().strip() != doomed.transactional_id:
        raise Conflict("that is not the transactional id; nothing was aborted", hint="--yes does not ask")
