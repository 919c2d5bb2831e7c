"""Merge of many partitions into one stream, ordered by time.

Each partition is a `Feed`, filled by a task of its own. The stream takes the oldest message of all feeds. It waits for
feeds that have not reached the end of their partition, so that the order does not depend on their speed. It does not
wait for a feed at the end, because its next message may come at any time. Within a partition, offsets decide the order.
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
    """Whether it has reached the end of its partition; the stream does not wait for it then."""
    is_over: bool = False
    failure: GoQueueError | None = None

    async def put(self, messages: Sequence[Message]) -> None:
        """Add messages; returns when all earlier ones have been taken."""
        self.waiting.extend(messages)
        self.arrived.set()
        while len(self.waiting) > len(messages):
            self.taken.clear()
            await self.taken.wait()

    def catch_up(self) -> None:
        """Mark the end of the partition as reached."""
        self.is_live = True
        self.arrived.set()

    def end(self, failure: GoQueueError | None = None) -> None:
        """Mark the feed as over, with its failure if there is one."""
        self.failure = failure
        self.is_over = True
        self.arrived.set()

    @property
    def is_awaited(self) -> bool:
        """Whether the stream has to wait for this feed."""
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
