"""Producers: InitProducerId, for idempotent and for transactional ones; and how all that they ask for is refused."""

from __future__ import annotations

from goqueue.broker.transactions.coordination import init_transactions
from goqueue.broker.transactions.producers import new_producer
from goqueue.errors import GoQueueError, TransactionFenced
from goqueue.kafka_wire.decode import Request
from goqueue.kafka_wire.encode import Reply
from goqueue.machines.transactions.values import ProducerEpoch
from goqueue.protocols.kafka.api.context import Context
from goqueue.protocols.kafka.api.coordination import code_of

_NO_PRODUCER = -1
_KNOWS_FENCED_FROM = 4
_COORDINATOR_LOADING = 14
_INVALID_EPOCH = 47


async def init_producer_id(context: Context, request: Request) -> Reply:
    """Give a producer its id, or its next epoch."""
    try:
        identity = await _identity(context, request)
    except GoQueueError as error:
        code = producer_code(error, knows_fenced=request.version >= _KNOWS_FENCED_FROM)
        if request.transactional_id is None and error.retriable:
            # It has no coordinator that it could look for; so it is told the one thing that lets it merely try again.
            code = _COORDINATOR_LOADING
        return {"error_code": code, "producer_id": -1, "producer_epoch": -1}
    return {"error_code": 0, "producer_id": identity.producer_id, "producer_epoch": identity.epoch}


async def _identity(context: Context, request: Request) -> ProducerEpoch:
    if request.transactional_id is None:
        return await new_producer(context.broker.transactions, context.caller)
    known = None
    if request.version >= 3 and request.producer_id != _NO_PRODUCER:
        known = ProducerEpoch(request.producer_id, request.producer_epoch)
    return await init_transactions(
        context.broker.transactions, context.caller, request.transactional_id, request.transaction_timeout, known
    )


def producer_code(error: GoQueueError | None, *, knows_fenced: bool) -> int:
    """Return the code that tells an error to a producer; where clients do not know of fencing, an epoch is too old."""
    if isinstance(error, TransactionFenced) and not knows_fenced:
        return _INVALID_EPOCH
    return code_of(error)
