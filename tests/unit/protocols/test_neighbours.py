"""Neighbours: a busy connection leaves many turns to others that have work, and one if it is alone."""

from __future__ import annotations

import asyncio

import pytest
from typing_extensions import override

from goqueue.protocols.neighbours import Neighbours
from goqueue.runtime.waiters import COURTEOUS_TURNS, turns


class ClockedLoop(asyncio.SelectorEventLoop):
    """A loop that keeps asyncio's order of callbacks, and whose clock the test sets."""

    now_s = 0.0

    @override
    def time(self) -> float:
        return self.now_s


@pytest.mark.parametrize(
    ("others", "since_s", "left"),
    [(0, 1.0, 1), (1, 0.01, COURTEOUS_TURNS), (1, 0.03, 1)],
    ids=["alone", "others have work", "others had work long ago"],
)
def test_busy_connection_leaves_turns_to_others_that_have_work(others: int, since_s: float, left: int) -> None:
    async def main() -> int:
        neighbours, busy = Neighbours(), object()
        connections = [busy, *(object() for _ in range(others)), busy]
        for connection in connections:
            neighbours.note(connection)
        loop.now_s += since_s
        neighbours.note(busy)
        gone_on: list[None] = []
        neighbours.give_way(lambda: gone_on.append(None))
        passed = 0
        while not gone_on:
            await turns(1)
            passed += 1
        return passed

    loop = ClockedLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        assert runner.run(main()) == left
