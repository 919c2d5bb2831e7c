"""Neighbours: a busy connection leaves many turns to others that have work, and one if it is alone."""

from __future__ import annotations

import asyncio

from goqueue.protocols.neighbours import Neighbours
from goqueue.runtime.waiters import COURTEOUS_TURNS
from goqueue.testing import Simulation, simulate


def test_connection_that_is_alone_goes_on_in_the_next_turn() -> None:
    async def main(_: Simulation) -> None:
        neighbours, busy = Neighbours(), object()
        neighbours.note(busy)
        await asyncio.sleep(1)
        neighbours.note(busy)
        assert neighbours.give_way() == 1

    simulate(main, 1)


def test_connection_leaves_turns_to_another_that_had_work_a_moment_ago() -> None:
    async def main(_: Simulation) -> None:
        neighbours, busy, modest = Neighbours(), object(), object()
        for connection in (busy, modest, busy):
            neighbours.note(connection)
        await asyncio.sleep(0.01)
        assert neighbours.give_way() == COURTEOUS_TURNS
        await asyncio.sleep(0.02)
        assert neighbours.give_way() == 1

    simulate(main, 1)
