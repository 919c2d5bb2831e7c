"""Reads that wait, in virtual time: who wakes them, who ends them, and what is left of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from goqueue.records.builder import NewRecord, build_batch
from goqueue.records.control import ControlType, build_marker
from goqueue.records.layout import HEADER_BYTES, reseal
from goqueue.testing import Simulation, simulate
from tests.protocols.http.raw import RawHttp, SimServer, request, serving

SEEDS = pytest.mark.seeds(10, long_count=300)
READ = "/topics/t/partitions/0/messages"


async def with_topic(client: RawHttp, **config: str) -> None:
    """Make the topic `t` with one partition."""
    reply = await client.call("POST", "/topics", {"name": "t", "partitions": 1, "config": config})
    assert reply.status == 201


async def publish(client: RawHttp, *values: str) -> None:
    """Publish values to `t`."""
    messages = [{"value": value} for value in values]
    assert (await client.call("POST", "/topics/t/messages", {"messages": messages})).status == 200


def values(page: Any) -> list[str]:
    """Return the values of a page."""
    return [message["value"] for message in page["messages"]]


def append(server: SimServer, *batches: bytearray) -> None:
    """Put batches into the log as they are, past the checks of protocols."""
    from goqueue.log.batches import check_batches

    partition = server.server.broker.topics.topic("t").partition(0)
    for batch in batches:
        partition.log.append(check_batches(batch, bytes_max=10_000_000), leader_epoch=0)
    partition.flusher.note_append()


@SEEDS
def test_a_reader_waits_exactly_until_the_message_is_there(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            writer, reader = await server.client(), await server.client()
            await with_topic(writer)
            reader.write(request("GET", f"{READ}?wait=60s"))
            await asyncio.sleep(10)
            assert server.waiters("t") == 1
            assert not reader.received
            await publish(writer, "new")
            reply = await reader.reply()
            assert simulation.clock.monotonic() < 11
            assert values(reply.json()) == ["new"]
            assert server.waiters("t") == 0

    simulate(main, seed)


@SEEDS
def test_a_wait_in_vain_ends_in_time_and_tells_where_to_go_on(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            await with_topic(client)
            await publish(client, "a", "b")
            began = simulation.clock.monotonic()
            page = (await client.call("GET", f"{READ}?offset=2&wait=7s")).json()
            assert 7 <= simulation.clock.monotonic() - began < 7.1
            assert page == {"messages": [], "next_offset": 2, "start_offset": 0, "end_offset": 2}

    simulate(main, seed)


@SEEDS
def test_a_client_that_leaves_ends_its_wait(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            writer, reader = await server.client(), await server.client()
            await with_topic(writer)
            reader.write(request("GET", f"{READ}?wait=60s"))
            await asyncio.sleep(1)
            assert server.waiters("t") == 1
            reader.close()
            await asyncio.sleep(1)
            assert server.waiters("t") == 0
            assert server.server.limiter.connections == 1
            await publish(writer, "for nobody")

    simulate(main, seed)


@SEEDS
def test_a_wait_ends_when_the_topic_goes(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            writer, reader = await server.client(), await server.client()
            await with_topic(writer)
            reader.write(request("GET", f"{READ}?wait=60s"))
            await asyncio.sleep(1)
            assert (await writer.call("DELETE", "/topics/t")).status == 204
            reply = await reader.reply()
            assert (reply.status, reply.json()["code"]) == (404, "unknown_topic")
            assert simulation.clock.monotonic() < 5

    simulate(main, seed)


@SEEDS
def test_readers_wait_for_their_own_partition_only(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            writer = await server.client()
            await writer.call("POST", "/topics", {"name": "t", "partitions": 2})
            readers = [await server.client() for _ in range(10)]
            for reader in readers:
                reader.write(request("GET", "/topics/t/partitions/1/messages?wait=60s"))
            await asyncio.sleep(1)
            assert server.waiters("t", 1) == 10
            await writer.call("POST", "/topics/t/messages", {"messages": [{"value": "for nobody", "partition": 0}]})
            await asyncio.sleep(1)
            assert not any(reader.received for reader in readers)
            await writer.call("POST", "/topics/t/messages", {"messages": [{"value": "for all", "partition": 1}]})
            assert [values((await reader.reply()).json()) for reader in readers] == [["for all"]] * 10

    simulate(main, seed)


@SEEDS
def test_a_read_that_finds_something_does_not_wait(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            await with_topic(client)
            await publish(client, "a")
            began = simulation.clock.monotonic()
            assert values((await client.call("GET", f"{READ}?wait=1m")).json()) == ["a"]
            assert (await client.call("GET", f"{READ}?offset=9&wait=1m")).status == 416
            assert simulation.clock.monotonic() - began < 1

    simulate(main, seed)


@SEEDS
def test_markers_of_transactions_are_passed_over(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            await with_topic(client)
            marker = build_marker(ControlType.COMMIT, producer_id=1, producer_epoch=0, timestamp=0)
            append(server, build_batch([NewRecord(0, None, b"a")]), marker, build_batch([NewRecord(0, None, b"b")]))
            page = (await client.call("GET", f"{READ}?wait=1s")).json()
            assert [(each["offset"], each["value"]) for each in page["messages"]] == [(0, "a"), (2, "b")]
            page = (await client.call("GET", f"{READ}?limit=1&offset=1")).json()
            assert [(each["offset"], each["value"]) for each in page["messages"]] == [(2, "b")]
            append(server, build_marker(ControlType.ABORT, producer_id=1, producer_epoch=0, timestamp=0))
            page = (await client.call("GET", f"{READ}?offset=3&wait=60s")).json()
            assert (page["messages"], page["next_offset"]) == ([], 4)
            assert simulation.clock.monotonic() < 5

    simulate(main, seed)


@SEEDS
def test_unreadable_records_are_answered_with_the_offset_after_them(seed: int) -> None:
    """A client may store a batch whose records are nonsense: the broker does not open what it is sent."""

    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            await with_topic(client)
            nonsense = build_batch([NewRecord(0, None, b"x" * 40), NewRecord(0, None, b"y")])
            nonsense[HEADER_BYTES:] = b"\x7f" * (len(nonsense) - HEADER_BYTES)
            reseal(nonsense)
            await publish(client, "before")
            append(server, nonsense)
            await publish(client, "behind")
            page = (await client.call("GET", READ)).json()
            assert values(page) == ["before"]
            assert page["next_offset"] == 1
            reply = await client.call("GET", f"{READ}?offset=1")
            assert (reply.status, reply.json()["code"]) == (500, "unreadable_batch")
            assert "offset 3" in reply.json()["hint"]
            assert values((await client.call("GET", f"{READ}?offset=3")).json()) == ["behind"]

    simulate(main, seed)
