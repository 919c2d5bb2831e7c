"""What is asked at about the same time is carried out together.

Whoever asks under the same key in the same turns of the loop shares a round, and while a round is under way the next
one gathers: a decision and its records cost hardly more for many than for one. Nobody waits longer for it than for the
sync of what came before, which would have to end in any case.

A round is of limited size: those for whom there is no room are in the next one. Whoever has left before it begins is
not in it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Hashable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from goqueue.errors import GoQueueError
from goqueue.runtime.tasks import Tasks
from goqueue.runtime.waiters import arrival, hand_over

KeyT = TypeVar("KeyT", bound=Hashable)
AskT = TypeVar("AskT")
ToldT = TypeVar("ToldT")

CarryOut = Callable[[KeyT, Sequence[AskT]], Coroutine[Any, Any, Sequence[ToldT]]]

# A round begins so many turns of the loop later. Turns without work are over in microseconds; those with work bring
# more who ask.
_GATHERING_TURNS = 2

ROUND_MESSAGES_MAX = 1_000
"""How many messages a round is about at most, unless one who asks wants more."""


class _Asked(NamedTuple):
    ask: Any
    messages: int
    told: asyncio.Future[Any]


class Rounds(Generic[KeyT, AskT, ToldT]):
    """Rounds of one kind; `carry_out` returns what each of those is told who share one, in their order."""

    def __init__(self, tasks: Tasks, carry_out: CarryOut[KeyT, AskT, ToldT]) -> None:
        self._tasks = tasks
        self._carry_out = carry_out
        # Those who wait for a round to begin, by key; all keys of rounds that are under way are in here.
        self._waiting: dict[KeyT, deque[_Asked]] = {}

    async def join(self, key: KeyT, ask: AskT, messages: int) -> ToldT:
        """Have something carried out that is about so many messages; return what came of it, or raise that."""
        loop = asyncio.get_running_loop()
        told: asyncio.Future[ToldT] = loop.create_future()
        waiting = self._waiting.get(key)
        if waiting is None:
            waiting = self._waiting[key] = deque()
            # All who ask in this turn have done so before the task begins.
            self._tasks.start(self._run(key, waiting), "queue rounds")
        waiting.append(_Asked(ask, messages, told))
        return await told

    async def _run(self, key: KeyT, waiting: deque[_Asked]) -> None:
        asked: Sequence[_Asked] = ()
        try:
            while waiting:
                await _turns(_GATHERING_TURNS)
                asked = _take(waiting)
                try:
                    told = await self._carry_out(key, [each.ask for each in asked])
                except GoQueueError as error:
                    _refuse(asked, error)
                    continue
                for each, reply in zip(asked, told, strict=True):
                    hand_over(each.told, reply)
        except BaseException as error:
            # The broker stops, or is mistaken: nobody may wait for what never comes.
            _refuse([*asked, *waiting], error)
            raise
        finally:
            del self._waiting[key]


async def _turns(count: int) -> None:
    loop = asyncio.get_running_loop()
    for _ in range(count):
        await arrival(loop.call_soon)


def _refuse(asked: Sequence[_Asked], error: BaseException) -> None:
    for each in asked:
        if isinstance(error, asyncio.CancelledError):
            each.told.cancel()
        elif not each.told.done():
            each.told.set_exception(error)


def _take(waiting: deque[_Asked]) -> list[_Asked]:
    """Take those who are in the next round, the first ones first."""
    taken: list[_Asked] = []
    messages = 0
    while waiting and (not taken or messages + waiting[0].messages <= ROUND_MESSAGES_MAX):
        asked = waiting.popleft()
        if not asked.told.done():
            taken.append(asked)
            messages += asked.messages
    return taken
