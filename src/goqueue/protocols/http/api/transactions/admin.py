"""Transactions by HTTP, for operators: list, describe and abort them."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from goqueue.api.fields import Timestamp
from goqueue.broker.transactions.coordination import (
    abort_transaction,
    find_transaction,
    list_transactions,
    tally_transactions,
)
from goqueue.broker.transactions.hanging import end_hanging_transaction, list_open_transactions
from goqueue.errors import (
    ConcurrentTransactions,
    CoordinatorUnavailable,
    InvalidTransactionState,
    UnknownPartition,
    UnknownTopic,
    UnknownTransaction,
)
from goqueue.machines.transactions.values import EndCause, TransactionState
from goqueue.machines.transactions.values import Transaction as KnownTransaction
from goqueue.protocols.http.api.transactions.producers import TransactionPartition, time_left_ms
from goqueue.protocols.http.calls import Context
from goqueue.protocols.http.route import STORAGE_ERRORS, route
from goqueue.protocols.http.wire.times import moment


class TransactionsQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which transactional ids to list: all, or by state or producer."""

    state: TransactionState | UnsetType = UNSET
    producer_id: Annotated[int, Meta(ge=0, le=2**63 - 1)] | UnsetType = UNSET


class ForcedAbort(msgspec.Struct, forbid_unknown_fields=True):
    """An empty object."""


class Transaction(msgspec.Struct, kw_only=True):
    """A transactional id, and its current or last transaction.

    `partitions` and `groups` are those of the open transaction, which began at `started_at`. `time_left_ms` is what is
    left of `timeout_ms`; a transaction that is committing or aborting has no limit.
    """

    transactional_id: str
    state: TransactionState
    producer_id: int
    epoch: int
    timeout_ms: int
    time_left_ms: int | None
    started_at: Timestamp | None
    updated_at: Timestamp
    partitions: list[TransactionPartition]
    groups: list[str]


class OpenTransaction(msgspec.Struct):
    """A transaction that is open in a partition; without a transactional id, only an operator can end it.

    If `may_be_committed`, its marker may have been lost in damage, and whether it was committed is unknown.
    """

    producer_id: int
    epoch: int
    first_offset: int
    transactional_id: str | None
    may_be_committed: bool


class OpenTransactions(msgspec.Struct):
    """The transactions that are open in a partition, oldest first."""

    transactions: list[OpenTransaction]


class HangingAbort(msgspec.Struct, forbid_unknown_fields=True):
    """The producer whose transaction to abort in the partition."""

    producer_id: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    force: Annotated[
        bool, Meta(description="Abort even if the log of a coordinator cannot be used that may know the transaction.")
    ] = False


class Transactions(msgspec.Struct):
    """Transactional ids, sorted."""

    transactions: list[Transaction]


class TransactionStats(msgspec.Struct, kw_only=True):
    """The number of transactional ids in each state, the longest open transaction, and how others ended.

    `committed` and `aborted` count since the start of the broker. Causes of aborts: the producer (`abort`), a new
    producer with the same id (`init`), the timeout (`timeout`), or an operator (`operator`).
    """

    states: dict[str, int]
    oldest_open: Transaction | None
    committed: int
    aborted: dict[str, int]


@route("GET", "/transactions", "transactions.list")
async def list_all(context: Context, query: TransactionsQuery) -> Transactions:
    """List transactional ids, all or by state or producer."""
    found = await list_transactions(context.broker.transactions, context.caller)
    return Transactions([_told(context, each) for each in found if _is_wanted(each, query)])


def _is_wanted(transaction: KnownTransaction, query: TransactionsQuery) -> bool:
    if query.state is not UNSET and transaction.state is not query.state:
        return False
    return query.producer_id is UNSET or transaction.producer_id == query.producer_id


@route("GET", "/transactions/{id}", "transactions.describe", errors=(UnknownTransaction,))
async def describe(context: Context) -> Transaction:
    """Describe a transactional id and its transaction."""
    return _told(context, await find_transaction(context.broker.transactions, context.caller, context.path["id"]))


@route("GET", "/transactions/stats", "transactions.stats")
async def stats(context: Context) -> TransactionStats:
    """Count transactions, open and ended."""
    tally = await tally_transactions(context.broker.transactions, context.caller)
    return TransactionStats(
        states={state.value: tally.states.get(state, 0) for state in TransactionState},
        oldest_open=None if tally.oldest is None else _told(context, tally.oldest),
        committed=tally.ended.get(EndCause.COMMIT, 0),
        aborted={cause.value: tally.ended.get(cause, 0) for cause in EndCause if cause is not EndCause.COMMIT},
    )


@route(
    "POST",
    "/transactions/{id}/abort",
    "transactions.force_abort",
    errors=(
        UnknownTransaction,
        InvalidTransactionState,
        ConcurrentTransactions,
        CoordinatorUnavailable,
        *STORAGE_ERRORS,
    ),
)
async def abort(context: Context, _: ForcedAbort) -> Transaction:
    """Abort a transaction, and fence its producer."""
    await abort_transaction(context.broker.transactions, context.caller, context.path["id"])
    return _told(context, await find_transaction(context.broker.transactions, context.caller, context.path["id"]))


@route(
    "GET",
    "/topics/{topic}/partitions/{partition}/transactions",
    "transactions.list_open",
    errors=(UnknownTopic, UnknownPartition),
)
async def list_open(context: Context) -> OpenTransactions:
    """List the transactions that are open in a partition."""
    found = await list_open_transactions(context.broker.transactions, context.caller, context.topic, context.partition)
    return OpenTransactions([OpenTransaction(*each) for each in found])


@route(
    "POST",
    "/topics/{topic}/partitions/{partition}/transactions/abort",
    "transactions.abort_hanging",
    status=204,
    errors=(UnknownTopic, UnknownPartition, InvalidTransactionState, CoordinatorUnavailable, *STORAGE_ERRORS),
)
async def abort_hanging(context: Context, request: HangingAbort) -> None:
    """Abort a transaction of a partition that no coordinator knows.

    Readers of committed messages continue after it.
    """
    await end_hanging_transaction(
        context.broker.transactions,
        context.caller,
        context.topic,
        context.partition,
        request.producer_id,
        is_forced=request.force,
    )


def _told(context: Context, found: KnownTransaction) -> Transaction:
    is_under_way = found.state is TransactionState.ONGOING or found.is_ending
    return Transaction(
        transactional_id=found.id,
        state=found.state,
        producer_id=found.producer_id,
        epoch=found.epoch,
        timeout_ms=found.timeout_ms,
        time_left_ms=time_left_ms(context, found),
        started_at=moment(found.started_ms) if is_under_way else None,
        updated_at=moment(found.updated_ms),
        partitions=[TransactionPartition(*each) for each in sorted(found.partitions)],
        groups=sorted(found.groups),
    )
