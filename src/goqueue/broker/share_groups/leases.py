"""Leases messages of partitions to a session of a share group, as soon as there are any."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from goqueue.broker.presence import Presence
from goqueue.broker.queues.candidates import report_skipped
from goqueue.broker.queues.waits import Condition
from goqueue.broker.share_groups.candidates import ShareSearch, Supply, SupplyRequest
from goqueue.broker.share_groups.service import SharePartition, ShareSession
from goqueue.errors import GoQueueError, UnknownQueue
from goqueue.machines.queues.commands import Receive, Taker
from goqueue.machines.queues.group import QueueGroup
from goqueue.machines.queues.machine import Leased
from goqueue.machines.queues.steps import HELD_MAX
from goqueue.machines.queues.window import QueueWindow
from goqueue.model.queue_settings import Ordering
from goqueue.model.topic import TopicPartition
from goqueue.runtime.partition import Partition
from goqueue.runtime.waiters import Wake, hand_over, turns

if TYPE_CHECKING:
    from goqueue.broker.share_groups.service import ShareGroupService


class ShareTerms(NamedTuple):
    """How much a member wants, and how long it waits for it.

    `limit` messages come at most if it `is_strict`; otherwise all that there are in the last batch as well.
    """

    limit: int
    bytes_max: int
    bytes_min: int = 1
    wait_ms: int = 0
    is_strict: bool = False


class Sources(NamedTuple):
    """The partitions in which a session of a group looks, in turn, and what is wrong with others."""

    group: QueueGroup
    partitions: Mapping[SharePartition, Partition]
    faults: dict[SharePartition, GoQueueError]


class Shared(NamedTuple):
    """What a member got of a partition: whole batches, which of their messages are its own, and how often it was so."""

    data: bytes
    deliveries: Sequence[tuple[int, int]]


async def lease_shares(
    share_groups: ShareGroupService, session: ShareSession, sources: Sources, terms: ShareTerms, presence: Presence
) -> dict[SharePartition, Shared]:
    """Lease messages to a session, as soon as there are any; none if its group is deleted meanwhile."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + terms.wait_ms / 1000
    group = sources.group
    # Another group of that name may not have begun with these partitions. The next request sees to that.
    while share_groups.queues.find(group.name) is group and not (session.is_over or presence.is_over):
        is_late = loop.time() >= deadline or share_groups.queues.waits.is_closed
        room = _room(group, session.key.member_id)
        supplies = _look_around(share_groups, sources, terms, room) if room else {}
        size_bytes = sum(supply.size_bytes for supply in supplies.values())
        before = _progress(group)
        if supplies and (is_late or not size_bytes or size_bytes >= terms.bytes_min):
            leased = await _lease(share_groups, session, group.settings.visibility_ms, supplies)
            if leased.deliveries:
                return _shared(sources, supplies, leased)
        if share_groups.queues.find(group.name) is not group:
            continue
        if _progress(group) != before:
            # What was passed may be much, all of it aborted or waiting for its key: others have a turn in between.
            await turns(1)
        elif is_late:
            break
        else:
            condition = _condition(group, session.key.member_id)
            await _news(share_groups, sources, condition, deadline, presence)
    return {}


def _look_around(
    share_groups: ShareGroupService,
    sources: Sources,
    terms: ShareTerms,
    room: int,
) -> dict[SharePartition, Supply]:
    """Look for messages in partitions in turn; one that cannot be read does not keep the others back."""
    group = sources.group
    left, bytes_left = min(terms.limit, room), min(terms.bytes_max, share_groups.core.options.fetch_bytes_max)
    supplies = {}
    for place, partition in sources.partitions.items():
        window = group.windows.get(partition.place)
        if partition.gone is not None:
            sources.faults[place] = partition.gone
        if window is None or window.topic_id != place.topic_id or left <= 0 or bytes_left <= 0:
            continue
        limit_max = left if terms.is_strict else room
        wanted = SupplyRequest(left, limit_max, bytes_left, is_ordered=group.settings.ordering is Ordering.KEY)
        try:
            supply = ShareSearch(partition, window, wanted, share_groups.full_batches).run()
        except GoQueueError as error:
            sources.faults[place] = error.without_frames()
            continue
        sources.faults.pop(place, None)
        if not supply.is_empty:
            supplies[place] = supply
            left -= supply.messages
            room -= supply.messages
            bytes_left -= supply.size_bytes
    return supplies


