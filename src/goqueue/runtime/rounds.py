"""What is asked at about the same time is carried out together.

Whoever asks under the same key in the same turns of the loop shares a round, and while a round is under way the next
one gathers: a decision and its records cost hardly more for many than for one. A round is of limited size; those for
whom there is no room are in another one, which begins at once. So nobody waits for more than the end of the round
before: most often for a sync, which would have to end in any case.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Hashable, Iterable, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from goqueue.errors import GoQueueError
from goqueue.runtime.tasks import Tasks
from goqueue.runtime.waiters import hand_over, turns

KeyT = TypeVar("KeyT", bound=Hashable)
AskT = TypeVar("AskT")
ToldT = TypeVar("ToldT")

Take = Callable[[], Sequence[AskT]]
CarryOut = Callable[[KeyT, Take[AskT]], Coroutine[Any, Any, Sequence[ToldT]]]

# A round begins so many turns of the loop later. Turns without work are over in microseconds; those with work bring
# more who ask.
_GATHERING_TURNS = 1


class _Asked(msgspec.Struct):
    what: Any
    size: int
    told: asyncio.Future[Any]


class Rounds(Generic[KeyT, AskT, ToldT]):
    """Rounds of one kind, each of asks with `size_max` in all, or of one that is larger.

    `carry_out` is given the key of a round and a function that it calls once, as late as it can, and that returns what
    is asked for: whoever has left by then is not among them, unless `holds_on`. It returns what each of them is told.
    """

    def __init__(
        self, tasks: Tasks, carry_out: CarryOut[KeyT, AskT, ToldT], *, size_max: int, holds_on: bool = False
    ) -> None:
        self._tasks = tasks
        self._carry_out = carry_out
        self._size_max = size_max
        self._holds_on = holds_on
        # Those who wait for a round to begin, and how many rounds are under way, by key.
        self._waiting: dict[KeyT, deque[_Asked]] = {}
        self._running: dict[KeyT, int] = {}

    async def join(self, key: KeyT, what: AskT, size: int, *, is_alone: bool = False) -> ToldT:
        """Have something of a size carried out; return what came of it, or raise that.

        For whoever `is_alone` nobody else is waited for.
        """
        if is_alone and key not in self._running:
            (told,) = await self._carry_out(key, lambda: [what])
            return told
        return await self.ask(key, what, size)

    def ask(self, key: KeyT, what: AskT, size: int) -> asyncio.Future[ToldT]:
        """Have something carried out as `join` does; return what is going to be told, which has to be awaited."""
        told: asyncio.Future[ToldT] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, deque()).append(_Asked(what, size, told))
        if key not in self._running:
            self._begin(key)
        return told

    def _begin(self, key: KeyT) -> None:
        self._running[key] = self._running.get(key, 0) + 1
        self._tasks.start(self._run(key), "round")

    async def _run(self, key: KeyT) -> None:
        waiting = self._waiting[key]
        taken: list[_Asked] = []
        is_taken = False

        def take() -> list[AskT]:
            nonlocal is_taken
            is_taken = True
            taken.extend(self._take(waiting))
            if waiting:
                # There was no room for them.
                self._begin(key)
            return [each.what for each in taken]

        try:
            await turns(_GATHERING_TURNS)
            told = await self._carry_out(key, take)
            for each, reply in zip(taken, told, strict=True):
                hand_over(each.told, reply)
        except GoQueueError as error:
            _refuse(taken if is_taken else self._take(waiting), error)
        except BaseException as error:
            # The broker is mistaken, or stops: nobody may wait for what never comes.
            _refuse(taken if is_taken else self._take(waiting), error)
            if isinstance(error, asyncio.CancelledError):
                _refuse(waiting, error)
                waiting.clear()
            raise
        finally:
            self._end(key)

    def _end(self, key: KeyT) -> None:
        left = self._running.pop(key) - 1
        if left:
            self._running[key] = left
            return
        if self._waiting[key]:
            self._begin(key)
        else:
            del self._waiting[key]

    def _take(self, waiting: deque[_Asked]) -> list[_Asked]:
        """Take those who are in the next round, the first ones first."""
        taken: list[_Asked] = []
        size = 0
        while waiting and (not taken or size + waiting[0].size <= self._size_max):
            asked = waiting.popleft()
            if self._holds_on or not asked.told.done():
                taken.append(asked)
                size += asked.size
        return taken


def _refuse(asked: Iterable[_Asked], error: BaseException) -> None:
    for each in asked:
        if isinstance(error, asyncio.CancelledError):
            each.told.cancel()
        elif not each.told.done():
            each.told.set_exception(error)
