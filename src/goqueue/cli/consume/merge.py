"""Many partitions as one stream, in order of time.

Each partition is a `Feed`, filled by a task of its own. The stream takes the oldest message of all feeds, and waits
for those that have more to bring which is there already: so the order does not depend on which of them is faster. A
feed that has caught up with the end of its partition is waited for no longer, since nobody knows when its next message
comes. Within a partition the order is that of the offsets, whatever the timestamps say.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from goqueue.client import Message
from goqueue.errors import GoQueueError

_CHUNK_MAX = 5000


@dataclass(slots=True, eq=False)
class Feed:
    """The messages of one partition that have arrived and not been taken."""

    arrived: asyncio.Event
    waiting: deque[Message] = field(default_factory=deque)
    taken: asyncio.Event = field(default_factory=asyncio.Event)
    is_live: bool = False
    """Whether it has caught up, so that nobody waits for it."""
    is_over: bool = False
    failure: GoQueueError | None = None

    async def put(self, messages: Sequence[Message]) -> None:
        """Hand over messages; returns when all of those before have been taken."""
        self.waiting.extend(messages)
        self.arrived.set()
        while len(self.waiting) > len(messages):
            self.taken.clear()
            await self.taken.wait()

    def catch_up(self) -> None:
        """Say that all has been handed over that is there already."""
        self.is_live = True
        self.arrived.set()

    def end(self, failure: GoQueueError | None = None) -> None:
        """Say that nothing more comes, and why, if that is a failure."""
        self.failure = failure
        self.is_over = True
        self.arrived.set()

    @property
    def is_awaited(self) -> bool:
        """Whether the next message of all cannot be known without it."""
        return not self.waiting and not self.is_live and not self.is_over


async def merged(feeds: Sequence[Feed]) -> AsyncIterator[list[Message]]:
    """Yield all messages in order, in chunks, until all feeds are over; raise the first failure of any."""
    while True:
        failure = next((feed.failure for feed in feeds if feed.failure), None)
        if failure is not None:
            raise failure
        if chunk := _take(feeds):
            yield chunk
            continue
        if all(feed.is_over for feed in feeds):
            return
        arrived = feeds[0].arrived
        arrived.clear()
        await arrived.wait()


def _take(feeds: Sequence[Feed]) -> list[Message]:
    """Return messages in order, as long as no feed is awaited."""
    if any(feed.is_awaited for feed in feeds):
        return []
    chunk: list[Message] = []
    heads = [(feed.waiting[0].timestamp, number) for number, feed in enumerate(feeds) if feed.waiting]
    heapq.heapify(heads)
    while heads and len(chunk) < _CHUNK_MAX:
        _, number = heads[0]
        feed = feeds[number]
        chunk.append(feed.waiting.popleft())
        if feed.waiting:
            heapq.heapreplace(heads, (feed.waiting[0].timestamp, number))
        else:
            heapq.heappop(heads)
            if feed.is_awaited:
                break
    for feed in feeds:
        feed.taken.set()
    return chunk
