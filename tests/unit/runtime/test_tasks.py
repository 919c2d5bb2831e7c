"""Tasks have an owner: they end with it, outlive their callers, and no error of theirs is lost."""

from __future__ import annotations

import asyncio

import pytest

from goqueue.runtime.tasks import TaskFailed, Tasks
from goqueue.testing import RecordingSink, Simulation, simulate


def run(main: object) -> RecordingSink:
    """Run a test with tasks of its own, and return what they reported."""
    sink = RecordingSink()

    async def body(simulation: Simulation) -> None:
        await main(Tasks(sink))  # type: ignore[operator]

    simulate(body, 7)
    return sink


async def fail() -> None:
    await asyncio.sleep(0.01)
    raise ValueError("broken")


def test_an_error_that_nobody_fetches_is_reported() -> None:
    async def main(tasks: Tasks) -> None:
        tasks.start(fail(), "the work")
        await tasks.drain()
        assert len(tasks) == 0

    assert run(main).of(TaskFailed) == [TaskFailed("the work", "ValueError('broken')")]


def test_what_must_finish_finishes_though_its_caller_is_gone() -> None:
    done: list[str] = []

    async def work() -> str:
        await asyncio.sleep(1)
        done.append("yes")
        return "result"

    async def main(tasks: Tasks) -> None:
        caller = asyncio.create_task(tasks.finish(work(), "work"))
        await asyncio.sleep(0.1)
        caller.cancel()
        await asyncio.gather(caller, return_exceptions=True)
        assert (done, len(tasks)) == ([], 1)
        await tasks.drain()
        assert (done, len(tasks)) == (["yes"], 0)
        assert await tasks.finish(work(), "work") == "result"

    run(main)


def test_its_error_goes_to_the_caller_and_nowhere_else() -> None:
    async def main(tasks: Tasks) -> None:
        with pytest.raises(ValueError, match="broken"):
            await tasks.finish(fail(), "work")
        caller = asyncio.create_task(tasks.finish(fail(), "work"))
        await asyncio.sleep(0.001)
        caller.cancel()
        await tasks.drain()

    assert run(main).events == []


def test_what_has_the_same_name_goes_one_after_the_other() -> None:
    story: list[str] = []

    async def step(name: str) -> str:
        story.append(f"{name} begins")
        await asyncio.sleep(0.1)
        story.append(f"{name} ends")
        return name

    async def main(tasks: Tasks) -> None:
        names = ("a", "b", "c")
        results = await asyncio.gather(*(tasks.in_turn("topic", lambda name=name: step(name)) for name in names))  # type: ignore[misc]
        assert sorted(results) == ["a", "b", "c"]
        assert all(story[index][0] == story[index + 1][0] for index in range(0, 6, 2))

    run(main)


def test_what_has_another_name_does_not_wait() -> None:
    async def main(tasks: Tasks) -> None:
        first = asyncio.create_task(tasks.in_turn("a", lambda: asyncio.sleep(100)))
        async with asyncio.timeout(1):
            await tasks.in_turn("b", lambda: asyncio.sleep(0.1))
        await first

    run(main)


def test_a_turn_comes_though_the_one_before_failed_or_was_left_by_its_caller() -> None:
    async def main(tasks: Tasks) -> None:
        with pytest.raises(ValueError, match="broken"):
            await tasks.in_turn("topic", fail)
        left = asyncio.create_task(tasks.in_turn("topic", lambda: asyncio.sleep(1)))
        await asyncio.sleep(0.1)
        left.cancel()
        await tasks.in_turn("topic", lambda: asyncio.sleep(0.1))
        await tasks.drain()

    run(main)


def test_turns_that_are_over_are_forgotten() -> None:
    async def main(tasks: Tasks) -> None:
        for number in range(100):
            await tasks.in_turn(f"topic {number}", lambda: asyncio.sleep(0))
        await asyncio.gather(*(tasks.in_turn("one", lambda: asyncio.sleep(0.01)) for _ in range(10)))
        await tasks.drain()
        assert (len(tasks), len(tasks._turns)) == (0, 0)

    run(main)


def test_closing_ends_all_that_runs() -> None:
    ended: list[str] = []

    async def stubborn() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            await asyncio.sleep(0.5)
            ended.append("stubborn")

    async def main(tasks: Tasks) -> None:
        tasks.start(stubborn(), "stubborn")
        await asyncio.sleep(0.1)
        await tasks.close()
        assert (ended, len(tasks)) == (["stubborn"], 0)
        await tasks.close()

    assert run(main).events == []


def test_draining_waits_for_what_begins_meanwhile() -> None:
    async def main(tasks: Tasks) -> None:
        async def first() -> None:
            await asyncio.sleep(0.1)
            tasks.start(asyncio.sleep(0.1), "second")

        tasks.start(first(), "first")
        await tasks.drain()
        assert len(tasks) == 0

    run(main)
