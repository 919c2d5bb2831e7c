"""Queue groups: consumers receive messages for a while, and say what became of them.

A receive leases what there is, and brings the messages; with nothing there, it waits until something is published, is
ready again, or its time is up. The group is made by the first receive, and begins with a partition where its settings
say. Topics that are not there yet are waited for as messages are. What many consumers ask for at once is carried out
in rounds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING

from goqueue.broker.admission import Caller, operation
from goqueue.broker.queues.receiving import Looked, ReceiveTerms, Receiving, View, held_up, shortfall_of, sight_of
from goqueue.broker.queues.settling import GroupSettlement, Settlement
from goqueue.broker.queues.start_positions import prepare, require_topics
from goqueue.errors import GoQueueError
from goqueue.machines.queues.steps import Result
from goqueue.model.topic import check_name

if TYPE_CHECKING:
    from goqueue.broker.queues.service import QueueService


async def receive(queues: QueueService, caller: Caller, wish: ReceiveTerms) -> Receiving:
    """Lease messages to a consumer; waits for the first one if asked to, and for the topic itself.

    If nothing has come, `shortfall` says why, as far as the group has a reason. If it has none, what keeps a partition
    from being read is raised, or UnknownTopic if a topic is not there.
    """
    waits = queues.waits
    deadline = asyncio.get_running_loop().time() + wish.wait_ms / 1000
    topics = wish.source.topics
    waits.enter(wish.source.group)
    try:
        if any(name not in queues.topics.by_name for name in topics):
            await _topic_made(queues, topics, deadline)
        looked = await receive_now(queues, caller, wish)
        while not looked.receiving.received:
            news = await _news(queues, wish, looked, deadline)
            if news is _News.NONE:
                break
            # Who waited in line was woken alone, and nobody is left there who could be woken by the same news.
            is_alone = news is _News.OWN and not waits.has_line(wish.source.group)
            looked = await _receive(queues, wish, is_alone=is_alone)
        if looked.receiving.received or looked.receiving.shortfall:
            return looked.receiving
        if looked.fault is not None:
            raise looked.fault
        # It might be a name that is misspelt.
        require_topics(queues, topics)
        return looked.receiving._replace(shortfall=held_up(looked.sight))
    finally:
        waits.leave(wish.source.group)
        # Whatever became of it: what it leaves is for somebody else.
        queues.pass_on(wish.source.group)


async def _topic_made(queues: QueueService, topics: Sequence[str], deadline: float) -> None:
    """Wait until one of these topics is there, or time is up; InvalidTopicName if one of them can never be."""
    loop, waits = asyncio.get_running_loop(), queues.waits
    for name in topics:
        check_name(name)
    while all(name not in queues.topics.by_name for name in topics) and loop.time() < deadline and not waits.is_closed:
        await waits.topic(deadline)


@operation("queues.receive", on="queue", at="wish.source.group")
async def receive_now(queues: QueueService, caller: Caller, wish: ReceiveTerms) -> Looked:
    """Lease messages to a consumer, as far as there are any; without a round if there can be none."""
    view = View(*await prepare(queues, *wish.source))
    sight = sight_of(view, wish)
    if sight.marks and not sight.shortfall:
        return await _receive(queues, wish)
    return Looked(Receiving((), 0, sight.shortfall), sight, view)


async def _receive(queues: QueueService, wish: ReceiveTerms, *, is_alone: bool = False) -> Looked:
    return await queues.receives.join(wish.source, wish, wish.limit, is_alone=is_alone)


class _News(Enum):
    """What a consumer who got nothing has heard of in its time: there may be something, perhaps for it alone."""

    NONE = auto()
    SOME = auto()
    OWN = auto()


async def _news(queues: QueueService, wish: ReceiveTerms, looked: Looked, deadline: float) -> _News:
    """Wait until there may be something for a consumer who got nothing; tell whether there may be, in its time."""
    waits, name = queues.waits, wish.source.group
    sight, view = looked.sight, looked.view
    if view is None:
        # Meanwhile the group may have been moved or made anew, and its topics may have changed.
        view = View(*await prepare(queues, *wish.source))
        sight = sight_of(view, wish)
    # From here on, there is no pause before it waits: nothing can happen of which it does not hear.
    if asyncio.get_running_loop().time() >= deadline or waits.is_closed:
        # What was passed may be much, all of it aborted or waiting for its key, and others may have taken what there
        # was room for.
        return _News.SOME if not sight.shortfall and sight.is_beyond(looked.sight) else _News.NONE
    if sight.shortfall:
        queues.pass_on(name)
        await waits.resumed(name, lambda group: not shortfall_of(group, wish), deadline)
        return _News.SOME
    # Who was told of a shortfall looks again though there is nothing: that there is none any more.
    is_empty = not sight.marks and not looked.sight.shortfall
    if is_empty or sight == looked.sight:
        await waits.turn(name, view.partitions, deadline)
        return _News.OWN
    return _News.SOME


@operation("queues.settle", on="queue")
async def settle(
    queues: QueueService,
    caller: Caller,
    receipts: Sequence[str],
    statement: Settlement,
) -> Sequence[Result]:
    """Say of leased messages what became of them; return the result of each, durable.

    Raises what has kept all their groups from it; if others could be used, that is the result of each of its receipts.
    """
    shown, unreadable = queues.receipts.read(receipts)
    ask = queues.settlements.ask
    # All of it is said at once, and holds though the caller may leave.
    said = [ask(GroupSettlement(group, statement), claims, len(numbers)) for group, (numbers, claims) in shown.items()]
    if len(said) == 1 and not unreadable:
        # As most are.
        return await said[0]
    told = await asyncio.gather(*said, return_exceptions=True)
    faults = [each for each in told if isinstance(each, GoQueueError)]
    if faults and len(faults) == len(told):
        raise faults[0]
    results: list[Result | None] = [unreadable.get(number) for number in range(len(receipts))]
    for (numbers, _), each in zip(shown.values(), told, strict=True):
        for number, result in zip(numbers, _results(each, len(numbers)), strict=True):
            results[number] = result
    return [each for each in results if each is not None]


def _results(told: Sequence[Result] | BaseException, count: int) -> Sequence[Result]:
    """Return what has become of so many messages of a group, about which this was told."""
    if isinstance(told, GoQueueError):
        return [told] * count
    if isinstance(told, BaseException):
        raise told
    return told
