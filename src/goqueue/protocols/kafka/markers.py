"""WriteTxnMarkers, by which administrators of Kafka end a transaction that hangs in a partition.

What a coordinator knows of is ended by that coordinator, and only aborted: so it ends in all of its partitions, and not
in one of them otherwise than in the others.
"""

from __future__ import annotations

from goqueue.broker.hanging import abort_transaction_of, end_hanging_transaction
from goqueue.errors import GoQueueError
from goqueue.protocols.faults import fault_of
from goqueue.protocols.kafka.context import Context
from goqueue.protocols.kafka.decode import Request
from goqueue.protocols.kafka.encode import Reply


async def write_txn_markers(context: Context, request: Request) -> Reply:
    """End transactions of producers in single partitions."""
    markers = []
    for marker in request.markers or ():
        topics = []
        for topic in marker.topics or ():
            partitions = [
                {"partition_index": index, "error_code": await _end(context, marker, topic.name, index)}
                for index in topic.partition_indexes or ()
            ]
            topics.append({"name": topic.name, "partitions": partitions})
        markers.append({"producer_id": marker.producer_id, "topics": topics})
    return {"markers": markers}


async def _end(context: Context, marker: Request, topic: str, index: int) -> int:
    where = (topic, index, marker.producer_id)
    try:
        known = None
        if not marker.transaction_result:
            known = await abort_transaction_of(context.broker, context.caller, *where, marker.producer_epoch)
        if known is None:
            await end_hanging_transaction(
                context.broker,
                context.caller,
                *where,
                is_commit=marker.transaction_result,
                epoch=marker.producer_epoch,
            )
    except GoQueueError as error:
        return fault_of(error).kafka
    return 0
