"""Power loss, kills and restarts at any moment: what a log promised holds, and it never claims damage that is none."""

from __future__ import annotations

import pytest

from tests.simulation.log_workload import LogWorld

LIVES = 6


@pytest.mark.seeds(200, long_count=50_000)
def test_a_log_keeps_its_promises_over_many_lives(seed: int) -> None:
    assert LogWorld(seed).run(LIVES) == []
