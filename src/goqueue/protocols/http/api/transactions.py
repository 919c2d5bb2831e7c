"""Producers, transactions and sinks by HTTP."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET

from goqueue.api.messages import Results
from goqueue.api.transactions import (
    _INT64_MAX,
    ActingProducer,
    BatchCommitted,
    BatchToCommit,
    ForcedAbort,
    HangingAbort,
    NewProducer,
    OpenTransaction,
    OpenTransactions,
    Producer,
    ProducerState,
    ProducerToCheck,
    Sink,
    Transaction,
    TransactionMessages,
    TransactionOffset,
    TransactionOffsetResult,
    TransactionOffsetResults,
    TransactionOffsets,
    TransactionPartition,
    TransactionPartitions,
    Transactions,
    TransactionsQuery,
    TransactionStats,
)
from goqueue.broker.transactions.coordination import (
    abort_transaction,
    add_partitions,
    begin_transaction,
    commit_transaction_offsets,
    end_transaction,
    find_producer,
    find_transaction,
    init_transactions,
    list_transactions,
    tally_transactions,
)
from goqueue.broker.transactions.hanging import end_hanging_transaction, list_open_transactions
from goqueue.broker.transactions.publish import TransactionWriter, publish_in_transaction
from goqueue.broker.transactions.sinks import commit_batch, find_sink, forget_sink
from goqueue.errors import (
    ConcurrentTransactions,
    CoordinatorUnavailable,
    Draining,
    GoQueueError,
    InstanceFenced,
    Invalid,
    InvalidGroup,
    InvalidRecord,
    InvalidTopicName,
    InvalidTransactionState,
    InvalidTransactionTimeout,
    MalformedRequest,
    NotEnoughReplicas,
    NotOffered,
    OffsetMetadataTooLarge,
    OutOfOrderSequence,
    ProducerMismatch,
    StaleGeneration,
    StaleMemberEpoch,
    TooLarge,
    TopicProtected,
    TransactionFenced,
    UnknownMember,
    UnknownPartition,
    UnknownTopic,
    UnknownTransaction,
)
from goqueue.machines.groups.commands import CommitOffsets
from goqueue.machines.groups.offsets import CommittedOffset, NewOffset
from goqueue.machines.transactions.values import EndCause, ProducerEpoch, SinkStage
from goqueue.machines.transactions.values import Transaction as KnownTransaction
from goqueue.model.topic import TopicPartition
from goqueue.model.transactions import TransactionState
from goqueue.model.units import parse_duration_ms
from goqueue.protocols.http.api.messages import all_translated, told
from goqueue.protocols.http.calls import Answer, Context
from goqueue.protocols.http.route import STORAGE_ERRORS, item_statuses, route
from goqueue.protocols.http.wire.problems import error_of
from goqueue.protocols.http.wire.times import moment

_OF_PRODUCERS = (TransactionFenced, ProducerMismatch)
_OF_TRANSACTIONS = (
    *_OF_PRODUCERS,
    InvalidTransactionState,
    ConcurrentTransactions,
    CoordinatorUnavailable,
    *STORAGE_ERRORS,
)
_OF_MESSAGES = (
    InvalidRecord,
    NotOffered,
    TooLarge,
    UnknownPartition,
    NotEnoughReplicas,
    Draining,
    *STORAGE_ERRORS,
)
_OF_SENT_OFFSETS = (UnknownTopic, OffsetMetadataTooLarge, StaleGeneration, UnknownMember)


@route(
    "POST",
    "/producers/init",
    "producers.init",
    errors=(Invalid, InvalidTransactionTimeout, ConcurrentTransactions, CoordinatorUnavailable, *STORAGE_ERRORS),
)
async def init(context: Context, request: NewProducer) -> Producer:
    """Register a producer under a transactional id, and fence its predecessor.

    An open transaction of the predecessor is aborted.
    """
    identity = await init_transactions(
        context.broker.transactions, context.caller, request.transactional_id, parse_duration_ms(request.timeout)
    )
    return Producer(request.transactional_id, *identity)


@route("POST", "/producers/{producer_id}/heartbeat", "producers.heartbeat", errors=(UnknownTransaction, *_OF_PRODUCERS))
async def heartbeat(context: Context, request: ProducerToCheck) -> ProducerState:
    """Check whether a producer's identity is current, and how much time its transaction has left."""
    identity = ProducerEpoch(_producer_id(context), request.epoch)
    return _stand(context, await find_producer(context.broker.transactions, context.caller, identity))


