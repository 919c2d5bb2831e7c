"""What tests of queue groups on a simulated disk do and see, beside what clients can."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Sequence

from goqueue.broker.broker import Broker
from goqueue.machines.queues.values import AckType, FlightState, LetterPlace
from goqueue.testing import SimDisk
from tests.simulation.group_stage import let_pass
from tests.simulation.queue_calls import Given, PublishValue, ReadLetters, ReceiveSome, SettleSome


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


def letter_places(broker: Broker) -> list[LetterPlace]:
    """Return where letters may lie, of any group."""
    groups = [group for machine in broker.queues.machines for group in machine.groups.values()]
    return [place for group in groups for window in group.windows.values() for place in window.letter_places]


async def publish_values(broker: Broker, values: Sequence[str], topic: str = "orders") -> None:
    """Publish messages, one after another."""
    for value in values:
        await PublishValue(topic, value, None).perform(broker)


async def receive_values(broker: Broker, *topics: str, limit: int = 100, wait_ms: int = 0) -> list[str]:
    """Return what a consumer of a group gets."""
    wish = ReceiveSome("billing", topics or ("orders",), "ann", limit, wait_ms, 60_000, 0)
    return [given.value for given in await wish.perform(broker)]


async def write_letters_and_no_more(
    broker: Broker, disk: SimDisk, given: Sequence[Given], home: str = "orders.dlq"
) -> None:
    """Have messages of `billing` dead, which is stored, and their letters written, but not that they are buried.

    The disk is left as it is, without room for that.
    """
    # What they die of is written, and where their letters will lie.
    disk.fail(errno.ENOSPC, operation="write", path="*__deliveries-*/*.log", after=2, times=None)
    await SettleSome("billing", tuple(given), AckType.REJECT).perform(broker)
    while not await ReadLetters(home).perform(broker):
        await let_pass(0.01)
