"""Logs of groups that cannot be used: what is told of groups then, by both protocols."""

from __future__ import annotations

import errno

import pytest

from goqueue.testing import SimDisk, Simulation, simulate
from tests.protocols.http.raw import serving as serving_http
from tests.protocols.kafka.group_kit import COORDINATOR_NOT_AVAILABLE, LIST_GROUPS, commit, list_groups, offsets
from tests.protocols.kafka.requests import create_topic
from tests.protocols.kafka.server import serving

SEEDS = pytest.mark.seeds(2, long_count=50)
NAMES = [f"g{number}" for number in range(30)]


async def filled(simulation: Simulation) -> SimDisk:
    """Return a disk with many groups, which no process has open."""
    disk = SimDisk(7)
    async with serving(simulation, disk) as server:
        client = await server.client()
        await create_topic(client, "t")
        for name in NAMES:
            assert await commit(client, offsets({0: 0}), group=name) == [0]
        assert set(await list_groups(client)) == set(NAMES)
    return disk


@SEEDS
@pytest.mark.parametrize("operation", ["open", "write"])
def test_a_list_of_groups_says_that_some_are_missing(seed: int, operation: str) -> None:
    async def main(simulation: Simulation) -> None:
        disk = await filled(simulation)
        if operation == "open":
            disk.fail(errno.EIO, operation="open", path="__consumer_offsets-1*/*", times=None)
        async with serving(simulation, disk) as server:
            client = await server.client()
            if operation == "write":
                disk.fail(errno.EIO, operation="write", path="__consumer_offsets-*/*.log", times=1)
                await commit(client, offsets({0: 0}), group=NAMES[0])
            reply = await client.call(LIST_GROUPS, 5, {})
            assert reply["error_code"] == COORDINATOR_NOT_AVAILABLE
            told = {each["group_id"] for each in reply["groups"]}
            assert told < set(NAMES) if operation == "open" else told <= set(NAMES)
            disk.heal()
        async with serving(simulation, disk) as server:
            assert set(await list_groups(await server.client())) == set(NAMES)

    simulate(main, seed)


@SEEDS
def test_a_list_by_http_says_whether_it_is_complete(seed: int) -> None:
    async def main(simulation: Simulation) -> None:
        disk = await filled(simulation)
        async with serving_http(simulation, disk) as server:
            found = (await (await server.client()).call("GET", "/groups")).json()
            assert found["complete"]
            assert {each["name"] for each in found["groups"]} == set(NAMES)
        disk.fail(errno.EIO, operation="open", path="__consumer_offsets-1*/*", times=None)
        async with serving_http(simulation, disk) as server:
            found = (await (await server.client()).call("GET", "/groups")).json()
            assert not found["complete"]
            assert {each["name"] for each in found["groups"]} < set(NAMES)

    simulate(main, seed)
