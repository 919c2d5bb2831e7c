"""Readers of the partitions of a topic: a task each, which fills a feed of `merge`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import typer

from goqueue.cli.consume.merge import Feed
from goqueue.client import AsyncClient, Page, Partition, Patience, messages, topics
from goqueue.client.problems import error_of
from goqueue.errors import GoQueueError, OffsetOutOfRange, UnknownPartition
from goqueue.model.start_position import AtOffset, AtTime, FromEnd, Start

# Limits over all partitions, which all have to be read ahead to find the oldest message.
_HELD_MESSAGES = 50_000
_HELD_BYTES = 64 * 1024 * 1024
_PAGE_MESSAGES_MAX = 4000
_PAGE_BYTES_MAX = 4 * 1024 * 1024
# With more partitions than this, requests take turns, with short waits.
_REQUESTS_MAX = 64
_WAIT_S = 20.0
_SHORT_WAIT_S = 0.5
# These attempts take at least half a minute; a restarted broker is back by then.
_FOLLOWING = Patience(attempts=16)


@asynccontextmanager
async def open_feeds(
    server: str, topic: str, partition: int | None, start: Start, *, is_following: bool, is_committed_only: bool = True
) -> AsyncIterator[Sequence[Feed]]:
    """Read partitions of a topic for the length of the block; an unreadable one fails its feed."""
    async with AsyncClient(server, patience=Patience(attempts=1)) as client:
        found = await client.send(topics.partitions(topic))
    if partition is not None:
        found = [each for each in found if each.partition == partition]
        if not found:
            raise UnknownPartition(f"topic {topic!r} has no partition {partition}")
    arrived = asyncio.Event()
    feeds = [Feed(arrived) for _ in found]
    async with AsyncClient(server, patience=_FOLLOWING if is_following else Patience()) as client:
        waits_s = _WAIT_S if len(found) <= _REQUESTS_MAX else _SHORT_WAIT_S
        line = _Line(
            client,
            asyncio.Semaphore(_REQUESTS_MAX),
            topic,
            len(found),
            waits_s if is_following else 0.0,
            is_committed_only=is_committed_only,
        )
        tasks = [
            asyncio.create_task(_fill(feed, line, each, start), name=f"partition {each.partition}")
            for feed, each in zip(feeds, found, strict=True)
        ]
        try:
            yield feeds
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


@dataclass(frozen=True, slots=True)
class _Line:
    """Settings of all reads; `wait_s` is 0 unless reading continues at the end."""

    client: AsyncClient
    turns: asyncio.Semaphore
    topic: str
    partitions: int
    wait_s: float
    is_committed_only: bool

    async def read(self, partition: int, *, offset: int | None, timestamp_ms: int | None, wait_s: float) -> Page:
        call = messages.read(
            self.topic,
            partition,
            offset=offset,
            timestamp_ms=timestamp_ms,
            limit=min(_HELD_MESSAGES // self.partitions + 1, _PAGE_MESSAGES_MAX),
            wait_s=wait_s,
            bytes_max=min(_HELD_BYTES // self.partitions + 1, _PAGE_BYTES_MAX),
            is_committed_only=self.is_committed_only,
        )
        async with self.turns:
            return await self.client.send(call)


async def _fill(feed: Feed, line: _Line, partition: Partition, start: Start) -> None:
    try:
        if partition.error is not None:
            raise error_of(partition.error)
        await _read(feed, line, partition, start)
    except GoQueueError as error:
        feed.end(error)
    else:
        feed.end()


async def _read(feed: Feed, line: _Line, partition: Partition, start: Start) -> None:
    """Read up to the end that the partition had at first; forever if reads wait."""
    is_following = line.wait_s > 0
    offset, timestamp_ms = _first(partition, start)
    end = partition.end_offset
    while is_following or (offset is None or offset < end):
        if offset is not None and offset >= end:
            feed.catch_up()
        wait_s = line.wait_s if feed.is_live else 0.0
        try:
            page = await line.read(partition.partition, offset=offset, timestamp_ms=timestamp_ms, wait_s=wait_s)
        except OffsetOutOfRange as error:
            offset = _resumed(error, partition, offset)
            continue
        if not is_following:
            page = _up_to(page, end)
        is_stuck = not page.messages and page.next_offset == offset
        offset, timestamp_ms = page.next_offset, None
        if is_stuck:
            # The rest is not visible yet, because of an open transaction for example.
            if not is_following:
                return
            feed.catch_up()
        await feed.put(page.messages)


def _first(partition: Partition, start: Start) -> tuple[int | None, int | None]:
    """Return the offset or the time at which a partition is read from."""
    match start:
        case AtTime(timestamp_ms):
            return None, timestamp_ms
        case AtOffset(offset):
            return min(max(offset, partition.start_offset), partition.end_offset), None
        case FromEnd(distance):
            return max(partition.end_offset - distance, partition.start_offset), None


def _up_to(page: Page, end: int) -> Page:
    kept = [message for message in page.messages if message.offset < end]
    return page._replace(messages=kept)


def _resumed(error: OffsetOutOfRange, partition: Partition, offset: int | None) -> int:
    """Return the offset to continue at after retention overtook the reader; raise any other error."""
    if offset is None or error.start <= offset:
        raise error
    typer.echo(
        f"partition {partition.partition}: offsets {offset} to {error.start - 1} were deleted by retention", err=True
    )
    return error.start
