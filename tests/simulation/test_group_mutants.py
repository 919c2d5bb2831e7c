"""Tests of the tests: each mistake that would break groups is made here on purpose, and must be found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from goqueue.broker.topics.service import TopicService
from goqueue.errors import GoQueueError
from goqueue.machines.decision import Decision
from goqueue.machines.groups import machine as groups
from goqueue.machines.groups.classic import group as classic_group
from goqueue.machines.groups.classic import joining as classic_joining
from goqueue.machines.groups.classic import rounds as classic_rounds
from goqueue.machines.groups.classic.values import ClassicGroup, ClassicStep, Join
from goqueue.machines.groups.commands import CommitOffsets
from goqueue.machines.groups.consumer import group as consumer_group
from goqueue.machines.groups.machine import GroupMachine
from goqueue.runtime.shard import Shard
from tests.simulation.group_lives import Ending
from tests.simulation.group_stage import answer_at_once, shrink
from tests.simulation.group_world import GroupWorld
from tests.simulation.mutants import Mutant, Patch, require_found

SEEDS = 40
LIVES = 3


def answers_come_before_they_are_durable(patch: Patch) -> None:
    """A coordinator answers as soon as it has decided."""
    answer_at_once(patch)


def anybody_can_commit(patch: Patch) -> None:
    """Neither generation nor epoch of a member that commits is looked at."""

    def check_commit(_: object, command: CommitOffsets) -> list[GoQueueError | None]:
        return [None] * len(command.offsets)

    patch.setattr(groups, "check_commit", check_commit)


def old_generations_can_commit(patch: Patch) -> None:
    """The generation of a member that commits is not looked at."""
    real = classic_group.check_commit

    def check_commit(group: ClassicGroup, member_id: str, generation: int, *args: Any, **options: Any) -> Any:
        return real(group, member_id, group.generation if generation >= 0 else -1, *args, **options)

    patch.setattr(classic_group, "check_commit", check_commit)


def old_epochs_can_commit(patch: Patch) -> None:
    """A member whose broker assigns may commit whatever it likes, in any epoch."""

    patch.setattr(consumer_group, "check_commit", lambda *_: {})


def partitions_are_given_away_too_early(patch: Patch) -> None:
    """A member gets what it is to have, whether others have given it back or not."""
    patch.setattr(consumer_group, "_held_by_others", lambda *_: frozenset())


def nobody_has_to_give_back(patch: Patch) -> None:
    """Members move on to their next epoch without giving anything back."""
    patch.setattr(consumer_group, "_left", lambda *_: frozenset())


def generations_are_not_stored(patch: Patch) -> None:
    """A generation that begins is told, but stored only with its assignments."""
    real = GroupMachine.decide

    def decide(self: GroupMachine, command: Any, *args: Any) -> Decision:
        decision = real(self, command, *args)
        return msgspec.structs.replace(decision, records=()) if isinstance(command, Join) else decision

    patch.setattr(GroupMachine, "decide", decide)


def generations_are_not_counted(patch: Patch) -> None:
    """A round ends without a new generation."""
    real = classic_rounds.complete_round

    def complete_round(group: ClassicGroup, now: Any) -> ClassicStep:
        return real(replace(group, generation=max(group.generation - 1, 0)), now)

    patch.setattr(classic_rounds, "complete_round", complete_round)
    patch.setattr(classic_group, "complete_round", complete_round)


def sessions_are_not_revived(patch: Patch) -> None:
    """After a start, the sessions of members are over, or there are none."""
    patch.setattr(consumer_group, "revive", lambda group, _: group)
    patch.setattr(classic_group, "revive", lambda group, _: group)


def classic_sessions_are_not_revived(patch: Patch) -> None:
    """After a start, nobody notices that a member of a classic group is silent."""
    patch.setattr(classic_group, "revive", lambda group, _: group)


def silence_is_not_noticed(patch: Patch) -> None:
    """Members of a group whose broker assigns are never given up."""
    patch.setattr(consumer_group, "deadline_ms", lambda *_: None)


def offsets_of_deleted_topics_stay(patch: Patch) -> None:
    """A topic that is made again inherits offsets."""

    async def submit_to_all(*_: object) -> None:
        return None

    patch.setattr("goqueue.broker.coordinator.Coordinator.submit_to_all", submit_to_all)


def deleted_offsets_come_back(patch: Patch) -> None:
    """What is removed is not stored."""
    real = GroupMachine._forget

    def forget(self: GroupMachine, *args: Any) -> Decision:
        decision = real(self, *args)
        for record in decision.records:
            self.offsets.apply(record)
        return msgspec.structs.replace(decision, records=())

    patch.setattr(GroupMachine, "_forget", forget)


def new_topics_are_not_noticed(patch: Patch) -> None:
    """Groups hear of topics only when their members change."""
    patch.setattr(TopicService, "_topics_changed", lambda self, _: None)
    patch.setattr(GroupMachine, "topics_changed", lambda self, _: None)


def joiners_are_forgotten(patch: Patch) -> None:
    """Somebody who joins twice is answered once."""
    real = classic_joining._add_joiner

    def add_joiner(*args: Any) -> ClassicStep:
        step = real(*args)
        return ClassicStep(step.group, step.answers[1:])

    patch.setattr(classic_joining, "_add_joiner", add_joiner)


def the_stop_forgets_who_waits(patch: Patch) -> None:
    """A broker that stops leaves those who wait for a group without an answer."""
    patch.setattr(Shard, "close", lambda self: setattr(self, "_is_closed", True))


def members_are_not_stored_with_their_group(patch: Patch) -> None:
    """Only the first record of every change of a group is stored."""
    real: Callable[..., Sequence[Any]] = groups._changes
    patch.setattr(groups, "_changes", lambda *args: real(*args)[:1])


MUTANTS: list[Mutant] = [
    answers_come_before_they_are_durable,
    anybody_can_commit,
    old_generations_can_commit,
    old_epochs_can_commit,
    partitions_are_given_away_too_early,
    nobody_has_to_give_back,
    generations_are_not_stored,
    generations_are_not_counted,
    sessions_are_not_revived,
    classic_sessions_are_not_revived,
    silence_is_not_noticed,
    offsets_of_deleted_topics_stay,
    deleted_offsets_come_back,
    new_topics_are_not_noticed,
    joiners_are_forgotten,
    the_stop_forgets_who_waits,
    members_are_not_stored_with_their_group,
]

LIKELY: Mapping[Mutant, int] = {
    answers_come_before_they_are_durable: 16,
    new_topics_are_not_noticed: 52,
}
"""Seeds that have found those which most others do not find."""


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_the_simulation_finds_the_mutant(mutant: Mutant, monkeypatch: Patch) -> None:
    shrink(monkeypatch)
    require_found(mutant, _violations, seeds=SEEDS, likely=LIKELY.get(mutant, 0))


def _violations(seed: int) -> Sequence[str]:
    return GroupWorld(seed, endings=[Ending.POWER_LOSS, Ending.KILL, Ending.STOP]).run(LIVES)
