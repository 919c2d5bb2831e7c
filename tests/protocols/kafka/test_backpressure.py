"""Whoever writes faster than the disk waits for it, and is answered whatever becomes of the disk."""

from __future__ import annotations

import asyncio
import errno

import pytest

from goqueue.runtime import flusher
from goqueue.testing import Simulation, simulate
from tests.protocols.kafka.raw import PRODUCE
from tests.protocols.kafka.requests import LEADER, create_topic, delete_topic, produce, produced, publish
from tests.protocols.kafka.server import serving
from tests.unit.log.log_kit import batch

SEEDS = pytest.mark.seeds(10, long_count=300)


@pytest.fixture(autouse=True)
def _little_is_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flusher, "_MUCH_BYTES", 2_000)
    monkeypatch.setattr(flusher, "_TOO_MUCH_BYTES", 10_000)


@SEEDS
def test_much_that_is_not_durable_is_flushed_before_its_time(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            config = {"goqueue.flush": "interval", "goqueue.flush.interval.ms": "100000"}
            await create_topic(client, "t", config=config)
            # The first append to a new log is flushed at once, whatever the setting.
            await publish(client, "t", batch(b"x"))
            log = server.server.broker.topics.topic("t").partition(0).log
            await asyncio.sleep(1)
            assert log.durable_end == 1
            await publish(client, "t", batch(b"x" * 100))
            await asyncio.sleep(1)
            assert log.durable_end == 1
            await publish(client, "t", batch(b"x" * 3000))
            await asyncio.sleep(1)
            assert log.durable_end == 3

    simulate(main, seed)


@SEEDS
@pytest.mark.parametrize("flush", ["group", "interval"])
def test_a_writer_that_is_too_fast_waits_for_the_disk(seed: int, flush: str) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            await create_topic(client, "t", config={"goqueue.flush": flush})
            log = server.server.broker.topics.topic("t").partition(0).log
            for _ in range(40):
                client.send(PRODUCE, 9, produce("t", batch(b"x" * 3000), acks=LEADER))
            for number in range(40):
                assert produced(await client.reply())["base_offset"] == number
                # Three batches of these are too much; what a flush under way covers comes on top.
                assert log.end_offset - log.durable_end <= 40
                assert number - log.durable_end <= 8

    simulate(main, seed)


@SEEDS
@pytest.mark.parametrize("end", ["failure", "deletion", "stop"])
def test_a_writer_that_waits_for_the_disk_is_answered_in_any_case(seed: int, end: str) -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client, owner = await server.client(), await server.client("owner")
            await create_topic(client, "t", config={"goqueue.flush": "interval"})
            for _ in range(20):
                client.send(PRODUCE, 9, produce("t", batch(b"x" * 3000), acks=LEADER))
            if end == "failure":
                server.disk.fail(errno.EIO, operation="sync", path="t-0/*.log")
            await asyncio.sleep(simulation.entropy.fraction() * 0.005)
            if end == "deletion":
                await delete_topic(owner, "t")
            elif end == "stop":
                await server.stop()
                return
            async with asyncio.timeout(5):
                for _ in range(20):
                    assert produced(await client.reply())["error_code"] in {0, 3, 56}

    simulate(main, seed)
