"""Batches of sinks: several transactions that commit together, once for each batch.

| request                 | the batch is not committed yet        | it is committed, or a later one is                |
|-------------------------|---------------------------------------|---------------------------------------------------|
| all stages are open     | all are committed, it is the last one | nothing; they were staged again: all are aborted  |
| a stage is not open     | refused, nothing changes              | nothing; the others are aborted                   |

A sink that gets no reply asks again, perhaps with other stages, since its tasks may have run again: it gets the same
reply, and nothing changes. Everything is decided at once, in one place and by one write, so a crash leaves all stages
of a batch committed or none. The sink numbers its batches; the numbers only have to rise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from goqueue.errors import Corrupt, Invalid, InvalidTransactionState
from goqueue.machines.decision import KeyedRecord, Now
from goqueue.machines.transactions import steps
from goqueue.machines.transactions.values import CommitBatch, SinkStage, Transaction
from goqueue.model.transactions import STAGES_MAX

SINK_IDLE_MS = 30 * 24 * 60 * 60 * 1000
"""How long the last batch of a sink is remembered."""


class CommittedBatch(msgspec.Struct, frozen=True):
    """The last batch of a sink, and when it was committed."""

    batch: int
    committed_ms: int


class BatchCommit(NamedTuple):
    """The reply to a sink: its last committed batch, and which of the named stages belong to a committed batch.

    `is_new` means that this request has committed it.
    """

    batch: int
    committed: tuple[SinkStage, ...]
    is_new: bool


class BatchStep(NamedTuple):
    """The next last batch of a sink, the transactions that change with it, and the reply."""

    last: CommittedBatch
    transactions: tuple[Transaction, ...]
    reply: BatchCommit


def commit_batch(
    last: CommittedBatch | None, command: CommitBatch, known: Mapping[str, Transaction], now: Now
) -> BatchStep:
    """Commit the stages of a batch, unless it is committed already; raise what forbids it."""
    if len(command.stages) > STAGES_MAX:
        raise Invalid(f"a batch may have {STAGES_MAX:,} stages, not {len(command.stages):,}")
    if len({stage.id for stage in command.stages}) != len(command.stages):
        raise Invalid("a batch names the same stage twice")
    if last is not None and command.batch <= last.batch:
        return _again(last, command, known, now)
    prepared = tuple(steps.prepare_commit(_open(stage, known), now) for stage in command.stages)
    told = BatchCommit(command.batch, command.stages, is_new=True)
    return BatchStep(CommittedBatch(command.batch, now.wall_ms), prepared, told)


def _open(stage: SinkStage, known: Mapping[str, Transaction]) -> Transaction:
    """Return the open transaction of a stage, if its task still holds it."""
    transaction = known.get(stage.id)
    if transaction is None:
        raise InvalidTransactionState(f"nothing is staged under {stage.id!r}")
    steps.check_caller(transaction, stage.identity)
    if not transaction.is_ongoing:
        raise InvalidTransactionState(
            f"nothing is staged under {stage.id!r}: its transaction is in state {transaction.state}",
            hint="it may have taken longer than its timeout",
        )
    return transaction


def _again(last: CommittedBatch, command: CommitBatch, known: Mapping[str, Transaction], now: Now) -> BatchStep:
    aborted, committed = [], []
    for stage in command.stages:
        transaction = known.get(stage.id)
        if transaction is None:
            continue
        if transaction.is_ongoing and transaction.identity == stage.identity:
            aborted.append(steps.fence(transaction, now))
        elif transaction.is_committed and transaction.previous == stage.identity:
            committed.append(stage)
    return BatchStep(last, tuple(aborted), BatchCommit(last.batch, tuple(committed), is_new=False))


def batch_record(key: str, last: CommittedBatch) -> KeyedRecord:
    """Return the record of the last batch of a sink."""
    return KeyedRecord(key.encode(), msgspec.json.encode(last))


def read_batch(key: str, value: bytes) -> CommittedBatch:
    """Return the batch of a record; Corrupt if it is malformed."""
    try:
        return msgspec.json.decode(value, type=CommittedBatch)
    except msgspec.MsgspecError as error:
        raise Corrupt(f"the record of {key!r} cannot be read: {error}") from error


def forgotten_at_ms(last: CommittedBatch, now: Now) -> int:
    """Return when the last batch of a sink is forgotten, in monotonic time."""
    idle_ms = now.wall_ms - last.committed_ms
    return now.monotonic_ms + SINK_IDLE_MS - min(max(idle_ms, 0), SINK_IDLE_MS)
