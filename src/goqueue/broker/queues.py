"""Queue groups: consumers receive messages for a while, and say what became of them.

A receive leases what there is, and brings the messages; with nothing there, it waits until something is published, is
ready again, or its time is up. The group is made by the first receive, and begins with a partition where its settings
say. What many consumers ask for at once is carried out in rounds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from goqueue.broker.pipeline import operation
from goqueue.broker.queue_beginnings import prepare
from goqueue.broker.queue_receiving import Receiving, Source, Wish, sight_of
from goqueue.broker.queue_settling import Saying, Statement
from goqueue.machines.delivery_steps import Result

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker
    from goqueue.broker.pipeline import Caller


async def receive(broker: Broker, caller: Caller, wish: Wish) -> Receiving:
    """Lease messages to a consumer; waits for the first one if asked to, and for the topic itself."""
    loop, waits = asyncio.get_running_loop(), broker.queues.waits
    deadline = loop.time() + wish.wait_ms / 1000
    while any(name not in broker.topics for name in wish.topics) and loop.time() < deadline and not waits.is_closed:
        await waits.topic(deadline)
    source = Source(wish.group, tuple(dict.fromkeys(wish.topics)))
    try:
        found = await receive_now(broker, caller, source, wish)
        while not found.received and await _news(broker, source, wish, found, deadline):
            found = await _receive(broker, source, wish)
        return found
    finally:
        # Whatever became of it: what it leaves is for somebody else.
        broker.queues.pass_on(wish.group)


@operation("queues.receive")
async def receive_now(broker: Broker, source: Source, wish: Wish) -> Receiving:
    """Lease messages to a consumer, as far as there are any."""
    return await _receive(broker, source, wish)


async def _receive(broker: Broker, source: Source, wish: Wish) -> Receiving:
    return await broker.queues.receives.join(source, wish, wish.limit)


async def _news(broker: Broker, source: Source, wish: Wish, found: Receiving, deadline: float) -> bool:
    """Wait until there may be something for a consumer who got nothing; tell whether there may be, in its time."""
    waits = broker.queues.waits
    # Meanwhile the group may have been moved or made anew, and its topics may have changed. From here on, there is no
    # pause before it waits: nothing can happen of which it does not hear.
    group, partitions = await prepare(broker, source.group, source.topics)
    sight = sight_of(group, partitions, wish)
    if asyncio.get_running_loop().time() >= deadline or waits.is_closed:
        # What was passed may be much, all of it aborted or waiting for its key.
        return sight.shortfall == "" and sight.cursors != found.sight.cursors and bool(sight.cursors)
    if sight != found.sight and (sight.cursors or sight.shortfall != found.sight.shortfall):
        return True
    if sight.shortfall:
        broker.queues.pass_on(wish.group)
        await waits.resumed(wish.group, deadline)
    else:
        await waits.turn(wish.group, partitions, deadline)
    return True


@operation("queues.settle")
async def settle(broker: Broker, receipts: Sequence[str], statement: Statement) -> Sequence[Result]:
    """Say of leased messages what became of them; return the result of each, durable."""
    shown, unreadable = broker.queues.receipts.read(receipts)
    if len(shown) == 1 and not unreadable:
        # As most are.
        ((group, (_, claims)),) = shown.items()
        return await broker.queues.settlements.join(Saying(group, statement), claims, len(receipts))
    results: list[Result | None] = [unreadable.get(number) for number in range(len(receipts))]
    for group, (numbers, claims) in shown.items():
        told = await broker.queues.settlements.join(Saying(group, statement), claims, len(numbers))
        for number, result in zip(numbers, told, strict=True):
            results[number] = result
    return [each for each in results if each is not None]
