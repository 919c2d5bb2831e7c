"""Share groups among faults: by whichever way members and consumers of one group get messages, queues hold."""

from __future__ import annotations

import pytest

from goqueue.model.log_settings import FlushPolicy
from tests.simulation.group_lives import Ending
from tests.simulation.share_world import ShareWorld, hurry

LIVES = 5


@pytest.fixture(autouse=True)
def _small_coordinators(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)


@pytest.mark.seeds(10, long_count=1_000)
def test_messages_are_done_once_whatever_happens_to_the_broker(seed: int) -> None:
    assert ShareWorld(seed).run(LIVES) == []


@pytest.mark.seeds(5, long_count=300)
def test_the_power_may_fail_during_any_operation_of_the_disk(seed: int) -> None:
    crash_at = 1 + seed * 31 % 500
    assert ShareWorld(1, endings=[Ending.POWER_LOSS], crash_at=crash_at).run(lives=2) == []


@pytest.mark.seeds(3, long_count=300)
def test_a_kill_costs_nothing_if_syncs_come_later(seed: int) -> None:
    assert ShareWorld(seed, FlushPolicy.INTERVAL).run(LIVES) == []
