"""Sinks: several transactions that are committed together, once for each batch (`machines/transactions/sinks`)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from goqueue.broker.admission import Caller, operation
from goqueue.broker.transactions.coordination import answer_by, ended
from goqueue.errors import Invalid, InvalidTransactionState, ProducerMismatch, TransactionFenced
from goqueue.machines.transactions.sinks import BatchCommit, CommittedBatch
from goqueue.machines.transactions.values import CommitBatch, EndTransaction, ForgetSink, SinkStage
from goqueue.model.sinks import coordination_key, sink_key

if TYPE_CHECKING:
    from goqueue.broker.transactions.service import TransactionService


@operation("sinks.commit", on="sink", writes=True)
async def commit_batch(
    transactions: TransactionService,
    caller: Caller,
    sink: str,
    batch: int,
    stages: Sequence[SinkStage],
) -> BatchCommit:
    """Commit what the tasks of a sink have staged for a batch, all of it or nothing, unless that has happened already.

    At return it has happened to these stages in all partitions; CoordinatorUnavailable if that takes too long, and
    then it is decided all the same. Stages of a batch that is committed already are aborted.
    """
    deadline = answer_by()
    key = sink_key(sink)
    for stage in stages:
        if stage.id == key or coordination_key(stage.id) != key:
            raise Invalid(f"{stage.id!r} is no stage of the sink {sink!r}", hint=f"{key}:TASK:ATTEMPT")
    done: BatchCommit = await transactions.submit(key, CommitBatch(key, batch, tuple(stages)))
    for stage in done.committed:
        await _ended(transactions, stage, deadline)
    return done


async def _ended(transactions: TransactionService, stage: SinkStage, deadline: float) -> None:
    # To ask for the same end again is to wait for it.
    command = EndTransaction(*stage, is_commit=True, bumps_epoch=False, spare_producer_id=-1)
    # If another transaction has begun under that id, or its next producer has come, this one has ended before.
    with suppress(TransactionFenced, ProducerMismatch, InvalidTransactionState):
        await ended(transactions, command, deadline=deadline)


@operation("sinks.describe", on="sink")
async def find_sink(transactions: TransactionService, caller: Caller, sink: str) -> CommittedBatch | None:
    """Return the last batch that a sink has committed, if it is known to have committed any."""
    key = sink_key(sink)
    if transactions.peek(key) is None:
        return None
    machine = await transactions.machine(key)
    return machine.last_batch(key)


@operation("sinks.forget", on="sink", writes=True)
async def forget_sink(transactions: TransactionService, caller: Caller, sink: str) -> None:
    """Forget which batches a sink has committed, so that it may begin anew; what is staged is left alone."""
    key = sink_key(sink)
    if transactions.peek(key) is not None:
        await transactions.submit(key, ForgetSink(key))
