"""What clients of a simulated broker see of one of its lives: somebody to call, time, and chance."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

from goqueue.broker.broker import Broker
from goqueue.errors import GoQueueError
from goqueue.model.topic import TopicPartition
from goqueue.testing import SeededEntropy
from tests.simulation.group_calls import perform
from tests.simulation.group_history import Call, History


@dataclass(slots=True)
class Life:
    """One life of the broker; `is_settling` asks clients for peace, `is_over` for their end."""

    broker: Broker
    history: History
    entropy: SeededEntropy
    sleep: Callable[[float], Awaitable[None]]
    spawn: Callable[[Coroutine[Any, Any, None]], None]
    seconds: Callable[[], float]
    is_settling: bool = False
    is_over: bool = False

    async def ask(self, who: str, request: object, *, is_late: bool = False) -> Call:
        """Make a call, which the history remembers, and return it with its answer; an error is an answer, too."""
        call = self.history.begin(who, request, self.seconds(), is_late=is_late)
        answer: object
        try:
            answer = await perform(self.broker, request)
        except GoQueueError as error:
            answer = error
        self.history.end(call, answer, self.seconds())
        return call

    async def call(self, who: str, request: object) -> Any:
        """Make a call and return its answer."""
        return (await self.ask(who, request)).answer

    async def pause(self, seconds: float) -> None:
        """Let some time pass, up to so much; a little more in peace, when nothing happens any more."""
        await self.sleep(self.entropy.fraction() * (seconds * 2 if self.is_settling else seconds))

    def later(self, seconds: float, who: str, request: object, when: Callable[[], bool] = lambda: True) -> None:
        """Make a call some time from now that nobody waits for, if it is worth it then."""

        async def come_late() -> None:
            await self.pause(seconds)
            if not self.is_over and when():
                await self.ask(f"{who}, late", request, is_late=True)

        self.spawn(come_late())

    def partitions(self, *topics: str) -> list[TopicPartition]:
        """Return the partitions that these topics have now."""
        count = self.broker.topics.partition_count
        return [TopicPartition(topic, index) for topic in topics for index in range(count(topic))]


class Client(Protocol):
    """Somebody who uses a broker, and outlives it."""

    name: str

    async def run(self, life: Life) -> None:
        """Work until the life is over."""
        ...
