"""How many single publishes a second an `AsyncClient` carries, by how many of its calls are under way at once.

The client works in this process, and the broker in one of its own. A client that had to look through all its
connections for each call would become slower with each call under way.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

from goqueue.client import AsyncClient, NewMessage, messages
from goqueue.errors import GoQueueError
from goqueue_bench.broker_process import private_broker
from goqueue_bench.measure import Aim, Goal, Result, require

CONCURRENCIES = (1, 8, 64)
FULL = 2_000
QUICK = 320
_ROUNDS = 3
_SIZE_BYTES = 100
_UNMEASURED = 50
_TOPIC = "bench"


def run(workspace: Path, count: int, announce: Callable[[str], None]) -> Iterator[Result]:
    """Yield the rate of each concurrency: the median of rounds that take turns, with `count` publishes each."""
    found: dict[int, list[float]] = {each: [] for each in CONCURRENCIES}
    with private_broker(workspace) as broker:
        host, port = broker.http_address
        server = f"http://{host}:{port}"
        for number in range(_ROUNDS):
            for each in CONCURRENCIES:
                announce(f"{each} calls under way, round {number + 1} of {_ROUNDS}")
                found[each].append(asyncio.run(publishes_per_second(server, each, count)))
        asyncio.run(_check(server, _ROUNDS * sum(count // each * each + _UNMEASURED for each in CONCURRENCIES)))
    rates = {each: median(rounds) for each, rounds in found.items()}
    for each, rate in rates.items():
        least_most = {"least": min(found[each]), "most": max(found[each])}
        yield Result(f"calls_{each}", f"single publishes, {each} under way", rate, "publishes/s", details=least_most)
    many, one = CONCURRENCIES[-1], CONCURRENCIES[0]
    goal = Goal(Aim.AT_LEAST, 1.0)
    yield Result("many_against_one", f"{many} under way against {one}", rates[many] / rates[one], "times", goal)


async def publishes_per_second(server: str, concurrency: int, count: int) -> float:
    """Publish single messages, so many at once; return how many a second were stored."""
    async with AsyncClient(server) as client:

        async def publish(share: int) -> None:
            for _ in range(share):
                (fate,) = await client.send(messages.publish(_TOPIC, [NewMessage("x" * _SIZE_BYTES)]))
                require(not isinstance(fate, GoQueueError), f"a publish is stored: {fate}")

        await publish(_UNMEASURED)
        share = count // concurrency
        began = time.perf_counter()
        async with asyncio.TaskGroup() as tasks:
            for _ in range(concurrency):
                tasks.create_task(publish(share))
        return share * concurrency / (time.perf_counter() - began)


async def _check(server: str, expected: int) -> None:
    """Require that the topic has all messages, and none of them twice."""
    async with AsyncClient(server) as client:
        pages = [await client.send(messages.read(_TOPIC, partition, limit=1)) for partition in range(3)]
    require(sum(page.end_offset for page in pages) == expected, f"{expected} messages are stored")
