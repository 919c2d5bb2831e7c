"""Redrives among faults: each dead letter is published again exactly once, whatever happens to the broker."""

from __future__ import annotations

import pytest

from tests.simulation import group_lives
from tests.simulation.group_lives import Ending
from tests.simulation.group_stage import shrink
from tests.simulation.redrive_world import RedriveWorld

LIVES = 6


@pytest.fixture(autouse=True)
def _small_coordinators(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch)
    looked_at = ("orders-0", "orders.dlq-0", "__redrives-0", "__transactions-0", "__transactions-1", "__catalog-0")
    monkeypatch.setattr(group_lives, "LOOKED_AT", looked_at)


@pytest.mark.seeds(8, long_count=3_000)
def test_each_letter_is_published_again_once(seed: int) -> None:
    assert RedriveWorld(seed).run(LIVES) == []


@pytest.mark.seeds(8, long_count=600)
def test_the_power_may_fail_during_any_operation_of_the_disk(seed: int) -> None:
    """Always the same letters and redrives; what differs is when they lose their broker."""
    crash_at = 1 + seed * 23 % 600
    assert RedriveWorld(1, endings=[Ending.POWER_LOSS], crash_at=crash_at).run(lives=3) == []
