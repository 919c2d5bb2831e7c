"""Batches of sinks: several transactions that commit together, once for each batch.

| asked for               | the batch was not committed yet       | it was, or a later one was                        |
|-------------------------|---------------------------------------|---------------------------------------------------|
| all stages are open     | all are committed, it is the last one | nothing; they were staged again: all are aborted  |
| a stage is not open     | refused, nothing changes              | nothing; the others are aborted                   |

A sink that does not hear the answer asks again, perhaps with other stages, since its tasks have run once more: that is
told as done, and changes nothing. All is decided at once, in one place and by one write, so that a crash leaves all
stages of a batch committed or none. Which batch follows which is for the sink to know: the numbers only have to rise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from goqueue.errors import Corrupt, Invalid, InvalidTransactionState
from goqueue.machines.decision import KeyedRecord, Now
from goqueue.machines.transactions import steps
from goqueue.machines.transactions.values import CommitBatch, SinkStage, Transaction

SINK_IDLE_MS = 30 * 24 * 60 * 60 * 1000
"""For how long the last batch of a sink is remembered."""

STAGES_MAX = 4_000
"""How many transactions one batch may commit: all are decided at once, and nobody else has a turn meanwhile."""


class CommittedBatch(msgspec.Struct, frozen=True):
    """The last batch of a sink, and when it was committed."""

    batch: int
    committed_ms: int


class BatchCommit(NamedTuple):
    """What a sink is told: the last batch that is committed, and which of the stages it named belong to such a batch.

    `is_new` says that this request has committed it.
    """

    batch: int
    committed: tuple[SinkStage, ...]
    is_new: bool


class BatchStep(NamedTuple):
    """The last batch of a sink as it is next, the transactions that change with it, and the answer."""

    last: CommittedBatch
    transactions: tuple[Transaction, ...]
    reply: BatchCommit


def commit_batch(
    last: CommittedBatch | None, command: CommitBatch, known: Mapping[str, Transaction], now: Now
) -> BatchStep:
    """Commit what was staged for a batch, unless that has happened; raises what forbids it."""
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
    """Return the transaction of a stage, which its task has not lost to anybody."""
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
    """Return the record that holds the last batch of a sink."""
    return KeyedRecord(key.encode(), msgspec.json.encode(last))


def read_batch(key: str, value: bytes) -> CommittedBatch:
    """Return the batch that a record holds; Corrupt if it holds none."""
    try:
        return msgspec.json.decode(value, type=CommittedBatch)
    except msgspec.MsgspecError as error:
        raise Corrupt(f"the record of {key!r} cannot be read: {error}") from error


def forgotten_at_ms(last: CommittedBatch, now: Now) -> int:
    """Return when the last batch of a sink is forgotten, in monotonic time."""
    idle_ms = now.wall_ms - last.committed_ms
    return now.monotonic_ms + SINK_IDLE_MS - min(max(idle_ms, 0), SINK_IDLE_MS)
