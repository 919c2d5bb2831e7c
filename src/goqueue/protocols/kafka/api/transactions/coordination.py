"""Transactions: AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit, EndTxn, InitProducerId, and administration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from goqueue.broker.transactions.coordination import (
    add_offsets,
    add_partitions,
    commit_transaction_offsets,
    end_transaction,
    find_transaction,
    init_transactions,
    list_producers,
    list_transactions,
)
from goqueue.broker.transactions.producers import new_producer
from goqueue.errors import GoQueueError, StaleMemberEpoch, TransactionFenced
from goqueue.kafka_wire.decode import Request
from goqueue.kafka_wire.encode import Reply
from goqueue.machines.groups.commands import CommitOffsets
from goqueue.machines.groups.offsets import CommittedOffset, NewOffset
from goqueue.machines.producer import NO_SEQUENCE, KnownProducer
from goqueue.machines.transactions.values import ProducerEpoch, Transaction
from goqueue.model.topic import TopicPartition
from goqueue.model.transactions import TransactionState
from goqueue.protocols.faults import fault_of
from goqueue.protocols.kafka.api.context import Context, error_fields
from goqueue.protocols.kafka.api.coordinator import code_of

_ILLEGAL_GENERATION = 22
_NOT_ATTEMPTED = 55
_KNOWS_FENCED_FROM = 2
_END_BUMPS_FROM = 5
_COMMIT_ADDS_GROUP_FROM = 5
_STATES = frozenset(state.value for state in TransactionState)
_NO_PRODUCER = -1
_INIT_KNOWS_FENCED_FROM = 4
_COORDINATOR_LOADING = 14
_INVALID_EPOCH = 47


async def add_partitions_to_txn(context: Context, request: Request) -> Reply:
    """Add partitions to a transaction."""
    topics = request.v3_and_below_topics or ()
    wanted = frozenset(TopicPartition(topic.name, index) for topic in topics for index in topic.partitions or ())
    identity = ProducerEpoch(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
    code = 0
    missing: Mapping[TopicPartition, GoQueueError] = {}
    try:
        missing = await add_partitions(
            context.broker.transactions, context.caller, request.v3_and_below_transactional_id, identity, wanted
        )
        code = _NOT_ATTEMPTED if missing else 0
    except GoQueueError as error:
        code = _code(error, request.version)
    results = [
        {
            "name": topic.name,
            "results_by_partition": [
                {
                    "partition_index": index,
                    "partition_error_code": _code_of(missing, TopicPartition(topic.name, index), code),
                }
                for index in topic.partitions or ()
            ],
        }
        for topic in topics
    ]
    return {"results_by_topic_v3_and_below": results}


def _code_of(missing: Mapping[TopicPartition, GoQueueError], partition: TopicPartition, otherwise: int) -> int:
    return fault_of(missing[partition]).kafka if partition in missing else otherwise


async def add_offsets_to_txn(context: Context, request: Request) -> Reply:
    """Add a group to a transaction."""
    try:
        await add_offsets(
            context.broker.transactions, context.caller, request.transactional_id, _identity(request), request.group_id
        )
    except GoQueueError as error:
        return {"error_code": _code(error, request.version)}
    return {"error_code": 0}


async def txn_offset_commit(context: Context, request: Request) -> Reply:
    """Commit offsets of a group together with the transaction."""
    command = CommitOffsets(
        group=request.group_id,
        member_id=request.member_id or "",
        epoch=request.generation_id,
        instance_id=request.group_instance_id,
        offsets=[
            NewOffset(
                TopicPartition(topic.name, part.partition_index),
                CommittedOffset(part.committed_offset, part.committed_leader_epoch, part.committed_metadata or ""),
            )
            for topic in request.topics or ()
            for part in topic.partitions or ()
        ],
    )
    try:
        refusals = await commit_transaction_offsets(
            context.broker.transactions,
            context.caller,
            request.transactional_id,
            _identity(request),
            command,
            adds_group=request.version >= _COMMIT_ADDS_GROUP_FROM,
        )
    except GoQueueError as error:
        refusals = [error] * len(command.offsets)
    following = iter(refusals)
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {"partition_index": part.partition_index, "error_code": _offset_code(next(following))}
                    for part in topic.partitions or ()
                ],
            }
            for topic in request.topics or ()
        ]
    }


def _offset_code(error: GoQueueError | None) -> int:
    """Return the code of an error; no version of this request has errors for fencing or for epochs of members."""
    if isinstance(error, StaleMemberEpoch):
        return _ILLEGAL_GENERATION
    return producer_code(error, knows_fenced=False)


async def end_txn(context: Context, request: Request) -> Reply:
    """Commit or abort; newer clients get a new epoch."""
    bumps_epoch = request.version >= _END_BUMPS_FROM
    try:
        following = await end_transaction(
            context.broker.transactions,
            context.caller,
            request.transactional_id,
            _identity(request),
            is_commit=request.committed,
            bumps_epoch=bumps_epoch,
        )
    except GoQueueError as error:
        return {"error_code": _code(error, request.version), "producer_id": -1, "producer_epoch": -1}
    return {"error_code": 0, "producer_id": following.producer_id, "producer_epoch": following.epoch}


def _identity(request: Request) -> ProducerEpoch:
    return ProducerEpoch(request.producer_id, request.producer_epoch)


def _code(error: GoQueueError, version: int) -> int:
    return producer_code(error, knows_fenced=version >= _KNOWS_FENCED_FROM)


# -- administration


async def describe_producers(context: Context, request: Request) -> Reply:
    """List the producers of partitions."""
    topics = []
    for topic in request.topics or ():
        partitions = []
        for index in topic.partition_indexes or ():
            try:
                found = await list_producers(context.broker.transactions, context.caller, topic.name, index)
                listed = [_producer(producer_id, state) for producer_id, state in found]
                partitions.append({"partition_index": index, **error_fields(None), "active_producers": listed})
            except GoQueueError as error:
                partitions.append({"partition_index": index, **error_fields(error), "active_producers": []})
        topics.append({"name": topic.name, "partitions": partitions})
    return {"topics": topics}


def _producer(producer_id: int, state: KnownProducer) -> Reply:
    return {
        "producer_id": producer_id,
        "producer_epoch": state.epoch,
        "last_sequence": state.recent[-1].last_sequence if state.recent else NO_SEQUENCE,
        "last_timestamp": state.last_timestamp,
        "coordinator_epoch": 0,
        "current_txn_start_offset": state.transaction_start,
    }


async def describe_transactions(context: Context, request: Request) -> Reply:
    """Describe transactions."""
    states = []
    for transactional_id in request.transactional_ids or ():
        try:
            found = await find_transaction(context.broker.transactions, context.caller, transactional_id)
            states.append({"error_code": 0, **_described(found)})
        except GoQueueError as error:
            states.append({**_NOTHING, "error_code": fault_of(error).kafka, "transactional_id": transactional_id})
    return {"transaction_states": states}


_NOTHING = {
    "transaction_state": "",
    "transaction_timeout": 0,
    "transaction_start_time": -1,
    "producer_id": -1,
    "producer_epoch": -1,
    "topics": [],
}


def _described(transaction: Transaction) -> dict[str, object]:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(transaction.partitions):
        topics.setdefault(topic, []).append(index)
    return {
        "transactional_id": transaction.id,
        "transaction_state": transaction.state.value,
        "transaction_timeout": transaction.timeout_ms,
        "transaction_start_time": transaction.started_ms if transaction.partitions or transaction.groups else -1,
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.epoch,
        "topics": [{"topic": topic, "partitions": indexes} for topic, indexes in topics.items()],
    }


async def list_all_transactions(context: Context, request: Request) -> Reply:
    """List transactional ids, by state, producer or age of their transaction."""
    found = await list_transactions(context.broker.transactions, context.caller)
    now_ms = context.broker.core.clock.now_ms()
    listed = [
        {
            "transactional_id": transaction.id,
            "producer_id": transaction.producer_id,
            "transaction_state": transaction.state.value,
        }
        for transaction in found
        if _is_wanted(transaction, request, now_ms)
    ]
    unknown: Sequence[str] = [state for state in request.state_filters or () if state not in _STATES]
    return {"error_code": 0, "unknown_state_filters": unknown, "transaction_states": listed}


def _is_wanted(transaction: Transaction, request: Request, now_ms: int) -> bool:
    if request.state_filters and transaction.state.value not in request.state_filters:
        return False
    if request.producer_id_filters and transaction.producer_id not in request.producer_id_filters:
        return False
    is_young = now_ms - transaction.started_ms <= request.duration_filter
    return request.version < 1 or request.duration_filter < 0 or not is_young


async def init_producer_id(context: Context, request: Request) -> Reply:
    """Return a new producer id, or the next epoch of a transactional id."""
    try:
        identity = await _new_identity(context, request)
    except GoQueueError as error:
        code = producer_code(error, knows_fenced=request.version >= _INIT_KNOWS_FENCED_FROM)
        if request.transactional_id is None and error.retriable:
            # It has no coordinator to look for. This error makes it retry the same request.
            code = _COORDINATOR_LOADING
        return {"error_code": code, "producer_id": -1, "producer_epoch": -1}
    return {"error_code": 0, "producer_id": identity.producer_id, "producer_epoch": identity.epoch}


async def _new_identity(context: Context, request: Request) -> ProducerEpoch:
    if request.transactional_id is None:
        return await new_producer(context.broker.transactions, context.caller)
    known = None
    if request.version >= 3 and request.producer_id != _NO_PRODUCER:
        known = ProducerEpoch(request.producer_id, request.producer_epoch)
    return await init_transactions(
        context.broker.transactions, context.caller, request.transactional_id, request.transaction_timeout, known
    )


def producer_code(error: GoQueueError | None, *, knows_fenced: bool) -> int:
    """Return the code of an error for a producer; old versions have an invalid epoch instead of fencing."""
    if isinstance(error, TransactionFenced) and not knows_fenced:
        return _INVALID_EPOCH
    return code_of(error)
