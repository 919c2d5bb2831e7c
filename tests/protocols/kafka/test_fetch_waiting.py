"""A fetch that finds too little waits, and is answered as soon as waiting no longer helps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from goqueue.testing import Simulation, simulate
from tests.protocols.kafka.raw import FETCH, PRODUCE, RawClient
from tests.protocols.kafka.requests import (
    create_topic,
    delete_records,
    delete_topic,
    fetch,
    fetched,
    publish,
    read,
)
from tests.protocols.kafka.server import SimServer, serving
from tests.unit.log.log_kit import batch

SEEDS = pytest.mark.seeds(10, long_count=500)
OUT_OF_RANGE, UNKNOWN_TOPIC, UNKNOWN_EPOCH = 1, 3, 75
# What a round trip and a flush may take on the simulated network.
SOON_S = 0.1


def waiters(server: SimServer) -> int:
    """Return how many wait for any partition."""
    return sum(len(partition.waiters) for partition in server.server.broker.topics.partitions)


async def until(is_so: Callable[[], bool], *, seconds: float = 10) -> None:
    """Wait in virtual time until something is so; TimeoutError if that takes too long."""
    async with asyncio.timeout(seconds):
        while not is_so():  # noqa: ASYNC110 - nobody tells, and time costs nothing here
            await asyncio.sleep(0.001)


async def parked(server: SimServer, client: RawClient, topic: str = "t", *, wait_ms: int = 10_000) -> None:
    """Send a fetch at the end of a topic and wait until it waits."""
    client.send(FETCH, 11, fetch(topic, 0, wait_ms=wait_ms))
    await until(lambda: waiters(server) > 0)


@SEEDS
def test_a_publish_answers_it_at_once(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            reader, writer = await server.client("reader"), await server.client("writer")
            await create_topic(writer, "t")
            await parked(server, reader)
            sent_at = simulation.clock.monotonic()
            data = batch(b"hello")
            await publish(writer, "t", data)
            result = fetched(await reader.reply())
            assert simulation.clock.monotonic() - sent_at < SOON_S
            assert (result["error_code"], result["high_watermark"]) == (0, 1)
            assert result["records"][61:] == bytes(data[61:])
            assert waiters(server) == 0

    simulate(main, seed)


@SEEDS
def test_its_deadline_answers_it_with_nothing(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            await create_topic(client, "t")
            sent_at = simulation.clock.monotonic()
            result = await read(client, "t", 0, wait_ms=500)
            assert 0.5 <= simulation.clock.monotonic() - sent_at < 0.5 + SOON_S
            assert (result["error_code"], result["high_watermark"], result["records"]) == (0, 0, b"")
            assert waiters(server) == 0

    simulate(main, seed)


@SEEDS
def test_it_waits_for_as_many_bytes_as_it_asks_for(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            reader, writer = await server.client("reader"), await server.client("writer")
            await create_topic(writer, "t", config={"index.interval.bytes": "0"})
            reader.send(FETCH, 11, fetch("t", 0, wait_ms=60_000, bytes_min=250))
            size = len(batch(b"x" * 32))
            for number in range(1, 4):
                await publish(writer, "t", batch(b"x" * 32))
                await asyncio.sleep(SOON_S)
                assert bool(reader.received) == (number * size >= 250)
            assert len(fetched(await reader.reply())["records"]) == 3 * size

    simulate(main, seed)


@SEEDS
def test_the_end_of_its_topic_answers_it_with_an_error(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            reader, owner = await server.client("reader"), await server.client("owner")
            await create_topic(owner, "t")
            await parked(server, reader)
            sent_at = simulation.clock.monotonic()
            await delete_topic(owner, "t")
            assert fetched(await reader.reply())["error_code"] == UNKNOWN_TOPIC
            assert simulation.clock.monotonic() - sent_at < SOON_S

    simulate(main, seed)


@SEEDS
def test_the_end_of_the_server_answers_it(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            reader = await server.client("reader")
            await create_topic(reader, "t")
            await parked(server, reader)
            stopped_at = simulation.clock.monotonic()
            await server.stop()
            assert fetched(await reader.reply())["error_code"] == 0
            await reader.ended()
            assert simulation.clock.monotonic() - stopped_at < 1

    simulate(main, seed)


@SEEDS
@pytest.mark.parametrize("offset", [-1, 6, 10_000])
def test_an_offset_out_of_range_is_told_at_once(seed: int, offset: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            await create_topic(client, "t")
            await publish(client, "t", batch(b"1", b"2", b"3"))
            sent_at = simulation.clock.monotonic()
            assert (await read(client, "t", offset, wait_ms=10_000))["error_code"] == OUT_OF_RANGE
            assert simulation.clock.monotonic() - sent_at < SOON_S

    simulate(main, seed)


@SEEDS
def test_an_offset_before_the_start_is_told_at_once(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            await create_topic(client, "t")
            await publish(client, "t", batch(b"1", b"2", b"3"))
            assert (await delete_records(client, "t", -1))["low_watermark"] == 3
            sent_at = simulation.clock.monotonic()
            assert (await read(client, "t", 1, wait_ms=10_000))["error_code"] == OUT_OF_RANGE
            assert simulation.clock.monotonic() - sent_at < SOON_S

    simulate(main, seed)


@SEEDS
def test_an_epoch_that_nobody_knows_is_told_at_once(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            await create_topic(client, "t")
            sent_at = simulation.clock.monotonic()
            reply = await client.call(FETCH, 11, fetch("t", 0, wait_ms=10_000, epoch=7))
            assert fetched(reply)["error_code"] == UNKNOWN_EPOCH
            assert simulation.clock.monotonic() - sent_at < SOON_S

    simulate(main, seed)


@SEEDS
def test_its_client_goes_and_nothing_is_left_of_it(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            reader, writer = await server.client("reader"), await server.client("writer")
            await create_topic(writer, "t")
            await parked(server, reader)
            reader.close()
            await until(lambda: waiters(server) == 0)
            assert (await publish(writer, "t", batch(b"after")))["error_code"] == 0
            assert server.server.limiter.connections == 1
            assert not server.server._kafka.tasks

    simulate(main, seed)


@SEEDS
def test_publishers_are_undisturbed_by_readers_that_are_cut_off(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            readers = [await server.client(f"reader-{number}") for number in range(5)]
            writer = await server.client("writer")
            await create_topic(writer, "t")
            for reader in readers:
                reader.send(FETCH, 11, fetch("t", 0, wait_ms=10_000))
            for number in range(5):
                writer.send(PRODUCE, 9, {"acks": -1, "timeout": 1, "topic_data": [_section(b"%d" % number)]})
                simulation.network.cut(f"reader-{number}", "broker")
            for number in range(5):
                reply = await writer.reply()
                assert reply["responses"][0]["partition_responses"][0]["base_offset"] == number
            assert writer.is_open

    simulate(main, seed)


def _section(value: bytes) -> dict[str, object]:
    return {"name": "t", "partition_data": [{"index": 0, "records": bytes(batch(value))}]}


@SEEDS
def test_the_first_batch_comes_whole_however_little_is_asked_for(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            await create_topic(client, "t")
            data = batch(b"x" * 5000)
            await publish(client, "t", data)
            await publish(client, "t", data)
            for bytes_max in (0, 1, 100, len(data)):
                for wait_ms in (0, 1000):
                    sent_at = simulation.clock.monotonic()
                    reply = await client.call(FETCH, 11, fetch("t", 0, bytes_max=bytes_max, wait_ms=wait_ms))
                    assert len(fetched(reply)["records"]) == len(data), bytes_max
                    assert simulation.clock.monotonic() - sent_at < SOON_S, bytes_max

    simulate(main, seed)


@SEEDS
def test_a_sick_partition_does_not_keep_the_others_from_being_read(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            await create_topic(client, "t")
            data = batch(b"hello")
            await publish(client, "t", data)
            request = fetch("t", 0, wait_ms=1000)
            part = request["topics"][0]["partitions"][0]
            request["topics"] = [
                {"topic": "gone", "partitions": [part]},
                {"topic": "t", "partitions": [{**part, "partition": 9}, {**part, "fetch_offset": 55}, part]},
            ]
            gone, here = (await client.call(FETCH, 11, request))["responses"]
            assert gone["partitions"][0]["error_code"] == UNKNOWN_TOPIC
            assert [each["error_code"] for each in here["partitions"]] == [UNKNOWN_TOPIC, OUT_OF_RANGE, 0]
            assert len(here["partitions"][2]["records"]) == len(data)

    simulate(main, seed)
