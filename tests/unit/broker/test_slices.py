"""Long work on the loop: when it gives way, what it has cost, and how it is cut short."""

from __future__ import annotations

import asyncio

import pytest

from goqueue.broker.slices import PIECES_MAX, SLICE_S, CutShort, Slices
from goqueue.testing import Simulation, simulate


def test_a_slice_ends_with_its_pieces_or_with_its_time() -> None:
    async def main(simulation: Simulation) -> None:
        now = 0.0
        slices = Slices(lambda: now, lambda: False)
        assert [slices.note() for _ in range(PIECES_MAX)] == [False] * (PIECES_MAX - 1) + [True]
        await slices.give_way()
        assert not slices.note()
        now += SLICE_S
        assert slices.note()
        await slices.give_way()
        assert not slices.note(PIECES_MAX - 1)

    simulate(main, 0)


def test_the_turns_of_others_do_not_count() -> None:
    async def main(simulation: Simulation) -> None:
        now = 0.0

        async def other() -> None:
            nonlocal now
            now += 10

        slices = Slices(lambda: now, lambda: False)
        now += 1
        others = asyncio.create_task(other())
        while not others.done():
            await slices.give_way()
        now += 2
        assert slices.busy_s == 3

    simulate(main, 0)


def test_work_that_is_over_ends_at_its_next_pause() -> None:
    async def main(simulation: Simulation) -> None:
        is_over = False
        slices = Slices(simulation.loop.time, lambda: is_over)
        await slices.give_way()
        is_over = True
        with pytest.raises(CutShort):
            await slices.give_way()

    simulate(main, 0)
