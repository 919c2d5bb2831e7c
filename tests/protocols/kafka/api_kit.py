"""What the tests of single APIs share: a server with a client, and error codes by name."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from goqueue.protocols.kafka.wire.listener import RequestFailed
from goqueue.testing import Simulation, simulate
from tests.protocols.kafka.messages import Plain
from tests.protocols.kafka.raw import DESCRIBE_CONFIGS, RawClient
from tests.protocols.kafka.server import SimServer, serving

UNKNOWN_TOPIC, TOO_LARGE, INVALID_TOPIC, NOT_ENOUGH_REPLICAS, TOPIC_EXISTS, INVALID_PARTITIONS = 3, 10, 17, 19, 36, 37
INVALID_REPLICATION, INVALID_CONFIG, INVALID_REQUEST, UNKNOWN_ID, OUT_OF_RANGE = 38, 40, 42, 100, 1
SET, DELETE, APPEND, SUBTRACT = range(4)

Act = Callable[[SimServer, RawClient], Awaitable[None]]


def run(act: Act, **settings: Any) -> None:
    """Let a client talk to a server; no error may be one that nobody expected."""

    async def main(simulation: Simulation) -> None:
        async with serving(simulation, **settings) as server:
            await act(server, await server.client())
            assert server.sink.of(RequestFailed) == []

    simulate(main, 7)


async def pass_time(seconds: float) -> None:
    """Let virtual time pass, which is the only one inside of `run`."""
    await asyncio.sleep(seconds)


async def configs(client: RawClient, name: str, *, kind: int = 2, keys: list[str] | None = None) -> dict[str, Plain]:
    """Return the settings of a topic or broker by name."""
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    request = {"resources": [resource], "include_synonyms": True, "include_documentation": True}
    (result,) = (await client.call(DESCRIBE_CONFIGS, 4, request))["results"]
    assert result["error_code"] == 0
    return {each["name"]: each for each in result["configs"]}
