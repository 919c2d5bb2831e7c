"""Producers: InitProducerId for idempotent ones. Transactional ids are refused: transactions are not offered."""

from __future__ import annotations

from goqueue.broker.producers import new_producer
from goqueue.errors import GoQueueError
from goqueue.protocols.faults import fault_of
from goqueue.protocols.kafka.context import Context
from goqueue.protocols.kafka.decode import Request
from goqueue.protocols.kafka.encode import Reply

_TRANSACTIONAL_ID_REFUSED = 53


async def init_producer_id(context: Context, request: Request) -> Reply:
    """Give a producer its id."""
    if request.transactional_id is not None:
        return {"error_code": _TRANSACTIONAL_ID_REFUSED, "producer_id": -1, "producer_epoch": -1}
    try:
        identity = await new_producer(context.broker, context.caller)
    except GoQueueError as error:
        return {"error_code": fault_of(error).kafka, "producer_id": -1, "producer_epoch": -1}
    return {"error_code": 0, "producer_id": identity.producer_id, "producer_epoch": identity.epoch}
