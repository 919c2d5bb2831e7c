"""Threads that compute for long leave time to others."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from goqueue.errors import Draining
from goqueue.seams.cooperative_yield import ThreadPauses


def compute(pause: ThreadPauses, seconds: float) -> float:
    """Compute for so long in small steps, and return how long that has taken in all."""
    began = time.monotonic()
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pause()
    return time.monotonic() - began


def test_work_in_a_thread_takes_a_part_of_the_time_only() -> None:
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(compute, ThreadPauses(), 0.05).result() > 0.25


def test_a_breath_that_goes_to_another_thread_goes_on() -> None:
    pause = ThreadPauses()
    compute(pause, 0.05)
    with ThreadPoolExecutor(1) as threads:
        assert 0.05 < threads.submit(compute, pause, 0.02).result() < 5


def test_work_in_a_hurry_takes_half_of_the_time() -> None:
    pause = ThreadPauses()
    pause.hurry()
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(compute, pause, 0.05).result() > 0.09


def test_work_that_nobody_wants_any_more_ends_at_its_next_breath() -> None:
    pause = ThreadPauses()
    with ThreadPoolExecutor(1) as threads:
        working = threads.submit(compute, pause, 3600)
        pause.stop()
        with pytest.raises(Draining):
            working.result()
