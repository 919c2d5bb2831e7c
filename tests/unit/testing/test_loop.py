"""The simulated event loop: what it promises to the code under test, and what it finds."""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from goqueue.testing.loop import Deadlock, RealWorldRefused, SimulationError, Stuck, Unhandled
from goqueue.testing.simulation import LeakedTasks, Simulation, simulate

Main = Callable[[Simulation], Coroutine[Any, Any, object]]


def outcomes(main: Main, seeds: int = 50) -> set[object]:
    return {simulate(main, seed) for seed in range(seeds)}


async def mixed_work(simulation: Simulation) -> list[str]:
    """Use what programs use: groups, queues, threads, timers, and a set of tasks that fail together."""
    story: list[str] = []
    queue: asyncio.Queue[int] = asyncio.Queue(2)

    async def produce(name: str) -> None:
        for number in range(5):
            await queue.put(number)
            await asyncio.sleep(simulation.entropy.fraction())
            story.append(f"{name}{number}")

    async def consume() -> None:
        for _ in range(10):
            number = await queue.get()
            story.append(f"got{number}")

    async def wait_for_ever(name: str) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            story.append(name)

    async def fail() -> None:
        await asyncio.sleep(1)
        raise ValueError("on purpose")

    async with asyncio.TaskGroup() as group:
        group.create_task(produce("a"))
        group.create_task(produce("b"))
        group.create_task(consume())
        story.append(str(await asyncio.to_thread(sum, (1, 2))))
    try:
        async with asyncio.TaskGroup() as group:
            for number in range(8):
                group.create_task(wait_for_ever(f"cancelled{number}"))
            group.create_task(fail())
    except* ValueError:
        story.append("failed")
    return story


def mixed_work_fingerprint(seed: int) -> str:
    loops = []

    async def main(simulation: Simulation) -> list[str]:
        loops.append(simulation.loop)
        return await mixed_work(simulation)

    story = simulate(main, seed)
    return f"{loops[0].fingerprint()} {' '.join(story)}"


def test_the_same_seed_replays_the_same_run() -> None:
    assert mixed_work_fingerprint(7) == mixed_work_fingerprint(7)
    assert len({mixed_work_fingerprint(seed) for seed in range(10)}) == 10


def test_the_same_seed_replays_the_same_run_in_another_process() -> None:
    def run(hash_seed: str, ballast: int) -> str:
        # Other objects in memory give other addresses, another hash seed other orders of sets of strings.
        code = f"""if True:
            ballast = [object() for _ in range({ballast})]
            import test_loop
            print(test_loop.mixed_work_fingerprint(7))
        """
        return subprocess.run(
            [sys.executable, "-c", code],
            cwd=Path(__file__).parent,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()

    assert run("1", 10) == run("2", 4321) == mixed_work_fingerprint(7)


def test_ready_tasks_run_in_every_order() -> None:
    async def main(simulation: Simulation) -> str:
        order: list[str] = []

        async def note(name: str) -> None:
            order.append(name)

        await asyncio.gather(*(note(name) for name in "abc"))
        return "".join(order)

    assert outcomes(main) == {"abc", "acb", "bac", "bca", "cab", "cba"}


def test_time_jumps_to_the_next_timer_and_timers_keep_their_order() -> None:
    async def main(simulation: Simulation) -> list[tuple[str, float]]:
        loop = asyncio.get_running_loop()
        fired: list[tuple[str, float]] = []
        done = loop.create_future()

        def fire(name: str) -> None:
            fired.append((name, loop.time()))

        loop.call_later(7200, fire, "late")
        loop.call_later(7200, done.set_result, None)
        loop.call_later(1, fire, "early")
        loop.call_later(2, fire, "never").cancel()
        await done
        await asyncio.sleep(1)
        return fired

    assert simulate(main, 1) == [("early", 1.0), ("late", 7200.0)]


def test_a_timeout_ends_a_wait_at_its_moment() -> None:
    async def main(simulation: Simulation) -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3):
                await asyncio.Event().wait()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 4)
        return simulation.clock.monotonic()

    assert simulate(main, 1) == 7.0


def test_cancelled_timers_do_not_pile_up() -> None:
    async def main(simulation: Simulation) -> int:
        for _ in range(2_000):
            async with asyncio.timeout(60):
                await asyncio.sleep(0)
        return len(simulation.loop._scheduled)

    assert simulate(main, 1) < 250


def test_jobs_of_an_executor_run_in_every_order_and_give_results_and_errors() -> None:
    async def main(simulation: Simulation) -> str:
        order: list[str] = []

        def fail() -> None:
            raise OSError("disk on fire")

        await asyncio.gather(*(asyncio.to_thread(order.append, name) for name in "ab"))
        with pytest.raises(OSError, match="on fire"):
            await asyncio.to_thread(fail)
        return "".join(order)

    assert outcomes(main) == {"ab", "ba"}


def test_a_cancelled_job_of_an_executor_may_happen_all_the_same() -> None:
    async def main(simulation: Simulation) -> int:
        done: list[int] = []
        job = asyncio.create_task(asyncio.to_thread(done.append, 1))
        await asyncio.sleep(simulation.entropy.fraction() * 0.003)
        job.cancel()
        await asyncio.wait([job])
        await asyncio.sleep(1)
        return len(done)

    assert outcomes(main) == {0, 1}


def test_a_job_of_an_executor_sees_no_running_loop() -> None:
    async def main(simulation: Simulation) -> None:
        with pytest.raises(RuntimeError, match="no running event loop"):
            await asyncio.to_thread(asyncio.get_running_loop)
        asyncio.get_running_loop()

    simulate(main, 1)


