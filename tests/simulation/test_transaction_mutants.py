"""Tests of the tests: each mistake that would break transactions is made here on purpose, and must be found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from goqueue.broker.coordinator import Coordinator
from goqueue.broker.groups import membership as groups
from goqueue.broker.groups.service import GroupService
from goqueue.broker.messages.aborted import Aborted
from goqueue.broker.transactions import coordination as operations
from goqueue.broker.transactions import publish as transaction_publish
from goqueue.broker.transactions.marker_writer import TransactionMarkerWriter
from goqueue.errors import GoQueueError
from goqueue.machines.decision import TicketReply
from goqueue.machines.groups.commands import CommitOffsets, EndOffsets
from goqueue.machines.groups.offsets import OffsetTable
from goqueue.machines.producer import ProducerTable
from goqueue.machines.transactions import machine, steps
from goqueue.machines.transactions import sinks as transaction_sinks
from goqueue.machines.transactions.machine import TransactionMachine
from goqueue.machines.transactions.values import CommitBatch, Ending, EndTransaction, Init, Transaction
from goqueue.model.sinks import is_sink_key
from goqueue.runtime.partition import Partition
from goqueue.runtime.shard import Shard
from tests.simulation.group_lives import Ending as LifeEnding
from tests.simulation.group_stage import answer_at_once, shrink
from tests.simulation.mutants import Mutant, Patch, require_found
from tests.simulation.txn_world import TransactionWorld

SEEDS = 80
LIVES = 6


def answers_come_before_they_are_durable(patch: Patch) -> None:
    """A coordinator answers as soon as it has decided."""
    answer_at_once(patch)


def markers_come_before_the_decision_is_durable(patch: Patch) -> None:
    """What is to be done to end a transaction is done as soon as that is decided."""
    real = Shard._carry_out

    def carry_out(self: Shard[Any], command: Any, ticket: int) -> Sequence[Any]:
        answers = real(self, command, ticket)
        if self._changed is not None:
            self._changed()
        return answers

    async def wait_for_nothing(*_: object) -> None:
        return None

    patch.setattr(Shard, "_carry_out", carry_out)
    patch.setattr(TransactionMarkerWriter, "_decided", wait_for_nothing)


def writers_do_not_wait_until_the_coordinator_knows(patch: Patch) -> None:
    """What belongs to a transaction is written before that is durable."""

    async def wait_for_nothing(*_: object) -> None:
        return None

    patch.setattr(transaction_publish, "known", wait_for_nothing)
    patch.setattr(operations, "known", wait_for_nothing)


def transactions_are_complete_before_their_markers(patch: Patch) -> None:
    """The end of a transaction is noted without waiting for its markers."""

    async def finish(self: TransactionMarkerWriter, ending: Ending, which: tuple[str, int]) -> None:
        try:
            for topic, index in sorted(ending.partitions):
                if topic in self._service.topics.by_name:
                    partition = self._service.topics.by_name[topic].partition(index)
                    partition.end_transaction(ending.producer_id, ending.epoch, is_commit=ending.is_commit)
            for group in sorted(ending.groups):
                await self._service.groups.submit(group, EndOffsets(ending.producer_id, ending.is_commit))
            await self._service.submit(ending.id, ending.completion)
        except GoQueueError:
            return
        finally:
            self._under_way.discard(which)

    patch.setattr(TransactionMarkerWriter, "_finish", finish)


def anybody_can_end_a_transaction(patch: Patch) -> None:
    """The epoch of whoever ends a transaction is not looked at."""
    real = steps.end

    def end(transaction: Transaction, command: EndTransaction, *args: Any) -> steps.TransactionStep:
        if transaction.holder is not None:
            command = replace(command, producer_id=transaction.producer_id, epoch=transaction.epoch)
        return real(transaction, command, *args)

    patch.setattr(steps, "end", end)


def offsets_of_transactions_are_forgotten(patch: Patch) -> None:
    """Offsets that wait for the end of a transaction are not told of it."""
    real = TransactionMachine.ending
    patch.setattr(TransactionMachine, "ending", lambda self: [replace(each, groups=frozenset()) for each in real(self)])


def offsets_do_not_wait_for_the_end(patch: Patch) -> None:
    """Offsets of a transaction are set at once."""
    real = groups.set_offsets

    async def set_offsets(service: GroupService, command: CommitOffsets) -> Sequence[GoQueueError | None]:
        return await real(service, replace(command, producer_id=None))

    patch.setattr(operations, "set_offsets", set_offsets)


def aborted_offsets_are_set(patch: Patch) -> None:
    """However a transaction ends, its offsets are set."""
    real = OffsetTable.end_pending
    patch.setattr(OffsetTable, "end_pending", lambda self, producer_id, **_: real(self, producer_id, is_commit=True))


def known_epochs_get_no_markers(patch: Patch) -> None:
    """A marker is taken for needless if its epoch is known."""

    def wants_marker(self: ProducerTable, producer_id: int, epoch: int) -> bool:
        known = self._producers.get(producer_id)
        return known is None or known.epoch < epoch

    patch.setattr(ProducerTable, "wants_marker", wants_marker)


def open_transactions_can_be_read(patch: Patch) -> None:
    """The last stable offset is the high watermark."""
    patch.setattr(Partition, "last_stable_offset", property(lambda self: self.high_watermark))


def aborted_transactions_can_be_read(patch: Patch) -> None:
    """Nobody asks which transactions were aborted."""
    patch.setattr(Aborted, "hides", lambda *_: False)


def takeovers_fence_nobody(patch: Patch) -> None:
    """Whoever takes a transactional id gets the identity that there is."""
    real = steps._init_idle

    def init_idle(transaction: Transaction, command: Init, now: Any) -> Transaction:
        after = real(transaction, command, now)
        return msgspec.structs.replace(after, producer_id=transaction.producer_id, epoch=transaction.epoch)

    patch.setattr(steps, "_init_idle", init_idle)


def anybody_can_write_in_a_transaction(patch: Patch) -> None:
    """The coordinator is not asked whether a producer may write."""
    patch.setattr(TransactionMachine, "verify", lambda *_: None)
    patch.setattr(operations, "verify", lambda *_: None)


def transactions_never_time_out(patch: Patch) -> None:
    """What is due with transactions is never done."""
    patch.setattr(TransactionMachine, "deadline_ms", lambda *_: None)


def what_is_prepared_is_left_at_the_start(patch: Patch) -> None:
    """A broker that starts does not go on with what another one has decided."""
    real = TransactionMachine.ending
    patch.setattr(TransactionMachine, "revive", lambda self, now: setattr(self, "_begun", dict(self._ending)))

    def ending(self: TransactionMachine) -> Sequence[Ending]:
        begun = getattr(self, "_begun", {})
        return [each for each in real(self) if begun.get(each.id) != each]

    patch.setattr(TransactionMachine, "ending", ending)


def outcomes_are_mixed_up(patch: Patch) -> None:
    """A transaction whose producer asks once more is told that it was committed, whatever happened."""

    def end_again(transaction: Transaction, command: EndTransaction, ticket: int) -> steps.TransactionStep:
        if transaction.is_ending:
            return steps.wait_for_end(transaction, ticket)
        return steps.TransactionStep(transaction, (TicketReply(ticket, transaction.identity),))

    patch.setattr(steps, "_end_again", end_again)
    real = steps._prepare

    def prepare(transaction: Transaction, now: Any, *, is_commit: bool, **options: Any) -> Transaction:
        return real(transaction, now, is_commit=is_commit and len(transaction.partitions) < 2, **options)

    patch.setattr(steps, "_prepare", prepare)


def identities_are_not_stored(patch: Patch) -> None:
    """Who has a transactional id is known until the next start."""
    real = TransactionMachine.decide

    def decide(self: TransactionMachine, command: Any, *args: Any) -> Any:
        decision = real(self, command, *args)
        return msgspec.structs.replace(decision, records=()) if isinstance(command, Init) else decision

    patch.setattr(TransactionMachine, "decide", decide)


def batches_are_committed_again(patch: Patch) -> None:
    """Which batch a sink has committed is not looked at."""
    real = transaction_sinks.commit_batch
    patch.setattr(machine, "commit_batch", lambda last, *rest: real(None, *rest))


def batches_are_not_stored(patch: Patch) -> None:
    """Which batch a sink has committed is known until the next start."""
    real = TransactionMachine._commit_batch

    def commit_batch(self: TransactionMachine, *args: Any) -> Any:
        decision = real(self, *args)
        return msgspec.structs.replace(
            decision, records=[each for each in decision.records if not is_sink_key(each.key.decode())]
        )

    patch.setattr(TransactionMachine, "_commit_batch", commit_batch)


def stages_are_committed_one_by_one(patch: Patch) -> None:
    """The stages of a batch are ended as if they had nothing to do with each other, and the batch is noted then."""
    real = Coordinator.submit

    async def submit(self: Coordinator[Any, Any], key: str, command: Any) -> Any:
        if not isinstance(command, CommitBatch):
            return await real(self, key, command)
        for stage in command.stages:
            with suppress(GoQueueError):
                end = EndTransaction(*stage, is_commit=True, bumps_epoch=True, spare_producer_id=-1)
                await real(self, stage.id, end)
        return await real(self, key, replace(command, stages=()))

    patch.setattr(Coordinator, "submit", submit)


def stages_of_others_are_committed(patch: Patch) -> None:
    """Who has staged something is not looked at when it is committed."""
    patch.setattr(transaction_sinks, "_open", lambda stage, known: known[stage.id])


MUTANTS: list[Mutant] = [
    answers_come_before_they_are_durable,
    markers_come_before_the_decision_is_durable,
    writers_do_not_wait_until_the_coordinator_knows,
    transactions_are_complete_before_their_markers,
    anybody_can_end_a_transaction,
    offsets_of_transactions_are_forgotten,
    offsets_do_not_wait_for_the_end,
    aborted_offsets_are_set,
    known_epochs_get_no_markers,
    open_transactions_can_be_read,
    aborted_transactions_can_be_read,
    takeovers_fence_nobody,
    anybody_can_write_in_a_transaction,
    transactions_never_time_out,
    what_is_prepared_is_left_at_the_start,
    outcomes_are_mixed_up,
    identities_are_not_stored,
    batches_are_committed_again,
    batches_are_not_stored,
    stages_are_committed_one_by_one,
    stages_of_others_are_committed,
]

LIKELY: Mapping[Mutant, int] = {
    answers_come_before_they_are_durable: 1,
    writers_do_not_wait_until_the_coordinator_knows: 3,
    transactions_are_complete_before_their_markers: 14,
    offsets_of_transactions_are_forgotten: 8,
    markers_come_before_the_decision_is_durable: 10,
    open_transactions_can_be_read: 5,
    anybody_can_write_in_a_transaction: 17,
}
"""Seeds that have found those which most others do not find."""


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_the_simulation_finds_the_mutant(mutant: Mutant, monkeypatch: Patch) -> None:
    shrink(monkeypatch)
    require_found(mutant, _violations, seeds=SEEDS, likely=LIKELY.get(mutant, 0))


def _violations(seed: int) -> Sequence[str]:
    endings = [LifeEnding.POWER_LOSS, LifeEnding.POWER_LOSS, LifeEnding.KILL]
    return TransactionWorld(seed, endings=endings).run(LIVES)