def _progress(group: QueueGroup) -> Sequence[tuple[int, int]]:
    return [_place(window) for window in group.windows.values()]


def _place(window: QueueWindow) -> tuple[int, int]:
    """Return how far a group has come; with the same cursor there are never more messages in flight."""
    return window.cursor, window.in_flight


async def _lease(
    share_groups: ShareGroupService,
    session: ShareSession,
    visibility_ms: int,
    supplies: Mapping[SharePartition, Supply],
) -> Leased:
    group, consumer = session.key
    # One more than there are: what lies where nobody gets anything is passed only while there is room.
    limit = sum(supply.messages for supply in supplies.values()) + 1
    offers = [supply.offer for supply in supplies.values()]
    command = Receive(group, [Taker(consumer, limit, visibility_ms, session.lease_id)], offers)
    try:
        (leased,) = await share_groups.queues.submit(group, command)
    except UnknownQueue:
        return Leased((), 0, "")
    assert isinstance(leased, Leased)
    for offer in offers:
        report_skipped(share_groups.queues, group, offer)
    return leased


def _shared(
    sources: Sources,
    supplies: Mapping[SharePartition, Supply],
    leased: Leased,
) -> dict[SharePartition, Shared]:
    by_partition: dict[TopicPartition, list[tuple[int, int]]] = {}
    for partition, offsets, times in leased.deliveries:
        by_partition.setdefault(partition, []).extend([(offset, times) for offset in offsets])
    shared = {}
    for place, supply in supplies.items():
        deliveries = by_partition.get(supply.offer.partition)
        if deliveries:
            data = supply.holding([offset for offset, _ in deliveries])
            sources.partitions[place].bytes_out += len(data)
            shared[place] = Shared(data, sorted(deliveries))
    return shared


async def _news(
    share_groups: ShareGroupService,
    sources: Sources,
    condition: Condition,
    deadline: float,
    presence: Presence,
) -> None:
    """Wait until there may be a message for a group, the time is up, or nobody waits any more."""
    loop = asyncio.get_running_loop()
    woken: asyncio.Future[None] = loop.create_future()
    wake: Wake = partial(hand_over, woken, None)
    timer = loop.call_at(deadline, wake)
    share_groups.queues.waits.begin(sources.group.name, condition, wake)
    presence.watch(wake)
    for partition in sources.partitions.values():
        partition.waiters.watch(wake)
    try:
        await woken
    finally:
        timer.cancel()
        share_groups.queues.waits.end(sources.group.name, wake)
        presence.forget(wake)
        for partition in sources.partitions.values():
            partition.waiters.forget(wake)


def _room(group: QueueGroup, consumer: str) -> int:
    return 0 if group.paused else group.room(consumer)


def _condition(group: QueueGroup, consumer: str) -> Condition:
    """Return when there may be something for a session that got nothing of what there is."""
    if not _room(group, consumer):
        return lambda group: _room(group, consumer) > 0
    # Where as many messages are held as may be, nothing behind them was looked at; whoever is done there changes that.
    full = {where: _place(window) for where, window in group.windows.items() if window.held >= HELD_MAX}

    def may_go_on(group: QueueGroup) -> bool:
        windows = group.windows
        if any(window.ready for window in windows.values()):
            return True
        return any(where not in windows or _place(windows[where]) != place for where, place in full.items())

    return may_go_on
