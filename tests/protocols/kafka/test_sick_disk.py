"""A disk that cannot be read: whoever asks is told so, and nobody is left without an answer."""

from __future__ import annotations

import asyncio
import errno

import pytest

from goqueue.protocols.kafka.wire.listener import RequestFailed
from goqueue.testing import SimDisk, Simulation, simulate
from tests.protocols.kafka.raw import FETCH
from tests.protocols.kafka.requests import create_topic, fetch, fetched, offset_at, publish, read
from tests.protocols.kafka.server import SimServer, serving
from tests.unit.log.log_kit import batch

SEEDS = pytest.mark.seeds(2, long_count=100)
STORAGE_ERROR = 56
EVERYWHERE = pytest.mark.parametrize("path", ["*.index", "*.log"])
OPERATIONS = pytest.mark.parametrize("operation", ["open", "read"])


async def filled(simulation: Simulation) -> SimDisk:
    """Return a disk with a topic of several segments, which no process has open."""
    disk = SimDisk(7)
    async with serving(simulation, disk) as server:
        client = await server.client()
        await create_topic(client, "t", config={"segment.bytes": "1024", "index.interval.bytes": "0"})
        for number in range(12):
            await publish(client, "t", batch(b"x" * 400, timestamp=1_700_000_000_000 + number))
    return disk


def only_t(path: str) -> str:
    """Return a pattern for files of the topic."""
    return f"t-0/{path}"


@SEEDS
@EVERYWHERE
@OPERATIONS
@pytest.mark.parametrize("wait_ms", [0, 500])
def test_a_fetch_is_told(seed: int, path: str, operation: str, wait_ms: int) -> None:
    async def main(simulation: Simulation) -> None:
        disk = await filled(simulation)
        async with serving(simulation, disk) as server:
            client = await server.client()
            disk.fail(errno.EIO, operation=operation, path=only_t(path), times=None)  # type: ignore[arg-type]
            for offset in range(12):
                result = await read(client, "t", offset, wait_ms=wait_ms)
                assert result["error_code"] in {0, STORAGE_ERROR}
                assert bool(result["records"]) == (result["error_code"] == 0)
            _no_surprises(server)
            disk.heal()
            assert (await read(client, "t", 0))["records"]

    simulate(main, seed)


@SEEDS
@EVERYWHERE
@OPERATIONS
def test_a_lookup_by_time_is_told(seed: int, path: str, operation: str) -> None:
    async def main(simulation: Simulation) -> None:
        disk = await filled(simulation)
        async with serving(simulation, disk) as server:
            client = await server.client()
            disk.fail(errno.EIO, operation=operation, path=only_t(path), times=None)  # type: ignore[arg-type]
            for where in (0, 1_700_000_000_005, -1, -2, -3):
                assert (await offset_at(client, "t", where))["error_code"] in {0, STORAGE_ERROR}
            _no_surprises(server)

    simulate(main, seed)


@SEEDS
@EVERYWHERE
@OPERATIONS
def test_a_fetch_that_waits_is_answered(seed: int, path: str, operation: str) -> None:
    async def main(simulation: Simulation) -> None:
        disk = await filled(simulation)
        async with serving(simulation, disk) as server:
            reader, writer = await server.client("reader"), await server.client("writer")
            request = fetch("t", 12, wait_ms=3000, bytes_min=10**6)
            other = request["topics"][0]["partitions"][0]
            request["topics"][0]["partitions"] = [other, {**other, "fetch_offset": 0}]
            reader.send(FETCH, 11, request)
            await asyncio.sleep(0.1)
            disk.fail(errno.EIO, operation=operation, path=only_t(path), times=None)  # type: ignore[arg-type]
            await publish(writer, "t", batch(b"y"))
            async with asyncio.timeout(5):
                assert fetched(await reader.reply())["error_code"] in {0, STORAGE_ERROR}
            _no_surprises(server)

    simulate(main, seed)


def _no_surprises(server: SimServer) -> None:
    assert server.sink.of(RequestFailed) == []
