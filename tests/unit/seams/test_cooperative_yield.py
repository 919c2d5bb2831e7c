"""Threads that compute for long leave time to others."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from goqueue.errors import Draining
from goqueue.seams.cooperative_yield import ThreadBreath


def compute(breath: ThreadBreath, seconds: float) -> float:
    """Compute for so long in small steps, and return how long that has taken in all."""
    began = time.monotonic()
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        breath()
    return time.monotonic() - began


def test_work_in_a_thread_takes_a_part_of_the_time_only() -> None:
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(compute, ThreadBreath(), 0.05).result() > 0.25


def test_a_breath_that_goes_to_another_thread_goes_on() -> None:
    breath = ThreadBreath()
    compute(breath, 0.05)
    with ThreadPoolExecutor(1) as threads:
        assert 0.05 < threads.submit(compute, breath, 0.02).result() < 5


def test_work_in_a_hurry_takes_half_of_the_time() -> None:
    breath = ThreadBreath()
    breath.hurry()
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(compute, breath, 0.05).result() > 0.09


def test_work_that_nobody_wants_any_more_ends_at_its_next_breath() -> None:
    breath = ThreadBreath()
    with ThreadPoolExecutor(1) as threads:
        working = threads.submit(compute, breath, 3600)
        breath.stop()
        with pytest.raises(Draining):
            working.result()
