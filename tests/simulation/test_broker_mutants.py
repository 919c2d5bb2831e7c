"""Tests of the tests: each mistake that a broker must not make is made here on purpose, and must be found.

A mutant takes one safeguard away. The simulation has to see it within a few seeds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from goqueue.broker.messages.produce import Acks, Publish
from goqueue.broker.topics.service import TopicService
from goqueue.broker.transactions import producers
from goqueue.broker.transactions.service import TransactionService
from goqueue.errors import GoQueueError
from goqueue.log.batches import NewBatch
from goqueue.log.flush import Flush
from goqueue.machines.catalog import AlterTopic, Catalog, ForgetTopic
from goqueue.machines.decision import KeyedRecord
from goqueue.machines.producer import Duplicate
from goqueue.model.topic import Topic
from goqueue.protocols.kafka.wire.replies import Replies, Slot
from goqueue.runtime.flusher import Flusher
from goqueue.runtime.partition import Appended, Outcome, Partition
from goqueue.runtime.shard import Shard
from goqueue.seams.disk import remove_tree
from goqueue.testing.loop import SimulationError
from tests.protocols.kafka.raw import Closed
from tests.simulation.broker_world import BrokerWorld, Ending
from tests.simulation.mutants import seeds_to_try

SEEDS = 100
LIVES = 4

Patch = pytest.MonkeyPatch


def reply_before_it_is_durable(patch: Patch) -> None:
    """acks=all is answered as acks=1."""
    real = Publish.settle

    def settle(self: Publish, *args: Any) -> None:
        self.acks = Acks.LEADER
        real(self, *args)

    patch.setattr(Publish, "settle", settle)


def readers_see_what_is_not_durable(patch: Patch) -> None:
    """The high watermark of topics is the end of the log, whatever the policy."""
    real = Partition._raise_high_watermark

    def raise_high_watermark(self: Partition) -> None:
        if self.topic.startswith("__"):
            real(self)
        elif self.log.end_offset > self.high_watermark:
            self.high_watermark = self.log.end_offset
            self.waiters.reached(self.log.end_offset)

    patch.setattr(Partition, "_raise_high_watermark", raise_high_watermark)


def duplicates_are_appended(patch: Patch) -> None:
    """The table of producers is asked, but a duplicate is no reason to stop."""
    real = Partition._judge

    def judge(self: Partition, batches: list[NewBatch]) -> Appended | None:
        real(self, batches)
        return None

    patch.setattr(Partition, "_judge", judge)


def gaps_are_taken(patch: Patch) -> None:
    """A batch that does not continue its producer's sequence is stored, unless it is a duplicate."""

    def judge(self: Partition, batches: list[NewBatch]) -> Appended | None:
        header = batches[0].header
        verdict = self.log.producers.decide(header)
        if isinstance(verdict, Duplicate):
            return Appended(verdict.base_offset, verdict.base_offset + header.last_offset_delta + 1)
        return None

    patch.setattr(Partition, "_judge", judge)


def producer_ids_are_not_kept(patch: Patch) -> None:
    """Producer ids are given out without a note in the catalogue."""

    async def reserve(transactions: TransactionService) -> None:
        first = transactions.topics.catalog.next_producer_id
        transactions.producer_ids.next_id, transactions.producer_ids.end = first, first + 1000
        transactions.topics.catalog.next_producer_id = first + 1000

    patch.setattr(producers, "_reserve", reserve)


def the_catalogue_does_not_wait(patch: Patch) -> None:
    """A change of the catalogue is answered before it is durable."""

    async def submit(self: Shard[Any], command: Any) -> Any:
        (answer,) = self._carry_out(command, -1)
        return answer.reply

    patch.setattr(Shard, "submit", submit)


def names_are_free_before_files_are_gone(patch: Patch) -> None:
    """A deleted topic is forgotten first, and its files are removed afterwards, if nothing comes in between."""

    async def finish_removal(self: TopicService, topic: Topic) -> None:
        await self.submit(ForgetTopic(topic.name))
        for directory in self.directories_of(topic):
            await asyncio.get_running_loop().run_in_executor(None, remove_tree, self.core.disk, directory)

    patch.setattr(TopicService, "finish_removal", finish_removal)
    patch.setattr(TopicService, "require_no_files", lambda *_: None)


def files_of_deleted_topics_stay(patch: Patch) -> None:
    """A deleted topic is forgotten, and its files are left where they are."""

    async def finish_removal(self: TopicService, topic: Topic) -> None:
        await self.submit(ForgetTopic(topic.name))

    patch.setattr(TopicService, "finish_removal", finish_removal)


def settings_are_not_stored(patch: Patch) -> None:
    """Changed settings hold until the next start."""
    real = Catalog.plan

    def plan(self: Catalog, command: Any) -> Sequence[KeyedRecord]:
        records = real(self, command)
        return [] if isinstance(command, AlterTopic) else records

    patch.setattr(Catalog, "plan", plan)


