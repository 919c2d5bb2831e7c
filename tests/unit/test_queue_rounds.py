"""What is asked at about the same time is carried out together, and nobody waits for what never comes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from goqueue.broker.queue_rounds import ROUND_MESSAGES_MAX, Rounds
from goqueue.errors import Invalid
from goqueue.runtime.tasks import TaskFailed, Tasks
from goqueue.testing import RecordingSink, Simulation, simulate


class Stage:
    """Rounds of numbers, each of which is answered with its double after a second; `asked` are the rounds so far."""

    def __init__(self, act: Callable[[Sequence[int]], Awaitable[None]] | None = None) -> None:
        self.sink = RecordingSink()
        self.tasks = Tasks(self.sink)
        self.asked: list[tuple[str, list[int]]] = []
        self._act = act
        self.rounds = Rounds(self.tasks, self._carry_out)

    async def _carry_out(self, key: str, asks: Sequence[int]) -> list[int]:
        self.asked.append((key, list(asks)))
        await asyncio.sleep(1)
        if self._act is not None:
            await self._act(asks)
        return [2 * ask for ask in asks]

    def join(self, ask: int, key: str = "k", messages: int = 1) -> asyncio.Task[int]:
        return asyncio.ensure_future(self.rounds.join(key, ask, messages))


def test_those_who_come_while_a_round_is_under_way_share_the_next() -> None:
    async def main(_: Simulation) -> None:
        stage = Stage()
        joined = [stage.join(1)]
        for number in (2, 3, 4):
            await asyncio.sleep(0.3)
            joined.append(stage.join(number))
        assert await asyncio.gather(*joined) == [2, 4, 6, 8]
        assert stage.asked == [("k", [1]), ("k", [2, 3, 4])]

    simulate(main, 0)


def test_those_who_ask_in_one_turn_share_a_round() -> None:
    async def main() -> None:
        # Not in a simulation, where chance decides who goes first.
        async def carry_out(_: str, asks: Sequence[int]) -> list[int]:
            return [len(asks)] * len(asks)

        rounds = Rounds(Tasks(RecordingSink()), carry_out)
        assert await asyncio.gather(*(rounds.join("k", number, 1) for number in range(3))) == [3, 3, 3]

    asyncio.run(main())


def test_keys_wait_for_nobody_but_themselves() -> None:
    async def main(_: Simulation) -> None:
        stage = Stage()
        async with asyncio.timeout(1.5):
            assert sum(await asyncio.gather(stage.join(1, "a"), stage.join(2, "b"))) == 6
        assert sorted(stage.asked) == [("a", [1]), ("b", [2])]

    simulate(main, 0)


def test_a_round_is_of_limited_size_but_takes_anybody() -> None:
    async def main(_: Simulation) -> None:
        stage = Stage()
        joined = [stage.join(0)]
        for number, size in enumerate([3 * ROUND_MESSAGES_MAX, ROUND_MESSAGES_MAX - 1, 1, 1], 1):
            await asyncio.sleep(0.1)
            joined.append(stage.join(number, messages=size))
        await asyncio.gather(*joined)
        assert [asks for _, asks in stage.asked] == [[0], [1], [2, 3], [4]]

    simulate(main, 0)


def test_who_has_left_before_a_round_begins_is_not_in_it() -> None:
    async def main(_: Simulation) -> None:
        stage = Stage()
        first = stage.join(1)
        await asyncio.sleep(0.5)
        second, third = stage.join(2), stage.join(3)
        await asyncio.sleep(0)
        second.cancel()
        assert (await first, await third) == (2, 6)
        assert [asks for _, asks in stage.asked] == [[1], [3]]

    simulate(main, 0)


def test_what_forbids_a_round_is_told_to_all_who_share_it_and_to_nobody_else() -> None:
    async def main(_: Simulation) -> None:
        async def act(asks: Sequence[int]) -> None:
            if 2 in asks:
                raise Invalid("odd")

        stage = Stage(act)
        first = stage.join(1)
        await asyncio.sleep(0.5)
        refused = [stage.join(2), stage.join(3)]
        await asyncio.sleep(1)
        later = stage.join(4)
        for each in refused:
            with pytest.raises(Invalid):
                await each
        assert (await first, await later) == (2, 8)

    simulate(main, 0)


def test_a_mistake_is_reported_and_leaves_nobody_waiting() -> None:
    async def main(_: Simulation) -> None:
        async def act(asks: Sequence[int]) -> None:
            if 1 in asks:
                raise ZeroDivisionError

        stage = Stage(act)
        joined = [stage.join(1)]
        await asyncio.sleep(0.5)
        joined.append(stage.join(2))
        async with asyncio.timeout(5):
            told = await asyncio.gather(*joined, return_exceptions=True)
        assert [type(each) for each in told] == [ZeroDivisionError, ZeroDivisionError]
        assert await stage.join(3) == 6
        assert [type(event) for event in stage.sink.events] == [TaskFailed]

    simulate(main, 0)


def test_the_end_of_the_broker_leaves_nobody_waiting() -> None:
    async def main(_: Simulation) -> None:
        stage = Stage()
        joined = [stage.join(1)]
        await asyncio.sleep(0.5)
        joined.append(stage.join(2))
        await asyncio.sleep(0)
        await stage.tasks.close()
        for each in joined:
            with pytest.raises(asyncio.CancelledError):
                await each

    simulate(main, 0)
