"""Tests of the tests: each mistake that would break redrives is made here on purpose, and must be found."""

from __future__ import annotations

from typing import Any

import pytest

from goqueue.broker.redrives import runner as redriver
from goqueue.broker.redrives.runner import RedriveRunner
from goqueue.broker.transactions.sinks import commit_batch
from goqueue.errors import GoQueueError
from goqueue.machines.redrives.redriven import Redriven
from goqueue.machines.redrives.values import Redrive
from tests.simulation.group_stage import shrink
from tests.simulation.mutants import Mutant, Patch, require_found
from tests.simulation.redrive_kill import violations_after_a_kill
from tests.simulation.redrive_world import RedriveWorld

SEEDS = 40
LIVES = 6


def nobody_asks_whether_a_batch_was_committed(patch: Patch) -> None:
    """A batch that was planned is taken for undone."""

    async def settled(self: RedriveRunner, job: Redrive) -> Redrive:
        del self
        return job

    patch.setattr(RedriveRunner, "_settled", settled)


def what_is_planned_is_taken_for_done(patch: Patch) -> None:
    """A batch that was planned is advanced, whatever has become of it."""

    async def settled(self: RedriveRunner, job: Redrive) -> Redrive:
        return job if job.batch is None else await self._advance(job, job.batch)

    patch.setattr(RedriveRunner, "_settled", settled)


def nothing_is_committed(patch: Patch) -> None:
    """Batches are staged, and left to their fate."""

    async def commit(self: RedriveRunner, sink: str, number: int, staged: Any) -> None:
        del self, sink, number, staged

    patch.setattr(RedriveRunner, "_commit", commit)


def letters_are_not_marked(patch: Patch) -> None:
    """A second redrive does not know of the first."""
    patch.setattr(Redriven, "marked", lambda *_: iter(()))


def failures_are_taken_for_done(patch: Patch) -> None:
    """What cannot be committed is passed over."""
    real = commit_batch

    async def commit(*arguments: Any) -> Any:
        try:
            return await real(*arguments)
        except GoQueueError:
            return None

    patch.setattr(redriver, "commit_batch", commit)


MUTANTS = [
    what_is_planned_is_taken_for_done,
    nothing_is_committed,
    letters_are_not_marked,
    failures_are_taken_for_done,
]
LIKELY: dict[Mutant, int] = {
    what_is_planned_is_taken_for_done: 5,
    failures_are_taken_for_done: 73,
}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_each_mistake_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch)
    require_found(mutant, lambda seed: RedriveWorld(seed).run(LIVES), seeds=SEEDS, likely=LIKELY.get(mutant, 0))


def test_a_batch_that_is_not_asked_about_after_a_kill_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch)
    require_found(nobody_asks_whether_a_batch_was_committed, lambda _: violations_after_a_kill(), seeds=1)
