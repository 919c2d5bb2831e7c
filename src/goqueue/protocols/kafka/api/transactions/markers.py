"""WriteTxnMarkers, by which administrators of Kafka end a transaction that hangs in a partition.

A transaction that a coordinator knows is ended by that coordinator, and only aborted: so it ends in all of its
partitions, and in each of them the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from goqueue.broker.transactions.coordination import answer_by
from goqueue.broker.transactions.hanging import abort_transactions_of, end_hanging_transaction
from goqueue.errors import GoQueueError
from goqueue.kafka_wire.decode import Request
from goqueue.kafka_wire.encode import Reply
from goqueue.model.topic import TopicPartition
from goqueue.protocols.faults import fault_of
from goqueue.protocols.kafka.api.context import Context
from goqueue.runtime.waiters import turns

_Marker = tuple[int, int, bool, tuple[TopicPartition, ...]]
_Codes = Mapping[TopicPartition, int]


async def write_txn_markers(context: Context, request: Request) -> Reply:
    """End transactions of producers in single partitions; all are answered in the time for one."""
    deadline = answer_by()
    known: dict[_Marker, _Codes] = {}
    told = []
    for marker in request.markers or ():
        wanted = _wanted(marker)
        if wanted not in known:
            known[wanted] = await _ended(context, marker, wanted[-1], deadline)
        told.append(_told(marker, known[wanted]))
        # There may be very many: let other connections have turns in between.
        await turns(1)
    return {"markers": told}


def _wanted(marker: Request) -> _Marker:
    """Return the transaction that a marker ends; equal ones are ended once."""
    places = dict.fromkeys(
        TopicPartition(topic.name, index) for topic in marker.topics or () for index in topic.partition_indexes or ()
    )
    return marker.producer_id, marker.producer_epoch, marker.transaction_result, tuple(places)


async def _ended(context: Context, marker: Request, places: Sequence[TopicPartition], deadline: float) -> _Codes:
    """End the transactions of a marker, and return the error code of each partition."""
    try:
        known = await _abort_known(context, marker, places, deadline)
    except GoQueueError as error:
        known = dict.fromkeys(places, error)
    codes: dict[TopicPartition, int] = {}
    for each in places:
        if each in known:
            outcome = known[each]
        else:
            outcome = await _end_unknown(context, marker, each)
            await turns(1)
        codes[each] = 0 if outcome is None else fault_of(outcome).kafka
    return codes


def _told(marker: Request, codes: _Codes) -> Reply:
    topics = [
        {
            "name": topic.name,
            "partitions": [
                {"partition_index": index, "error_code": codes[TopicPartition(topic.name, index)]}
                for index in topic.partition_indexes or ()
            ],
        }
        for topic in marker.topics or ()
    ]
    return {"producer_id": marker.producer_id, "topics": topics}


async def _abort_known(
    context: Context, marker: Request, places: Sequence[TopicPartition], deadline: float
) -> Mapping[TopicPartition, GoQueueError | None]:
    """Abort transactions that a coordinator knows, each once, however many of its partitions are named."""
    if marker.transaction_result:
        return {}
    return await abort_transactions_of(
        context.broker.transactions,
        context.caller,
        places,
        marker.producer_id,
        marker.producer_epoch,
        deadline=deadline,
    )


async def _end_unknown(context: Context, marker: Request, place: TopicPartition) -> GoQueueError | None:
    try:
        await end_hanging_transaction(
            context.broker.transactions,
            context.caller,
            *place,
            marker.producer_id,
            is_commit=marker.transaction_result,
            epoch=marker.producer_epoch,
        )
    except GoQueueError as error:
        return error
    return None
