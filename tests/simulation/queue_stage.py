"""What tests of queue groups on a simulated disk do and see, beside what clients can."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from goqueue.broker.broker import Broker
from goqueue.machines.delivery_values import FlightState
from tests.simulation.group_stage import let_pass


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
