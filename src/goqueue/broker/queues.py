"""Queue groups: consumers receive messages for a while, and say what became of them.

A receive looks at the partitions of its topics in turn, leases what it finds, and brings the messages; with nothing
there, it waits until something is published, is ready again, or its time is up. The group is made by the first receive,
and begins with a partition where its settings say.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from goqueue.broker.groups import check_group_name
from goqueue.broker.offsets import NO_OFFSET, find_offset
from goqueue.broker.pipeline import INSIDE, operation
from goqueue.broker.queue_offers import Look, is_worth_a_look, look
from goqueue.broker.queue_reading import Stretches
from goqueue.broker.receipts import Receipts
from goqueue.errors import GoQueueError, InconsistentProtocol, TopicProtected, UnknownQueue
from goqueue.machines.deliveries import Leased
from goqueue.machines.delivery_commands import BeginTopic, Configure, Receive, Retreat, Settle
from goqueue.machines.delivery_group import QueueGroup
from goqueue.machines.delivery_steps import Result, all_stale
from goqueue.machines.delivery_values import Delivery, Verdict
from goqueue.machines.group_values import TopicPartition
from goqueue.model.queue_settings import Ordering, QueueSettings
from goqueue.model.start_at import StartAt
from goqueue.records.reader import Record
from goqueue.runtime.partition import Partition
from goqueue.runtime.waiters import arrival

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker, OpenTopic
    from goqueue.broker.pipeline import Caller

_LEASE_ID_BYTES = 8


class Wish(NamedTuple):
    """What a consumer asks for; without a visibility timeout it is the group's."""

    group: str
    topics: Sequence[str]
    consumer: str
    limit: int = 1
    wait_ms: int = 0
    visibility_ms: int | None = None
    bytes_max: int = 8 * 1024 * 1024


class Received(NamedTuple):
    """Messages of one partition that a consumer has got together, with the receipt of each."""

    delivery: Delivery
    receipts: Sequence[str]
    records: Sequence[Record]


class Receiving(NamedTuple):
    """What a consumer got, until when, and why it is not more, if there is a reason."""

    received: Sequence[Received]
    deadline_ms: int
    shortfall: str


async def receive(broker: Broker, caller: Caller, wish: Wish) -> Receiving:
    """Lease messages to a consumer; waits for the first one if asked to, and for the topic itself."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wish.wait_ms / 1000
    while any(name not in broker.topics for name in wish.topics) and loop.time() < deadline:
        if broker.queues.waits.is_closed:
            break
        await broker.queues.waits.topic(deadline)
    group, partitions = await prepare(broker, caller, wish)
    try:
        return await _receive(broker, wish, group, partitions, deadline)
    finally:
        # Whatever became of it: what it leaves is for somebody else.
        broker.queues.pass_on(wish.group)


async def _receive(
    broker: Broker, wish: Wish, group: QueueGroup, partitions: Sequence[Partition], deadline: float
) -> Receiving:
    loop, waits = asyncio.get_running_loop(), broker.queues.waits
    lease_id = int.from_bytes(broker.entropy.token(_LEASE_ID_BYTES), "big")
    first = lease_id % len(partitions)
    # Whoever comes next begins elsewhere.
    partitions = [*partitions[first:], *partitions[:first]]
    while True:
        looks = _look_around(broker.queues.stretches, group, partitions, wish)
        leased = Leased((), 0, _shortfall(group, wish))
        before = _progress(group)
        if looks and not leased.shortfall:
            leased = await _lease(broker, group, wish, lease_id, looks)
        if leased.deliveries:
            return _told(broker.queues.receipts, wish, lease_id, leased, looks)
        if _progress(group) != before:
            # What was passed may be much, all of it aborted or waiting for its key: others have a turn in between.
            await arrival(loop.call_soon)
            continue
        if loop.time() >= deadline or waits.is_closed:
            return Receiving((), leased.deadline_ms, leased.shortfall)
        if _shortfall(group, wish):
            broker.queues.pass_on(wish.group)
            await waits.resumed(wish.group, deadline)
        else:
            await waits.turn(wish.group, partitions, deadline)
        # Meanwhile the group may have been moved or made anew, and its topics may have changed.
        group, partitions = await _prepare(broker, wish)


@operation("queues.receive")
async def prepare(broker: Broker, wish: Wish) -> tuple[QueueGroup, Sequence[Partition]]:
    """Return a group, made if need be, and the partitions that it is to get messages of, begun if need be."""
    return await _prepare(broker, wish)


async def _prepare(broker: Broker, wish: Wish) -> tuple[QueueGroup, Sequence[Partition]]:
    check_group_name(wish.group)
    topics = [require_topic(broker, name) for name in dict.fromkeys(wish.topics)]
    group = await ensure_group(broker, wish.group)
    return group, await ensure_partitions(broker, group, topics)


def require_topic(broker: Broker, name: str) -> OpenTopic:
    """Return a topic that can be a queue; UnknownTopic if there is none, TopicProtected if it is the broker's own."""
    opened = broker.topic(name)
    if opened.topic.is_internal:
        raise TopicProtected(f"{name!r} holds the broker's own state, and is no queue")
    return opened


async def ensure_group(broker: Broker, name: str, wanted: Configure | None = None) -> QueueGroup:
    """Return a group, made or configured if need be; InconsistentProtocol if its name is that of a stream group."""
    machine = broker.queues.peek(name)
    group = None if machine is None else machine.find(name)
    if group is None:
        streams = broker.groups.peek(name)
        if streams is not None and streams.find(name) is not None:
            raise InconsistentProtocol(f"{name!r} is a stream group, and no queue group", hint="use another name")
        wanted = wanted or Configure(name, QueueSettings())
    if wanted is not None:
        await broker.queues.submit(name, wanted)
        machine = await broker.queues.machine(name)
        group = machine.require(name)
    assert group is not None
    return group


