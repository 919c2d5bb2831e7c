"""Wait for a refusal, a number of records, or a fact, each with a deadline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from time import monotonic

import pytest

from tests.clients.contract import DEADLINE_S, ErrorCode, Record, Refused


@contextmanager
def refused(code: ErrorCode) -> Iterator[None]:
    """Expect that the broker refuses with this code."""
    with pytest.raises(Refused) as caught:
        yield
    assert caught.value.code == code, str(caught.value)


def take_until(count: int, within_s: float, poll: Callable[[int, float], Iterable[Record]]) -> list[Record]:
    """Call `poll(count_left, seconds_left)` until there are enough records or the time is over."""
    records: list[Record] = []
    deadline = monotonic() + within_s
    while len(records) < count and (left_s := deadline - monotonic()) > 0:
        records += poll(count - len(records), left_s)
    return records


def eventually(fact: Callable[[], bool], what: str) -> None:
    """Wait for a fact that asks the broker each time; another broker may need a moment to spread its metadata."""
    deadline = monotonic() + DEADLINE_S
    while not fact():
        if monotonic() > deadline:
            pytest.fail(f"not within {DEADLINE_S} s: {what}")