def a_failed_flush_is_taken_for_a_good_one(patch: Patch) -> None:
    """Whatever a flush meets, the log is told that it has run."""
    real = Flusher._end

    patch.setattr(Flusher, "_end", lambda self, flush, error: real(self, flush, None))


def deletions_are_not_awaited(patch: Patch) -> None:
    """Deleted records may come back after a power loss, though their deletion was acknowledged."""

    async def delete_before(self: Partition, offset: int) -> int:
        if offset > self.log.start_offset:
            self.log.delete_before(offset)
            self.flusher.note_append()
        return self.log.start_offset

    patch.setattr(Partition, "delete_before", delete_before)


def all_of_a_burst_get_the_first_offset(patch: Patch) -> None:
    """Requests that were written together are all told where the first one is."""
    real = Partition.append

    def append(self: Partition, sections: Sequence[bytearray | memoryview], **how: bool) -> list[Outcome]:
        outcomes = real(self, sections, **how)
        first = next((outcome for outcome in outcomes if isinstance(outcome, Appended)), None)
        return [
            outcome._replace(base_offset=first.base_offset) if isinstance(outcome, Appended) and first else outcome
            for outcome in outcomes
        ]

    patch.setattr(Partition, "append", append)


def replies_leave_when_they_are_ready(patch: Patch) -> None:
    """A reply does not wait for those to earlier requests of its connection."""
    real = Replies.fill

    def fill(self: Replies, slot: Slot, parts: list[bytes]) -> None:
        if slot in self._slots:
            self._slots.remove(slot)
            self._slots.appendleft(slot)
        real(self, slot, parts)

    patch.setattr(Replies, "fill", fill)


def a_start_forgets_who_is_going(patch: Patch) -> None:
    """A topic whose deletion was under way when the power failed is in use again after the start."""
    real = Catalog._apply

    def apply(self: Catalog, key: bytes, value: bytes | None) -> None:
        if value is None or b'"is_going":true' not in value:
            real(self, key, value)

    patch.setattr(Catalog, "_apply", apply)


def an_offset_is_given_again_after_a_full_disk(patch: Patch) -> None:
    """What did not fit is believed to be there: the log goes on behind it."""
    real = Partition._write

    def write(self: Partition, staged: list[tuple[int, list[NewBatch]]], outcomes: list[Outcome], **how: bool) -> None:
        real(self, staged, outcomes, **how)
        for number, _ in staged:
            if isinstance(outcomes[number], GoQueueError) and not self.log.fault:
                outcomes[number] = Appended(self.log.end_offset, self.log.end_offset)

    patch.setattr(Partition, "_write", write)


def the_power_is_believed_to_stay(patch: Patch) -> None:
    """Syncs of logs are left out altogether."""
    patch.setattr(Flush, "run", lambda self: self.checkpoint_file.note(self.checkpoint))


MUTANTS: list[Callable[[Patch], None]] = [
    reply_before_it_is_durable,
    readers_see_what_is_not_durable,
    duplicates_are_appended,
    gaps_are_taken,
    producer_ids_are_not_kept,
    the_catalogue_does_not_wait,
    names_are_free_before_files_are_gone,
    files_of_deleted_topics_stay,
    settings_are_not_stored,
    a_failed_flush_is_taken_for_a_good_one,
    deletions_are_not_awaited,
    all_of_a_burst_get_the_first_offset,
    replies_leave_when_they_are_ready,
    a_start_forgets_who_is_going,
    an_offset_is_given_again_after_a_full_disk,
    the_power_is_believed_to_stay,
]

LIKELY: Mapping[Callable[[Patch], None], int] = {
    reply_before_it_is_durable: 39,
    readers_see_what_is_not_durable: 39,
    the_catalogue_does_not_wait: 5,
    deletions_are_not_awaited: 5,
    names_are_free_before_files_are_gone: 32,
}
"""Seeds that have found those which most others do not find."""


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_the_simulation_finds_the_mutant(mutant: Callable[[Patch], None], monkeypatch: Patch) -> None:
    mutant(monkeypatch)
    seeds = seeds_to_try(SEEDS, LIKELY.get(mutant, 0))
    assert any(map(_is_found, seeds)), f"{mutant.__name__} survived {SEEDS} seeds"


def _is_found(seed: int) -> bool:
    try:
        # What a broker does wrong shows when it ends, and most of it when the power fails.
        return bool(BrokerWorld(seed, endings=[Ending.POWER_LOSS, Ending.POWER_LOSS, Ending.KILL]).run(LIVES))
    except (GoQueueError, AssertionError, OSError, LookupError, SimulationError, Closed, ExceptionGroup):
        return True
