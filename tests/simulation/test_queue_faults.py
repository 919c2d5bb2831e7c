"""Queues among faults: nothing is lost, nothing that is done comes back, and nobody holds what another one has."""

from __future__ import annotations

import pytest

from goqueue.model.log_settings import FlushPolicy
from tests.simulation.group_lives import Ending
from tests.simulation.group_stage import bury_one_by_one, shrink
from tests.simulation.queue_world import LossyQueueWorld, QueueWorld

LIVES = 5


@pytest.fixture(autouse=True)
def _small_coordinators(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch)


@pytest.mark.seeds(12, long_count=3_000)
def test_messages_are_done_once_whatever_happens_to_the_broker(seed: int) -> None:
    assert QueueWorld(seed).run(LIVES) == []


@pytest.mark.seeds(6, long_count=1_000)
def test_each_dead_message_has_one_letter_though_they_are_written_one_by_one(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    bury_one_by_one(monkeypatch)
    assert QueueWorld(seed).run(LIVES) == []


@pytest.mark.seeds(6, long_count=500)
def test_the_power_may_fail_during_any_operation_of_the_disk(seed: int) -> None:
    """Always the same workers; what differs is when they lose their broker."""
    crash_at = 1 + seed * 23 % 500
    assert QueueWorld(1, endings=[Ending.POWER_LOSS], crash_at=crash_at).run(lives=2) == []


@pytest.mark.seeds(5, long_count=1_000)
def test_a_kill_costs_nothing_if_syncs_come_later(seed: int) -> None:
    assert QueueWorld(seed, FlushPolicy.INTERVAL).run(LIVES) == []


@pytest.mark.seeds(8, long_count=1_000)
def test_what_is_left_is_delivered_though_the_power_takes_messages_and_groups_cannot_be_read(seed: int) -> None:
    assert LossyQueueWorld(seed).run(LIVES) == []