async def ensure_partitions(broker: Broker, group: QueueGroup, topics: Sequence[OpenTopic]) -> list[Partition]:
    """Return the partitions of topics that can be used; the group has begun with each of them at return."""
    found = []
    for opened in topics:
        partitions = [each for each in opened.partitions if isinstance(each, Partition)]
        if not partitions:
            # Whatever is wrong with the first is as good a reason as any.
            opened.partition(0)
        await _begin(broker, group, opened, partitions)
        found += partitions
    return found


async def _begin(broker: Broker, group: QueueGroup, opened: OpenTopic, partitions: Sequence[Partition]) -> None:
    known = {each for each, window in group.windows.items() if window.topic_id == opened.topic.id}
    # A partition that was added later begins with its first message, wherever the group has begun.
    start = StartAt.EARLIEST if known else group.settings.start
    starts = {}
    for partition in partitions:
        where = TopicPartition(partition.topic, partition.index)
        if where not in known:
            starts[where] = await _start(broker, partition, start)
        elif group.windows[where].cursor > partition.log.end_offset:
            # Without a sync for each publish, a power loss takes messages that were delivered already.
            await broker.queues.submit(group.name, Retreat(group.name, where, partition.log.end_offset))
    if starts:
        await broker.queues.submit(group.name, BeginTopic(group.name, opened.topic.id, starts))


async def _start(broker: Broker, partition: Partition, start: StartAt | int) -> int:
    if start is StartAt.EARLIEST:
        return partition.log.start_offset
    if start is StartAt.LATEST:
        return partition.last_stable_offset
    found = await find_offset(broker, INSIDE, partition.topic, partition.index, start)
    return partition.last_stable_offset if found.offset == NO_OFFSET else found.offset


def _look_around(stretches: Stretches, group: QueueGroup, partitions: Sequence[Partition], wish: Wish) -> list[Look]:
    """Look for messages in partitions in turn, until there are as many as are asked for.

    One that cannot be read does not keep the others back; if nothing else is there, it is told.
    """
    messages_left, bytes_left = wish.limit, wish.bytes_max
    is_ordered = group.settings.ordering is Ordering.KEY
    looks = []
    fault: GoQueueError | None = None
    for partition in partitions:
        window = group.windows.get(TopicPartition(partition.topic, partition.index))
        if window is None or not is_worth_a_look(partition, window):
            continue
        if messages_left <= 0 or bytes_left <= 0:
            break
        try:
            found = look(partition, window, stretches, messages_left, bytes_left, is_ordered=is_ordered)
        except GoQueueError as error:
            fault = error
            continue
        if not found.is_empty:
            looks.append(found)
            messages_left -= len(found.records)
            bytes_left -= found.size_bytes
    if fault is not None and not looks:
        raise fault
    return looks


def _shortfall(group: QueueGroup, wish: Wish) -> str:
    if group.paused:
        return f"the group is paused: {group.paused}"
    if not group.room(wish.consumer):
        return f"consumer {wish.consumer!r} has {group.settings.in_flight_max} messages in flight, and may have no more"
    return ""


def _progress(group: QueueGroup) -> Sequence[tuple[int, int]]:
    return [(window.cursor, window.in_flight) for window in group.windows.values()]


async def _lease(broker: Broker, group: QueueGroup, wish: Wish, lease_id: int, looks: Sequence[Look]) -> Leased:
    visibility_ms = group.settings.visibility_ms if wish.visibility_ms is None else wish.visibility_ms
    offers = [each.offer for each in looks]
    command = Receive(wish.group, wish.consumer, wish.limit, visibility_ms, lease_id, offers)
    leased = await broker.queues.submit(wish.group, command)
    assert isinstance(leased, Leased)
    return leased


def _told(receipts: Receipts, wish: Wish, lease_id: int, leased: Leased, looks: Sequence[Look]) -> Receiving:
    records = {each.offer.partition: each.records for each in looks}
    received = [
        Received(
            delivery,
            receipts.write(wish.group, lease_id, delivery),
            list(map(records[delivery.partition].__getitem__, delivery.offsets)),
        )
        for delivery in leased.deliveries
    ]
    return Receiving(received, leased.deadline_ms, leased.shortfall)


class Statement(NamedTuple):
    """What a consumer says about messages: `delay_ms` and `reason` as of `Settle`."""

    verdict: Verdict
    delay_ms: int | None = None
    reason: str = ""


@operation("queues.settle")
async def settle(broker: Broker, receipts: Sequence[str], statement: Statement) -> Sequence[Result]:
    """Say of leased messages what became of them; return the result of each, durable."""
    shown, unreadable = broker.queues.receipts.read(receipts)
    results: list[Result | None] = [unreadable.get(number) for number in range(len(receipts))]
    for group, (numbers, claims) in shown.items():
        # Only what is tried again is spread.
        chance = broker.entropy.fraction() if statement.verdict is Verdict.NACK else 0.0
        command = Settle(group, statement.verdict, claims, statement.delay_ms, statement.reason, chance)
        try:
            told = await broker.queues.submit(group, command)
        except UnknownQueue:
            told = all_stale(claims)
        for number, result in zip(numbers, told, strict=True):
            results[number] = result
    return [each for each in results if each is not None]
