"""How many single publishes a second an `AsyncClient` carries, by how many of its calls are under way at once.

Run it by hand: `python -m goqueue.bench.client_concurrency`. It starts a broker of its own, and prints JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

from goqueue.client import AsyncClient, NewMessage, messages
from goqueue.testing.broker import Broker

CONCURRENCIES = (1, 8, 64)


async def publishes_per_second(server: str, concurrency: int, count: int) -> float:
    """Publish single messages, so many at once; return how many a second were stored."""
    async with AsyncClient(server) as client:

        async def publish(share: int) -> None:
            for _ in range(share):
                (fate,) = await client.send(messages.publish("bench", [NewMessage("x" * 100)]))
                if isinstance(fate, Exception):
                    raise fate

        await publish(5)
        began = time.perf_counter()
        async with asyncio.TaskGroup() as tasks:
            for _ in range(concurrency):
                tasks.create_task(publish(count // concurrency))
        return (count // concurrency * concurrency) / (time.perf_counter() - began)


def measure(count: int = 1_000) -> dict[str, float]:
    """Measure against a broker in this process, in a thread of its own."""
    with Broker() as broker:
        return {
            str(each): round(asyncio.run(publishes_per_second(broker.http, each, count)), 1) for each in CONCURRENCIES
        }


if __name__ == "__main__":
    sys.stdout.write(json.dumps({"publishes_per_second": measure()}) + "\n")
