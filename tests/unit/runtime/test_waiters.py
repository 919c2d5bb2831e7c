"""Those who wait for a partition are woken once, in order, when it is their turn, whatever happens to the others."""

from __future__ import annotations

import asyncio
from functools import partial

from goqueue.runtime.waiters import Waiters, Wake, arrival
from goqueue.testing import Simulation, simulate


def test_an_offset_wakes_who_waits_for_it_or_less_and_nobody_else() -> None:
    waiters, woken = Waiters(), list[int]()
    for offset in (5, 1, 3, 1, 9):
        waiters.wait_for(offset, partial(woken.append, offset))
    waiters.reached(3)
    assert woken == [1, 1, 3]
    waiters.reached(3)
    assert woken == [1, 1, 3]
    waiters.reached(100)
    assert woken == [1, 1, 3, 5, 9]
    assert len(waiters) == 0


def test_who_came_first_is_woken_first() -> None:
    waiters, woken = Waiters(), list[str]()
    for name in "abcdef":
        waiters.wait_for(1, partial(woken.append, name))
    waiters.reached(1)
    assert woken == list("abcdef")


def test_who_watches_is_woken_by_any_progress_once() -> None:
    waiters, woken = Waiters(), list[str]()
    watch: Wake = partial(woken.append, "watch")
    waiters.watch(watch)
    waiters.watch(watch)
    waiters.reached(0)
    waiters.reached(1)
    assert woken == ["watch"]


def test_who_forgot_is_not_woken() -> None:
    waiters, woken = Waiters(), list[str]()
    stays, goes = partial(woken.append, "stays"), partial(woken.append, "goes")
    waiters.watch(goes)
    waiters.watch(stays)
    waiters.forget(goes)
    waiters.forget(goes)
    waiters.wake_all()
    assert woken == ["stays"]


def test_all_can_be_woken_in_order() -> None:
    waiters, woken = Waiters(), list[str]()
    waiters.wait_for(7, partial(woken.append, "7"))
    waiters.wait_for(3, partial(woken.append, "3"))
    waiters.watch(partial(woken.append, "watch"))
    waiters.wake_all()
    assert woken == ["3", "7", "watch"]
    assert len(waiters) == 0


def test_who_is_woken_may_wait_again_without_going_round_in_circles() -> None:
    waiters, woken = Waiters(), list[str]()

    def again() -> None:
        woken.append("again")
        waiters.watch(again)
        waiters.wait_for(10, partial(woken.append, "10"))

    waiters.watch(again)
    waiters.reached(5)
    assert woken == ["again"]
    waiters.reached(10)
    assert woken == ["again", "10", "again"]


def test_one_who_fails_does_not_keep_the_others_waiting() -> None:
    woken: list[str] = []
    reported: list[object] = []

    def fail() -> None:
        raise RuntimeError("mine alone")

    async def main(simulation: Simulation) -> None:
        waiters = Waiters()
        simulation.loop.set_exception_handler(lambda loop, context: reported.append(str(context["exception"])))
        for wake in (fail, partial(woken.append, "second")):
            waiters.wait_for(1, wake)
            waiters.watch(wake)
        waiters.reached(1)

    simulate(main, 7)
    assert woken == ["second", "second"]
    assert reported == ["mine alone", "mine alone"]


def test_an_arrival_can_be_cancelled_and_woken_afterwards() -> None:
    async def main(simulation: Simulation) -> None:
        waiters = Waiters()
        waiting = asyncio.create_task(arrival(partial(waiters.wait_for, 1)))
        other = asyncio.create_task(arrival(partial(waiters.wait_for, 1)))
        await asyncio.sleep(0.1)
        waiting.cancel()
        await asyncio.sleep(0.1)
        waiters.reached(1)
        await other

    simulate(main, 7)
