"""Waiters for the progress of a partition: until it reaches an offset, or until anything changes.

A waiter is a callback. It is called once, on the loop, inside the event of another caller. So if it raises, the error
is reported to the loop, and neither that event nor the other waiters are affected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from functools import partial
from heapq import heappop, heappush
from itertools import count
from types import coroutine
from typing import TypeVar

from goqueue.seams.cooperative_yield import yield_cpu

T = TypeVar("T")
Wake = Callable[[], None]

COURTEOUS_TURNS = 10
"""How many turns of the loop it takes to publish one message by HTTP, and a little more."""

PIECE_ITEMS = 512
"""How many items of a list are worked on in one turn of the loop, at a few microseconds each."""

LONG_ITEMS = 1_000
"""Work on more items than that gives way to small requests; on fewer, it would cost more than they gain."""


class Waiters:
    """Callbacks by the offset that they wait for, and callbacks that wait for any progress."""

    def __init__(self) -> None:
        self._by_offset: list[tuple[int, int, Wake]] = []
        self._order = count()
        # A dict, not a set: the order of waking must not depend on addresses of objects.
        self._watchers: dict[Wake, None] = {}

    def __len__(self) -> int:
        return len(self._by_offset) + len(self._watchers)

    def wait_for(self, offset: int, wake: Wake) -> None:
        """Call `wake` once the offset is reached, or when all are woken."""
        heappush(self._by_offset, (offset, next(self._order), wake))

    def watch(self, wake: Wake) -> None:
        """Call `wake` at the next progress, whatever it is."""
        self._watchers[wake] = None

    def forget(self, wake: Wake) -> None:
        """Take back a `watch`; harmless if it is over."""
        self._watchers.pop(wake, None)

    def reached(self, offset: int) -> None:
        """Wake the waiters for this offset or an earlier one, and all watchers."""
        heap = self._by_offset
        while heap and heap[0][0] <= offset:
            _wake(heappop(heap)[2])
        self.wake_watchers()

    def wake_all(self) -> None:
        """Wake all waiters: their offset will not be reached."""
        heap, self._by_offset = self._by_offset, []
        for _, _, wake in sorted(heap, key=lambda entry: entry[:2]):
            _wake(wake)
        self.wake_watchers()

    def wake_watchers(self) -> None:
        """Wake all watchers."""
        if self._watchers:
            watchers, self._watchers = self._watchers, {}
            for wake in watchers:
                _wake(wake)


def hand_over(awaited: asyncio.Future[T], result: T) -> None:
    """Set the result of a future, unless it was cancelled."""
    if not awaited.done():
        awaited.set_result(result)


async def arrival(arrange: Callable[[Wake], object]) -> None:
    """Wait until a callback is called; `arrange` is given it and sees to that."""
    arrived: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    arrange(partial(hand_over, arrived, None))
    await arrived


def give_way() -> Awaitable[None]:
    """Yield the CPU, and enough turns of the loop for a small request to get from arrival to reply.

    Such a request takes several turns; if long work went on in each, the request would wait for as many pieces of it.
    """
    yield_cpu()
    return turns(COURTEOUS_TURNS)


@coroutine
def turns(count: int) -> Generator[None, None, None]:
    """Let so many turns of the loop pass; costs less than waiting for anything."""
    for _ in range(count):
        yield


def pieces(items: Sequence[T]) -> Iterable[tuple[int, Sequence[T]]]:
    """Return items in pieces of `PIECE_ITEMS`, each with its first index; `await pause` before all but the first.

    An asynchronous generator would do both, but costs 5 microseconds, also for small requests, which have one piece.
    """
    if len(items) <= PIECE_ITEMS:
        return ((0, items),)
    return ((start, items[start : start + PIECE_ITEMS]) for start in range(0, len(items), PIECE_ITEMS))


def pause(items: Sequence[object]) -> Awaitable[None]:
    """Yield to other ready tasks between two pieces of the work on some items."""
    return give_way() if len(items) > LONG_ITEMS else turns(1)


def _wake(wake: Wake) -> None:
    try:
        wake()
    except Exception as error:  # noqa: BLE001 - the edge between waiters
        asyncio.get_running_loop().call_exception_handler({"message": "a waiter failed", "exception": error})
