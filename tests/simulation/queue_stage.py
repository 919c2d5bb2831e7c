"""What tests of queue groups on a simulated disk do and see, beside what clients can."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from goqueue.broker.broker import Broker
from goqueue.machines.delivery_values import FlightState
from tests.simulation.group_stage import let_pass
from tests.simulation.queue_calls import PublishValue, ReceiveSome


async def until(fact: Callable[[], bool]) -> None:
    """Let time pass until something is so."""
    async with asyncio.timeout(300):
        while not fact():
            await let_pass(0.1)


def flight_states(broker: Broker) -> list[FlightState]:
    """Return the states of all messages in flight, of any group."""
    return [
        flight.state
        for machine in broker.queues.machines
        for group in machine.groups.values()
        for window in group.windows.values()
        for chunk in window.chunks.values()
        for flight in chunk.flights.values()
    ]


async def publish_values(broker: Broker, values: Sequence[str], topic: str = "orders") -> None:
    """Publish messages, one after another."""
    for value in values:
        await PublishValue(topic, value, None).perform(broker)


async def receive_values(broker: Broker, *topics: str, limit: int = 100, wait_ms: int = 0) -> list[str]:
    """Return what a consumer of a group gets."""
    wish = ReceiveSome("billing", topics or ("orders",), "ann", limit, wait_ms, 60_000, 0)
    return [given.value for given in await wish.perform(broker)]
