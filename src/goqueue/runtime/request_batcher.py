"""Batches requests that arrive at about the same time.

Requests with the same key that arrive in the same turns of the loop share a round. While a round runs, the next one
gathers: a decision and its records cost hardly more for many requests than for one. A round has a limited size;
requests beyond it start another round at once. So a request waits at most for the end of the round before, which is
usually a sync that has to end in any case.
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

# A round begins after this many turns of the loop. Turns without work take microseconds; turns with work bring more
# requests.
_GATHERING_TURNS = 1


class _Asked(msgspec.Struct):
    what: Any
    size: int
    told: asyncio.Future[Any]


class RequestBatcher(Generic[KeyT, AskT, ToldT]):
    """Batches of requests of one kind; a round has requests of `size_max` in all, or one larger request.

    `carry_out` gets the key of a round and a function to call once, as late as possible, which returns the requests.
    Requests that were cancelled by then are left out, unless `holds_on`. It returns the reply to each request.
    """

    def __init__(
        self, tasks: Tasks, carry_out: CarryOut[KeyT, AskT, ToldT], *, size_max: int, holds_on: bool = False
    ) -> None:
        self._tasks = tasks
        self._carry_out = carry_out
        self._size_max = size_max
        self._holds_on = holds_on
        # Requests that wait for a round, and the number of rounds under way, by key.
        self._waiting: dict[KeyT, deque[_Asked]] = {}
        self._running: dict[KeyT, int] = {}

    async def join(self, key: KeyT, what: AskT, size: int, *, is_alone: bool = False) -> ToldT:
        """Carry out a request of a size; return its reply, or raise its error.

        With `is_alone` it does not wait for other requests.
        """
        if is_alone and key not in self._running:
            (told,) = await self._carry_out(key, lambda: [what])
            return told
        return await self.ask(key, what, size)

    def ask(self, key: KeyT, what: AskT, size: int) -> asyncio.Future[ToldT]:
        """Carry out a request as `join` does; return a future of the reply, which must be awaited."""
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
                # They did not fit.
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
            # A bug, or the broker stops: no request may wait for a reply that never comes.
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
        """Take the requests of the next round, oldest first."""
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