def test_a_deadlock_names_the_waiting_tasks_and_where_they_wait() -> None:
    async def main(simulation: Simulation) -> None:
        first, second = asyncio.Lock(), asyncio.Lock()

        async def take(mine: asyncio.Lock, other: asyncio.Lock) -> None:
            async with mine:
                await asyncio.sleep(1)
                async with other:
                    pass

        async with asyncio.TaskGroup() as group:
            group.create_task(take(first, second), name="left")
            group.create_task(take(second, first), name="right")

    with pytest.raises(Deadlock) as caught:
        simulate(main, 1)
    text = str(caught.value)
    assert "left: " in text
    assert "right: " in text
    assert "take (test_loop.py:" in text
    assert "Lock.acquire (locks.py:" in text


def test_a_program_that_spins_is_stuck() -> None:
    async def main(simulation: Simulation) -> None:
        for _ in itertools.count():
            await asyncio.sleep(0)

    with pytest.raises(Stuck, match="more than 500 steps"):
        simulate(main, 1, steps_max=500)


def test_a_program_that_only_ticks_is_stuck() -> None:
    async def main(simulation: Simulation) -> None:
        for _ in itertools.count():
            await asyncio.sleep(1)

    with pytest.raises(Stuck, match=r"beyond 60\.0 s"):
        simulate(main, 1, seconds_max=60.0)


def test_a_failure_carries_its_seed_and_the_last_steps() -> None:
    async def main(simulation: Simulation) -> None:
        await asyncio.sleep(1.5)
        raise AssertionError("broken")

    with pytest.raises(AssertionError) as caught:
        simulate(main, 4242)
    (note,) = caught.value.__notes__
    assert "seed 4242" in note
    assert "1.500000 s" in note
    assert "ran: 1.5 task-" in note


def test_an_error_in_a_callback_fails_the_simulation_at_once() -> None:
    reached: list[str] = []

    async def main(simulation: Simulation) -> None:
        asyncio.get_running_loop().call_later(1, [].pop)
        await asyncio.sleep(2)
        reached.append("the end")

    with pytest.raises(Unhandled) as caught:
        simulate(main, 1)
    assert isinstance(caught.value.__cause__, IndexError)
    assert not reached


@pytest.mark.parametrize("is_kept", [True, False])
def test_the_error_of_a_task_that_nobody_awaited_fails_the_simulation(is_kept: bool) -> None:
    kept: list[object] = []

    async def fail() -> None:
        raise ValueError("lost")

    async def main(simulation: Simulation) -> None:
        task = asyncio.create_task(fail(), name="forgotten")
        if is_kept:
            kept.append(task)
        del task
        await asyncio.sleep(1)

    with pytest.raises(Unhandled) as caught:
        simulate(main, 1)
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_handler_that_the_program_sets_itself_gets_the_errors() -> None:
    async def main(simulation: Simulation) -> list[str]:
        seen: list[str] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, context: seen.append(type(context["exception"]).__name__))
        loop.call_soon([].pop)
        await asyncio.sleep(1)
        return seen

    assert simulate(main, 1) == ["IndexError"]


def test_a_task_left_running_is_cancelled_and_reported() -> None:
    ended: list[str] = []

    async def linger() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    async def main(simulation: Simulation) -> str:
        simulation.loop.kept = asyncio.create_task(linger(), name="lingerer")  # type: ignore[attr-defined]
        await asyncio.sleep(1)
        return "done"

    with pytest.raises(LeakedTasks, match=r"lingerer: .*linger \(test_loop\.py"):
        simulate(main, 1)
    assert simulate(main, 1, may_leak=True) == "done"
    assert ended == ["cancelled", "cancelled"]


def test_a_task_that_refuses_to_end_is_an_error_of_its_own() -> None:
    async def cling() -> None:
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue

    async def main(simulation: Simulation) -> None:
        simulation.loop.kept = asyncio.create_task(cling())  # type: ignore[attr-defined]
        await asyncio.sleep(1)

    with pytest.raises(Unhandled, match="do not end"):
        simulate(main, 1, may_leak=True)


def test_asynchronous_generators_are_closed_at_the_end() -> None:
    closed: list[str] = []

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            closed.append("closed")

    async def main(simulation: Simulation) -> int:
        generator = numbers()
        simulation.loop.kept = generator  # type: ignore[attr-defined]
        return await anext(generator)

    assert simulate(main, 1) == 1
    assert closed == ["closed"]


REAL_WORLD: dict[str, Main] = {
    "connection": lambda _: asyncio.open_connection("127.0.0.1", 9),
    "server": lambda _: asyncio.start_server(print, "127.0.0.1", 0),
    "process": lambda _: asyncio.create_subprocess_exec("true"),
    "lookup": lambda simulation: simulation.loop.getaddrinfo("localhost", 80),
}


@pytest.mark.parametrize("name", REAL_WORLD)
def test_the_real_world_is_refused(name: str) -> None:
    async def main(simulation: Simulation) -> None:
        await REAL_WORLD[name](simulation)

    with pytest.raises(RealWorldRefused, match="use the injected seams"):
        simulate(main, 1)


def test_a_call_from_a_real_thread_is_refused() -> None:
    async def main(simulation: Simulation) -> list[str]:
        refused: list[str] = []

        def intrude() -> None:
            try:
                simulation.loop.call_soon_threadsafe(print)
            except SimulationError as error:
                refused.append(str(error))

        thread = threading.Thread(target=intrude, name="intruder")
        thread.start()
        thread.join()
        return refused

    (refusal,) = simulate(main, 1)
    assert "'intruder'" in refusal
