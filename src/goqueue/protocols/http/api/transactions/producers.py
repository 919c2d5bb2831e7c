"""Transactions by HTTP, for producers and sinks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from goqueue.api.fields import NAME_SCHEMA, Timestamp
from goqueue.api.messages import MessageToPublish, Results
from goqueue.api.problems import MessageError
from goqueue.broker.groups.membership import METADATA_BYTES_MAX
from goqueue.broker.transactions.coordination import (
    ID_BYTES_MAX,
    add_partitions,
    begin_transaction,
    commit_transaction_offsets,
    end_transaction,
    find_producer,
    init_transactions,
)
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
from goqueue.machines.transactions.sinks import STAGES_MAX
from goqueue.machines.transactions.values import ProducerEpoch, SinkStage, TransactionState
from goqueue.machines.transactions.values import Transaction as KnownTransaction
from goqueue.model.request_limits import MESSAGES_MAX
from goqueue.model.topic import TopicPartition
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

_INT64_MAX = 2**63 - 1
_PARTITION_MAX = 2**31 - 1
_EPOCH_MAX = 2**15 - 1
# The schemas only describe these; the operations check them, with better errors.
NOT_EMPTY_SCHEMA = {"minLength": 1}
_DURATION_PATTERN = "^(([1-9][0-9]{0,4}|[1-8][0-9]{5}|900000)(ms)?|([1-9][0-9]?|[1-8][0-9]{2}|900)s|([1-9]|1[0-5])m)$"

_TransactionalId = Annotated[
    str,
    Meta(
        description=f"Permanent name of the producer; up to {ID_BYTES_MAX} bytes.", extra_json_schema=NOT_EMPTY_SCHEMA
    ),
]
_ProducerId = Annotated[int, Meta(ge=0, le=_INT64_MAX)]
_Epoch = Annotated[int, Meta(ge=0, le=_EPOCH_MAX, description="The last epoch that the producer received.")]
_Topic = Annotated[str, Meta(description="The name of a topic.", extra_json_schema=NAME_SCHEMA)]
_Partition = Annotated[int, Meta(ge=0, le=_PARTITION_MAX)]
_Timeout = (
    Annotated[int, Meta(description="Milliseconds.", extra_json_schema={"minimum": 1, "maximum": 900_000})]
    | Annotated[str, Meta(description="Such as 500ms, 30s or 5m.", extra_json_schema={"pattern": _DURATION_PATTERN})]
)


class NewProducer(msgspec.Struct, forbid_unknown_fields=True):
    """A producer to register under a transactional id; its transactions are aborted after the timeout."""

    transactional_id: _TransactionalId
    timeout: _Timeout = "60s"


class Producer(msgspec.Struct):
    """The current producer of a transactional id."""

    transactional_id: str
    producer_id: int
    epoch: int


class ProducerToCheck(msgspec.Struct, forbid_unknown_fields=True):
    """The epoch of the producer to check."""

    epoch: _Epoch


class ProducerState(msgspec.Struct, kw_only=True):
    """The state of a current producer; `time_left_ms` is null unless a transaction is open."""

    transactional_id: str
    producer_id: int
    epoch: int
    state: TransactionState
    timeout_ms: int
    time_left_ms: int | None


class _Acting(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The identity of a producer."""

    transactional_id: _TransactionalId
    producer_id: _ProducerId
    epoch: _Epoch

    @property
    def identity(self) -> ProducerEpoch:
        """The identity that the caller claims."""
        return ProducerEpoch(self.producer_id, self.epoch)


class ActingProducer(_Acting):
    """The last identity that a producer received."""


class TransactionMessages(_Acting):
    """Messages to publish in the transaction.

    `sequence` numbers the requests of the transaction from 0 on, and makes them safe to retry: a repeated request gets
    the reply of the first one. The same number with other messages is refused.
    """

    topic: _Topic
    messages: Annotated[list[MessageToPublish], Meta(min_length=1, max_length=MESSAGES_MAX)]
    sequence: Annotated[int, Meta(ge=0, le=_PARTITION_MAX)] | None = None


class TransactionPartition(msgspec.Struct, forbid_unknown_fields=True):
    """A partition of a topic."""

    topic: _Topic
    partition: _Partition


class TransactionPartitions(_Acting):
    """Partitions to add to the transaction, all or none of them."""

    partitions: Annotated[list[TransactionPartition], Meta(min_length=1, max_length=MESSAGES_MAX)]


class TransactionOffset(msgspec.Struct, forbid_unknown_fields=True):
    """The offset of the next message that a group reads in a partition."""

    topic: _Topic
    partition: _Partition
    offset: Annotated[int, Meta(ge=0, le=_INT64_MAX)]
    metadata: Annotated[str, Meta(description=f"Stored with the offset; up to {METADATA_BYTES_MAX} bytes.")] = ""


class TransactionOffsets(_Acting):
    """Offsets of a group that are committed with the transaction; a member of the group gives its id and generation."""

    group: Annotated[str, Meta(description="The name of a group.", extra_json_schema=NOT_EMPTY_SCHEMA)]
    offsets: Annotated[list[TransactionOffset], Meta(min_length=1, max_length=MESSAGES_MAX)]
    member_id: str = ""
    generation: Annotated[int, Meta(ge=-1, le=_PARTITION_MAX)] = -1


class TransactionOffsetResult(msgspec.Struct):
    """The result of one offset."""

    topic: str
    partition: int
    error: MessageError | UnsetType = UNSET


class TransactionOffsetResults(msgspec.Struct):
    """The result of each offset, in the order of the request."""

    results: list[TransactionOffsetResult]


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
        context.broker.transactions, context.caller, request.transactional_id, request.identity
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
    writer = TransactionWriter(request.transactional_id, request.identity)
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
        context.broker.transactions, context.caller, request.transactional_id, request.identity, wanted
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
        request.identity,
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
        request.identity,
        is_commit=is_commit,
        bumps_epoch=True,
        may_be_empty=True,
    )
    context.services.numbering.forget(request.transactional_id)
    return Answer(Producer(request.transactional_id, *following))


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


class BatchToCommit(msgspec.Struct, forbid_unknown_fields=True):
    """A batch of a sink, and the transactions that its records are staged in."""

    batch: Annotated[int, Meta(ge=0, le=_INT64_MAX, description="Increases from batch to batch.")]
    stages: Annotated[list[ActingProducer], Meta(max_length=STAGES_MAX)]


class BatchCommitted(msgspec.Struct):
    """A batch that is committed in all partitions; `last_batch` is the last one of the sink.

    `is_new` is false if it was committed before: then the repeated stages are aborted.
    """

    last_batch: int
    is_new: bool


class Sink(msgspec.Struct):
    """The last batch that a sink has committed, and when; null if none is known."""

    last_batch: int | None
    committed_at: Timestamp | None


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