@route("POST", "/transactions/begin", "transactions.begin", errors=(InvalidTransactionState, *_OF_PRODUCERS))
async def begin(context: Context, request: ActingProducer) -> ProducerState:
    """Check that a transaction can begin."""
    found = await begin_transaction(
        context.broker.transactions, context.caller, request.transactional_id, _identity(request)
    )
    return _stand(context, found)


@route(
    "POST",
    "/transactions/publish",
    "transactions.publish",
    other_statuses=item_statuses(_OF_MESSAGES),
    errors=(InvalidTopicName, UnknownTopic, TopicProtected, OutOfOrderSequence, *_OF_TRANSACTIONS, *_OF_MESSAGES),
)
async def publish(context: Context, request: TransactionMessages) -> Answer[Results]:
    """Publish messages in a transaction; each has its own result."""
    broker, caller, services = context.broker, context.caller, context.services
    writer = TransactionWriter(request.transactional_id, _identity(request))
    messages = await all_translated(request.messages)
    if request.sequence is None:
        fates = await publish_in_transaction(
            broker.transactions, caller, services.turns, writer, request.topic, messages
        )
    else:
        fates = await services.numbering.publish(
            broker.transactions, caller, services.turns, writer, request.sequence, request.topic, messages
        )
    return told(fates)


@route(
    "POST",
    "/transactions/add-partition",
    "transactions.add_partition",
    status=204,
    errors=(UnknownTopic, TopicProtected, *_OF_TRANSACTIONS),
)
async def add(context: Context, request: TransactionPartitions) -> None:
    """Add partitions to a transaction before writing to them."""
    wanted = frozenset(TopicPartition(each.topic, each.partition) for each in request.partitions)
    refused = await add_partitions(
        context.broker.transactions, context.caller, request.transactional_id, _identity(request), wanted
    )
    if refused:
        raise next(iter(refused.values()))


@route(
    "POST",
    "/transactions/add-offsets",
    "transactions.add_offsets",
    other_statuses=item_statuses(_OF_SENT_OFFSETS),
    errors=(InvalidGroup, UnknownMember, StaleGeneration, InstanceFenced, StaleMemberEpoch, *_OF_TRANSACTIONS),
)
async def send_offsets(context: Context, request: TransactionOffsets) -> Answer[TransactionOffsetResults]:
    """Commit offsets of a group with the transaction; each has its own result."""
    command = CommitOffsets(
        group=request.group,
        member_id=request.member_id,
        epoch=request.generation,
        offsets=[
            NewOffset(TopicPartition(each.topic, each.partition), CommittedOffset(each.offset, metadata=each.metadata))
            for each in request.offsets
        ],
    )
    refusals = await commit_transaction_offsets(
        context.broker.transactions,
        context.caller,
        request.transactional_id,
        _identity(request),
        command,
        adds_group=True,
    )
    return _told_offsets(request.offsets, refusals)


def _told_offsets(
    offsets: Sequence[TransactionOffset], refusals: Sequence[GoQueueError | None]
) -> Answer[TransactionOffsetResults]:
    results = []
    failures = []
    for each, refusal in zip(offsets, refusals, strict=True):
        result = TransactionOffsetResult(each.topic, each.partition)
        if refusal is not None:
            result.error = error_of(refusal)
            failures.append(result.error)
        results.append(result)
    status = 200
    if failures:
        status = 207 if len(failures) < len(results) else failures[0].status
    return Answer(TransactionOffsetResults(results), status)


@route("POST", "/transactions/commit", "transactions.commit", errors=_OF_TRANSACTIONS)
async def commit(context: Context, request: ActingProducer) -> Answer[Producer]:
    """Commit a transaction; the reply has the next epoch.

    At the reply, the transaction is committed in all partitions.
    """
    return await _end(context, request, is_commit=True)


@route("POST", "/transactions/abort", "transactions.abort", errors=_OF_TRANSACTIONS)
async def abort(context: Context, request: ActingProducer) -> Answer[Producer]:
    """Abort a transaction; the reply has the next epoch.

    At the reply, the transaction is aborted in all partitions.
    """
    return await _end(context, request, is_commit=False)


