"""Groups among faults: power loss, kills, full and failing disks, silence; what their members were told holds."""

from __future__ import annotations

import pytest

from goqueue.model.log_settings import FlushPolicy
from tests.simulation.group_lives import Ending
from tests.simulation.group_stage import shrink
from tests.simulation.group_world import GroupWorld

LIVES = 4


@pytest.fixture(autouse=True)
def _small_coordinators(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch)


@pytest.mark.seeds(16, long_count=2_000)
def test_groups_keep_their_word_over_many_lives_of_the_broker(seed: int) -> None:
    assert GroupWorld(seed).run(LIVES) == []


@pytest.mark.seeds(8, long_count=500)
def test_the_power_may_fail_during_any_operation_of_the_disk(seed: int) -> None:
    """Always the same members; what differs is when they lose their broker."""
    # In steps, so that few of them go far.
    crash_at = 1 + seed * 23 % 500
    assert GroupWorld(1, endings=[Ending.POWER_LOSS], crash_at=crash_at).run(lives=2) == []


@pytest.mark.seeds(5, long_count=500)
def test_a_kill_costs_groups_nothing_if_syncs_come_later(seed: int) -> None:
    assert GroupWorld(seed, FlushPolicy.INTERVAL).run(LIVES) == []
