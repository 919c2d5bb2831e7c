"""Tests of the tests: each mistake that would break queues is made here on purpose, and must be found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from goqueue.broker.dead_letters import unconfirmed as letter_doubts
from goqueue.broker.dead_letters import writer as undertaker
from goqueue.broker.dead_letters.unconfirmed import UnconfirmedDeadLetters
from goqueue.broker.dead_letters.writer import DeadLetterWriter
from goqueue.broker.queues import start_positions as queue_beginnings
from goqueue.broker.queues.candidates import find
from goqueue.log.checkpoint import Checkpoint
from goqueue.log.epochs import NO_EPOCH
from goqueue.machines.decision import Decision, Now
from goqueue.machines.queues import group as delivery_group
from goqueue.machines.queues import machine as deliveries
from goqueue.machines.queues import steps as delivery_steps
from goqueue.machines.queues.commands import MarkDeadLettered, Offer, Receive, Settle, Taker
from goqueue.machines.queues.draft import QueueDraft
from goqueue.machines.queues.machine import QueueMachine
from goqueue.machines.queues.records import QueueKeyKind, read_key
from goqueue.machines.queues.steps import Passed
from goqueue.machines.queues.values import Delivery, Flight, FlightState
from goqueue.model.dead_letters import dead_letters_of
from goqueue.model.queue_settings import QueueSettings
from tests.simulation.group_stage import bury_one_by_one, shrink
from tests.simulation.mutants import Mutant, Patch, require_found
from tests.simulation.queue_world import LossyQueueWorld, QueueWorld

SEEDS = 60
LIVES = 5


def acks_are_told_before_they_are_durable(patch: Patch) -> None:
    """A queue answers as soon as it has decided."""
    real = QueueMachine.decide

    def decide(self: QueueMachine, command: Any, ticket: int, now: Now) -> Decision:
        decision = real(self, command, ticket, now)
        return msgspec.structs.replace(decision, is_told_at_once=isinstance(command, Settle | Receive))

    patch.setattr(QueueMachine, "decide", decide)


def any_receipt_is_good(patch: Patch) -> None:
    """Whoever has had a message once may settle it."""
    real = delivery_steps.is_leased

    def is_leased(lease_id: int, now: Now, flight: Flight) -> bool:
        return real(lease_id if flight.lease is None else flight.lease.id, now, flight)

    patch.setattr(delivery_steps, "is_leased", is_leased)


def expired_messages_are_done(patch: Patch) -> None:
    """A consumer that is silent for too long has done its work."""

    def pass_time(draft: QueueDraft, chunk: int, settings: QueueSettings, now: Now) -> Passed:
        known = draft.window.chunks.get(chunk)
        for offset, flight in () if known is None else list(known.flights.items()):
            if flight.state is FlightState.LEASED and flight.until.monotonic_ms <= now.monotonic_ms:
                draft.finish(offset)
        return real(draft, chunk, settings, now) if not draft.moves else Passed(len(draft.moves), 0)

    real = delivery_steps.pass_time
    patch.setattr(deliveries, "pass_time", pass_time)


def failures_are_not_counted(patch: Patch) -> None:
    """Every delivery counts as one that was given back."""
    patch.setattr(Flight, "tries", property(lambda self: 0))


def leased_messages_are_ready_again(patch: Patch) -> None:
    """A receive takes what others have."""
    real = delivery_steps.lease

    def lease(draft: QueueDraft, offer: Offer, taker: Taker, now: Now, room: int) -> Iterator[Delivery]:
        for chunk in list(draft.window.chunks.values()):
            for offset, flight in list(chunk.flights.items())[:1]:
                if flight.state is FlightState.LEASED and offset in chunk.flights:
                    draft.put(offset, flight._replace(state=FlightState.READY))
        yield from real(draft, offer, taker, now, room)

    patch.setattr(deliveries, "lease", lease)


def keys_are_taken_for_free(patch: Patch) -> None:
    """A receive looks only at what it leases itself."""
    patch.setattr(delivery_steps, "_is_busy", lambda draft, key: False)


def messages_are_passed_over(patch: Patch) -> None:
    """The cursor goes on behind one more message than was leased."""
    real = QueueDraft.advance

    def advance(self: QueueDraft, end: int, fresh: Any) -> None:
        if fresh and end == fresh[-1] + 1 and len(fresh) % 5 == 4:
            end += 1
        real(self, end, fresh)

    patch.setattr(QueueDraft, "advance", advance)


def dead_messages_are_buried_without_a_letter(patch: Patch) -> None:
    """The undertaker forgets to write."""

    async def forget(self: DeadLetterWriter, partition: Any, letters: Any) -> list[None]:
        del self, partition
        return [None] * len(letters)

    patch.setattr(DeadLetterWriter, "_publish", forget)


def dead_messages_are_buried_before_their_letters(patch: Patch) -> None:
    """A message is settled, and then its letter is written."""

    async def bury_first(self: DeadLetterWriter, burial: Any) -> bool:
        name, where = burial.group, burial.where
        machine = await self._service.queues.machine(name)
        group = machine.require(name)
        window = group.windows[where]
        dead = list(window.dead)
        partition = self._service.topics.topic(where.topic).partition(where.partition)
        letters, leases = [], {}
        for offset in dead:
            record, flight = find(partition, offset), window.find(offset)
            assert record is not None
            assert flight is not None
            assert flight.lease is not None
            leases[offset] = flight.lease.id
            letters.append(undertaker._letter(group, where, record, flight, 0))
        await self._service.queues.submit(name, MarkDeadLettered(name, where, window.topic_id, leases))
        if letters:
            target = await self._target(dead_letters_of(where.topic), where)
            await self._publish(target.partition, letters)
        return bool(dead)

    patch.setattr(DeadLetterWriter, "_bury_some", bury_first)


def letters_are_written_without_a_look(patch: Patch) -> None:
    """After a start, the undertaker takes for granted that no letter was written."""

    async def nothing(*args: object) -> letter_doubts._Former:
        del args
        return letter_doubts._Former({}, None)

    patch.setattr(UnconfirmedDeadLetters, "_look_back", nothing)


def it_is_not_stored_where_letters_will_lie(patch: Patch) -> None:
    """The undertaker writes letters without telling anybody first where they will be."""
    patch.setattr(UnconfirmedDeadLetters, "places", lambda self, dead, window, target, certain: window.letter_places)


def what_is_in_flight_is_not_stored(patch: Patch) -> None:
    """Only what is done is stored."""
    real = delivery_group.draft_records

    def without_chunks(group: str, partition: Any, draft: QueueDraft) -> Any:
        return [each for each in real(group, partition, draft) if read_key(each.key).kind is not QueueKeyKind.FLIGHTS]

    patch.setattr(deliveries, "draft_records", without_chunks)


def groups_take_what_is_before_their_cursor_for_theirs(patch: Patch) -> None:
    """A group goes back only if its topic ends before its cursor."""
    patch.setattr(queue_beginnings, "_kept_end", lambda log, window: log.end_offset)


def epochs_are_given_again(patch: Patch) -> None:
    """A log takes the last epoch that is left in it for the last one that there was."""
    real = Checkpoint.at
    patch.setattr(Checkpoint, "at", lambda start, last, epoch: real(start, last, NO_EPOCH))


LIKELY: dict[Mutant, int] = {
    leased_messages_are_ready_again: 1,
    keys_are_taken_for_free: 7,
    messages_are_passed_over: 2,
    letters_are_written_without_a_look: 8,
    it_is_not_stored_where_letters_will_lie: 30,
    groups_take_what_is_before_their_cursor_for_theirs: 2,
}
"""Seeds that have found those which most others do not find."""

MUTANTS = [
    acks_are_told_before_they_are_durable,
    any_receipt_is_good,
    expired_messages_are_done,
    failures_are_not_counted,
    leased_messages_are_ready_again,
    keys_are_taken_for_free,
    messages_are_passed_over,
    dead_messages_are_buried_without_a_letter,
    dead_messages_are_buried_before_their_letters,
    what_is_in_flight_is_not_stored,
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_each_mistake_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch)
    require_found(mutant, lambda seed: QueueWorld(seed).run(LIVES), seeds=SEEDS, likely=LIKELY.get(mutant, 0))


@pytest.mark.parametrize(
    "mutant",
    [letters_are_written_without_a_look, it_is_not_stored_where_letters_will_lie],
    ids=lambda mutant: mutant.__name__,
)
def test_each_mistake_about_letters_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch)
    bury_one_by_one(monkeypatch)
    require_found(mutant, lambda seed: QueueWorld(seed).run(LIVES), seeds=SEEDS, likely=LIKELY.get(mutant, 0))


@pytest.mark.parametrize(
    "mutant",
    [groups_take_what_is_before_their_cursor_for_theirs, epochs_are_given_again],
    ids=lambda mutant: mutant.__name__,
)
def test_each_mistake_about_lost_messages_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch)
    require_found(mutant, lambda seed: LossyQueueWorld(seed).run(LIVES), seeds=SEEDS, likely=LIKELY.get(mutant, 0))
