"""What is asked at about the same time is carried out together, and nobody waits for what never comes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from goqueue.errors import Invalid
from goqueue.runtime.request_batcher import RequestBatcher, Take
from goqueue.runtime.tasks import TaskFailed, Tasks
from goqueue.testing import RecordingSink, Simulation, simulate

SIZE_MAX = 100
Act = Callable[[Sequence[int]], Awaitable[None]]


class Stage:
    """Batches of numbers, each answered with its double after a second; `asked` are the batches so far.

    A batch takes half a second to collect its requests.
    """

    def __init__(self, act: Act | None = None, *, holds_on: bool = False) -> None:
        self.sink = RecordingSink()
        self.tasks = Tasks(self.sink)
        self.asked: list[tuple[str, list[int]]] = []
        self._act = act
        self.rounds = RequestBatcher(self.tasks, self._carry_out, size_max=SIZE_MAX, holds_on=holds_on)

    async def _carry_out(self, key: str, take: Take[int]) -> list[int]:
        await asyncio.sleep(0.5)
        asks = take()
        self.asked.append((key, list(asks)))
        await asyncio.sleep(1)
        if self._act is not None:
            await self._act(asks)
        return [2 * ask for ask in asks]

    def join(self, ask: int, key: str = "k", size: int = 1) -> asyncio.Task[int]:
        return asyncio.ensure_future(self.rounds.join(key, ask, size))


def test_those_who_come_while_a_round_is_under_way_share_the_next() -> None:
    async def main(_: Simulation) -> None:
        stage = Stage()
        joined = [stage.join(1)]
        await asyncio.sleep(0.6)
        for number in (2, 3, 4):
            joined.append(stage.join(number))
            await asyncio.sleep(0.2)
        assert await asyncio.gather(*joined) == [2, 4, 6, 8]
        assert stage.asked == [("k", [1]), ("k", [2, 3, 4])]

    simulate(main, 0)


def test_those_who_ask_before_a_round_looks_share_it() -> None:
    async def main(_: Simulation) -> None:
        stage = Stage()
        joined = [stage.join(1)]
        await asyncio.sleep(0.3)
        joined.append(stage.join(2))
        assert await asyncio.gather(*joined) == [2, 4]
        assert stage.asked == [("k", [1, 2])]

    simulate(main, 0)


def test_keys_wait_for_nobody_but_themselves() -> None:
    async def main(_: Simulation) -> None:
        stage = Stage()
        async with asyncio.timeout(2):
            assert sum(await asyncio.gather(stage.join(1, "a"), stage.join(2, "b"))) == 6
        assert sorted(stage.asked) == [("a", [1]), ("b", [2])]

    simulate(main, 0)


def test_a_round_is_of_limited_size_and_those_for_whom_there_is_no_room_do_not_wait_for_its_end() -> None:
    async def main(_: Simulation) -> None:
        stage = Stage()
        joined = []
        for number, size in enumerate([3 * SIZE_MAX, SIZE_MAX - 1, 1, 1], 1):
            joined.append(stage.join(number, size=size))
            await asyncio.sleep(0.01)
        async with asyncio.timeout(3):
            assert await asyncio.gather(*joined) == [2, 4, 6, 8]
        assert [asks for _, asks in stage.asked] == [[1], [2, 3], [4]]

    simulate(main, 0)


@pytest.mark.parametrize("holds_on", [False, True])
def test_who_has_left_before_a_round_looks_is_not_in_it_unless_it_holds_on(holds_on: bool) -> None:
    async def main(_: Simulation) -> None:
        stage = Stage(holds_on=holds_on)
        joined = [stage.join(number) for number in (1, 2)]
        await asyncio.sleep(0.3)
        joined[0].cancel()
        assert await joined[1] == 4
        (asked,) = [sorted(asks) for _, asks in stage.asked]
        assert asked == ([1, 2] if holds_on else [2])

    simulate(main, 0)


def test_a_round_whose_askers_have_all_left_is_no_fault() -> None:
    async def main(_: Simulation) -> None:
        stage = Stage()
        joined = stage.join(1)
        await asyncio.sleep(0.3)
        joined.cancel()
        await asyncio.sleep(0.5)
        assert await stage.join(2) == 4
        assert [asks for _, asks in stage.asked] == [[], [2]]
        assert stage.sink.events == []

    simulate(main, 0)


def test_what_forbids_a_round_is_told_to_all_who_share_it_and_to_nobody_else() -> None:
    async def main(_: Simulation) -> None:
        async def act(asks: Sequence[int]) -> None:
            if 2 in asks:
                raise Invalid("odd")

        stage = Stage(act)
        first = stage.join(1)
        await asyncio.sleep(0.6)
        refused = [stage.join(2), stage.join(3)]
        await asyncio.sleep(1.5)
        later = stage.join(4)
        for each in refused:
            with pytest.raises(Invalid):
                await each
        assert (await first, await later) == (2, 8)

    simulate(main, 0)


def test_what_forbids_a_round_before_it_looks_is_told_as_well() -> None:
    async def main(_: Simulation) -> None:
        async def carry_out(key: str, take: Take[int]) -> list[int]:
            del key, take
            raise Invalid("no")

        rounds = RequestBatcher(Tasks(RecordingSink()), carry_out, size_max=SIZE_MAX)
        async with asyncio.timeout(5):
            told = await asyncio.gather(*(rounds.join("k", each, 80) for each in range(3)), return_exceptions=True)
        assert [type(each) for each in told] == [Invalid] * 3

    simulate(main, 0)


def test_a_mistake_is_reported_and_leaves_nobody_waiting() -> None:
    async def main(_: Simulation) -> None:
        async def act(asks: Sequence[int]) -> None:
            if 1 in asks:
                raise ZeroDivisionError

        stage = Stage(act)
        joined = [stage.join(1)]
        await asyncio.sleep(0.6)
        joined.append(stage.join(2))
        async with asyncio.timeout(5):
            told = await asyncio.gather(*joined, return_exceptions=True)
        assert [type(told[0]), told[1]] == [ZeroDivisionError, 4]
        assert await stage.join(3) == 6
        assert [type(event) for event in stage.sink.events] == [TaskFailed]

    simulate(main, 0)


def test_the_end_of_the_broker_leaves_nobody_waiting() -> None:
    async def main(_: Simulation) -> None:
        stage = Stage()
        joined = [stage.join(1)]
        await asyncio.sleep(0.6)
        joined.append(stage.join(2))
        await asyncio.sleep(0)
        await stage.tasks.close()
        for each in joined:
            with pytest.raises(asyncio.CancelledError):
                await each

    simulate(main, 0)
