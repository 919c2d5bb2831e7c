"""Leases across a restart with a wall clock that was set meanwhile: monotonic time of the same boot decides."""

from __future__ import annotations

import asyncio

import pytest

from goqueue.broker.admission import INSIDE
from goqueue.broker.queues.receive_and_settle import receive
from goqueue.broker.queues.receiving import ReceiveTerms, Source
from goqueue.testing import SimDisk, Simulation, simulate
from tests.protocols.kafka.requests import create_topic
from tests.protocols.kafka.server import SimServer, serving
from tests.protocols.kafka.share_kit import publish

HOUR_MS = 3_600_000
VISIBILITY_S = 15


async def _receive(server: SimServer) -> int:
    """Return how many messages a consumer gets now."""
    wish = ReceiveTerms(Source("g", ("t",)), "ann", 10, visibility_ms=VISIBILITY_S * 1000)
    found = await receive(server.server.broker.queues, INSIDE, wish)
    return sum(len(each.receipts) for each in found.received)


@pytest.mark.parametrize("jump_ms", [HOUR_MS, -HOUR_MS, 0])
def test_lease_ends_when_its_time_is_over_whatever_the_wall_clock_shows(jump_ms: int) -> None:
    async def main(simulation: Simulation) -> None:
        disk = SimDisk(seed=1)
        async with serving(simulation, disk) as server:
            client = await server.client()
            await create_topic(client, "t")
            await publish(client, "t", "a")
            assert await _receive(server) == 1
            await asyncio.sleep(7)
        simulation.clock.jump_ms(jump_ms)
        async with serving(simulation, disk) as server:
            assert await _receive(server) == 0
            await asyncio.sleep(VISIBILITY_S - 7 - 1)
            assert await _receive(server) == 0
            await asyncio.sleep(2)
            assert await _receive(server) == 1

    simulate(main, 7)


def test_lease_whose_time_passed_while_the_broker_was_down_is_over_at_the_start() -> None:
    async def main(simulation: Simulation) -> None:
        disk = SimDisk(seed=1)
        async with serving(simulation, disk) as server:
            client = await server.client()
            await create_topic(client, "t")
            await publish(client, "t", "a")
            assert await _receive(server) == 1
        await asyncio.sleep(VISIBILITY_S + 1)
        async with serving(simulation, disk) as server:
            await asyncio.sleep(0.1)
            assert await _receive(server) == 1

    simulate(main, 7)
