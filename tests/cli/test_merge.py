"""Many partitions as one stream: the order, and who is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import pytest

from goqueue.cli.consume.merge import Feed, merged
from goqueue.cli.consume.reading import open_feeds
from goqueue.client import Message
from goqueue.errors import LogOffline
from goqueue.model.start_position import BEGINNING
from goqueue.testing.broker import Broker
from tests.cli.command import Command

# Shorter than a long poll, so that whoever waits for one is found out.
DEADLINE_S = 60.0


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def within_deadline() -> None:
        async with asyncio.timeout(DEADLINE_S):
            await main()

    asyncio.run(within_deadline())


def message(partition: int, offset: int, timestamp: int) -> Message:
    return Message("t", partition, offset, timestamp, None, b"", ())


def feeds_of(count: int) -> Sequence[Feed]:
    arrived = asyncio.Event()
    return [Feed(arrived) for _ in range(count)]


def places(chunk: Sequence[Message]) -> list[tuple[int, int]]:
    return [(each.partition, each.offset) for each in chunk]


async def next_of(chunks: AsyncIterator[list[Message]]) -> list[tuple[int, int]]:
    return places(await anext(chunks))


def test_the_oldest_message_of_all_partitions_comes_next() -> None:
    async def main() -> None:
        first, second = feeds = feeds_of(2)
        await first.put([message(0, 0, 10), message(0, 1, 30)])
        await second.put([message(1, 0, 20), message(1, 1, 40)])
        first.end()
        second.end()
        assert [places(chunk) async for chunk in merged(feeds)] == [[(0, 0), (1, 0), (0, 1), (1, 1)]]

    run(main)


def test_partition_keeps_its_order_despite_timestamps() -> None:
    async def main() -> None:
        first, second = feeds = feeds_of(2)
        await first.put([message(0, 0, 90), message(0, 1, 10)])
        await second.put([message(1, 0, 50)])
        first.end()
        second.end()
        assert [places(chunk) async for chunk in merged(feeds)] == [[(1, 0), (0, 0), (0, 1)]]

    run(main)


def test_a_partition_that_has_more_to_bring_is_waited_for() -> None:
    async def main() -> None:
        fast, slow = feeds = feeds_of(2)
        await fast.put([message(0, 0, 10), message(0, 1, 30)])
        fast.end()
        chunks = merged(feeds)
        waiting = asyncio.create_task(next_of(chunks))
        await asyncio.wait([waiting], timeout=0)
        assert not waiting.done()
        await slow.put([message(1, 0, 20)])
        assert await waiting == [(0, 0), (1, 0)]
        slow.end()
        assert await next_of(chunks) == [(0, 1)]

    run(main)


def test_a_partition_that_has_caught_up_is_not_waited_for() -> None:
    async def main() -> None:
        live, other = feeds = feeds_of(2)
        chunks = merged(feeds)
        waiting = asyncio.create_task(next_of(chunks))
        await other.put([message(1, 0, 20)])
        live.catch_up()
        assert await waiting == [(1, 0)]
        other.catch_up()
        waiting = asyncio.create_task(next_of(chunks))
        await live.put([message(0, 0, 10)])
        assert await waiting == [(0, 0)]

    run(main)


def test_put_waits_until_earlier_messages_are_taken() -> None:
    async def main() -> None:
        (feed,) = feeds = feeds_of(1)
        await feed.put([message(0, 0, 0)])
        ahead = asyncio.create_task(feed.put([message(0, 1, 1)]))
        await asyncio.wait([ahead], timeout=0)
        assert not ahead.done()
        assert await next_of(merged(feeds)) == [(0, 0), (0, 1)]
        await ahead

    run(main)


def test_the_failure_of_one_partition_ends_it_all() -> None:
    async def main() -> None:
        _, broken = feeds = feeds_of(2)
        broken.end(LogOffline("its disk has failed"))
        with pytest.raises(LogOffline, match="its disk has failed"):
            await anext(merged(feeds))

    run(main)


def test_follow_prints_messages_while_other_partitions_are_empty(
    goqueue_session_broker: Broker, goqueue: Command, topic: str
) -> None:
    goqueue.done("topic", "create", topic, "--partitions", 4)
    goqueue.done("produce", topic, "--partition", 2, stdin=b"one\ntwo\n")

    async def main() -> None:
        async with open_feeds(goqueue_session_broker.http, topic, None, BEGINNING, is_following=True) as feeds:
            assert await next_of(merged(feeds)) == [(2, 0), (2, 1)]

    run(main)