async def _end(context: Context, request: ActingProducer, *, is_commit: bool) -> Answer[Producer]:
    following = await end_transaction(
        context.broker.transactions,
        context.caller,
        request.transactional_id,
        _identity(request),
        is_commit=is_commit,
        bumps_epoch=True,
        may_be_empty=True,
    )
    context.services.numbering.forget(request.transactional_id)
    return Answer(Producer(request.transactional_id, *following))


def _identity(
    request: ActingProducer | TransactionMessages | TransactionPartitions | TransactionOffsets,
) -> ProducerEpoch:
    return ProducerEpoch(request.producer_id, request.epoch)


def _producer_id(context: Context) -> int:
    text = context.path["producer_id"]
    if not (text.isascii() and text.isdigit() and len(text) <= 19 and int(text) <= _INT64_MAX):
        raise MalformedRequest(f"{text[:40]!r} is not a producer id")
    return int(text)


def _stand(context: Context, found: KnownTransaction) -> ProducerState:
    return ProducerState(
        transactional_id=found.id,
        producer_id=found.producer_id,
        epoch=found.epoch,
        state=found.state,
        timeout_ms=found.timeout_ms,
        time_left_ms=time_left_ms(context, found),
    )


def time_left_ms(context: Context, found: KnownTransaction) -> int | None:
    """Return how much time the open transaction has left, or None."""
    if found.state is not TransactionState.ONGOING or found.deadline_ms is None:
        return None
    return max(found.deadline_ms - int(context.broker.core.clock.monotonic() * 1000), 0)


@route("POST", "/transactions/sinks/{sink}/commit", "sinks.commit", errors=(Invalid, *_OF_TRANSACTIONS))
async def commit_sink(context: Context, body: BatchToCommit) -> BatchCommitted:
    """Commit the staged transactions of a sink's batch, all together and only once."""
    stages = [SinkStage(each.transactional_id, each.producer_id, each.epoch) for each in body.stages]
    done = await commit_batch(context.broker.transactions, context.caller, context.path["sink"], body.batch, stages)
    return BatchCommitted(done.batch, done.is_new)


@route("GET", "/transactions/sinks/{sink}", "sinks.describe", errors=(Invalid, CoordinatorUnavailable))
async def describe_sink(context: Context) -> Sink:
    """Return the last batch that a sink has committed."""
    last = await find_sink(context.broker.transactions, context.caller, context.path["sink"])
    if last is None:
        return Sink(None, None)
    return Sink(last.batch, moment(last.committed_ms))


@route("DELETE", "/transactions/sinks/{sink}", "sinks.forget", status=204, errors=(Invalid, CoordinatorUnavailable))
async def forget_sink_batches(context: Context) -> None:
    """Forget the committed batches of a sink, so that it can start over."""
    await forget_sink(context.broker.transactions, context.caller, context.path["sink"])


@route("GET", "/transactions", "transactions.list")
async def list_all(context: Context, query: TransactionsQuery) -> Transactions:
    """List transactional ids, all or by state or producer."""
    found = await list_transactions(context.broker.transactions, context.caller)
    return Transactions([_transaction(context, each) for each in found if _is_wanted(each, query)])


def _is_wanted(transaction: KnownTransaction, query: TransactionsQuery) -> bool:
    if query.state is not UNSET and transaction.state is not query.state:
        return False
    return query.producer_id is UNSET or transaction.producer_id == query.producer_id


@route("GET", "/transactions/{id}", "transactions.describe", errors=(UnknownTransaction,))
async def describe(context: Context) -> Transaction:
    """Describe a transactional id and its transaction."""
    return _transaction(
        context, await find_transaction(context.broker.transactions, context.caller, context.path["id"])
    )


@route("GET", "/transactions/stats", "transactions.stats")
async def stats(context: Context) -> TransactionStats:
    """Count transactions, open and ended."""
    tally = await tally_transactions(context.broker.transactions, context.caller)
    return TransactionStats(
        states={state.value: tally.states.get(state, 0) for state in TransactionState},
        oldest_open=None if tally.oldest is None else _transaction(context, tally.oldest),
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
async def force_abort(context: Context, _: ForcedAbort) -> Transaction:
    """Abort a transaction, and fence its producer."""
    await abort_transaction(context.broker.transactions, context.caller, context.path["id"])
    return _transaction(
        context, await find_transaction(context.broker.transactions, context.caller, context.path["id"])
    )


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


def _transaction(context: Context, found: KnownTransaction) -> Transaction:
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
