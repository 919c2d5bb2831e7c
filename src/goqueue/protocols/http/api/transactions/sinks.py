"""Sinks by HTTP: batches whose stages are committed together, once for each batch."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from goqueue.broker.transactions.sinks import commit_batch, find_sink, forget_sink
from goqueue.errors import (
    ConcurrentTransactions,
    CoordinatorUnavailable,
    Invalid,
    InvalidTransactionState,
    ProducerMismatch,
    TransactionFenced,
)
from goqueue.machines.transactions.sinks import STAGES_MAX
from goqueue.machines.transactions.values import SinkStage
from goqueue.protocols.http.api.transactions.publish import ActingProducer
from goqueue.protocols.http.api.transactions.views import Moment, moment_of
from goqueue.protocols.http.calls import Context
from goqueue.protocols.http.route import STORAGE_ERRORS, route

_OF_PRODUCERS = (TransactionFenced, ProducerMismatch)
_OF_TRANSACTIONS = (
    *_OF_PRODUCERS,
    InvalidTransactionState,
    ConcurrentTransactions,
    CoordinatorUnavailable,
    *STORAGE_ERRORS,
)

_INT64_MAX = 2**63 - 1


class BatchToCommit(msgspec.Struct, forbid_unknown_fields=True):
    """A batch of a sink, and in which transactions its records are staged."""

    batch: Annotated[int, Meta(ge=0, le=_INT64_MAX, description="Rises from batch to batch.")]
    stages: Annotated[list[ActingProducer], Meta(max_length=STAGES_MAX)]


class BatchCommitted(msgspec.Struct):
    """A batch that is committed in all partitions; `last_batch` is the last one of the sink.

    `is_new` is false if that had happened already: then what was staged again is aborted.
    """

    last_batch: int
    is_new: bool


class Sink(msgspec.Struct):
    """The last batch that a sink has committed, and when; null if it is not known to have committed any."""

    last_batch: int | None
    committed_at: Moment | None


@route("POST", "/transactions/sinks/{sink}/commit", "sinks.commit", errors=(Invalid, *_OF_TRANSACTIONS))
async def commit(context: Context, body: BatchToCommit) -> BatchCommitted:
    """Commit what the tasks of a sink have staged for a batch, once, and all of it or nothing."""
    stages = [SinkStage(each.transactional_id, each.producer_id, each.epoch) for each in body.stages]
    done = await commit_batch(context.broker, context.caller, context.path["sink"], body.batch, stages)
    return BatchCommitted(done.batch, done.is_new)


@route("GET", "/transactions/sinks/{sink}", "sinks.describe", errors=(Invalid, CoordinatorUnavailable))
async def describe(context: Context) -> Sink:
    """The last batch that a sink has committed."""
    last = await find_sink(context.broker, context.caller, context.path["sink"])
    if last is None:
        return Sink(None, None)
    return Sink(last.batch, moment_of(last.committed_ms))


@route("DELETE", "/transactions/sinks/{sink}", "sinks.forget", status=204, errors=(Invalid, CoordinatorUnavailable))
async def forget(context: Context) -> None:
    """Forget which batches a sink has committed, so that it may begin anew."""
    await forget_sink(context.broker, context.caller, context.path["sink"])
