"""Transactions among faults: they happen as a whole or not at all, and nobody waits for them for ever."""

from __future__ import annotations

import pytest

from goqueue.model.log_settings import FlushPolicy
from tests.simulation.group_lives import Ending
from tests.simulation.group_stage import shrink
from tests.simulation.txn_world import TransactionWorld

LIVES = 6


@pytest.fixture(autouse=True)
def _small_coordinators(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch)


@pytest.mark.seeds(12, long_count=3_000)
def test_transactions_are_whole_whatever_happens_to_the_broker(seed: int) -> None:
    assert TransactionWorld(seed).run(LIVES) == []


@pytest.mark.seeds(8, long_count=500)
def test_the_power_may_fail_during_any_operation_of_the_disk(seed: int) -> None:
    """Always the same producers; what differs is when they lose their broker."""
    # In steps, so that few of them go far.
    crash_at = 1 + seed * 23 % 500
    assert TransactionWorld(1, endings=[Ending.POWER_LOSS], crash_at=crash_at).run(lives=2) == []


@pytest.mark.seeds(4, long_count=1_000)
def test_a_kill_costs_no_transaction_if_syncs_come_later(seed: int) -> None:
    assert TransactionWorld(seed, FlushPolicy.INTERVAL).run(LIVES) == []
