"""Receives of one queue group and the same topics, which are carried out together.

A round looks at the partitions in turn for all that its consumers want, leases what it finds, and parts it: those who
asked first are served first. Between the look and the decision there is no pause.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from goqueue.broker.queues.candidates import Candidates, find_candidates, is_worth_a_look, report_skipped
from goqueue.broker.queues.reading import MessageRanges
from goqueue.broker.queues.receipts import ReceiptCodec
from goqueue.broker.queues.start_positions import prepare
from goqueue.errors import GoQueueError, TooLarge
from goqueue.machines.queues.commands import Receive, Taker
from goqueue.machines.queues.group import QueueGroup
from goqueue.machines.queues.machine import Leased
from goqueue.machines.queues.steps import HELD_MAX
from goqueue.machines.queues.values import Delivery
from goqueue.machines.queues.window import QueueWindow
from goqueue.model.queue_settings import Ordering
from goqueue.model.topic import TopicPartition
from goqueue.records.reader import Record
from goqueue.runtime.partition import Partition
from goqueue.runtime.request_batcher import Take

if TYPE_CHECKING:
    from goqueue.broker.queues.service import QueueService

ROUND_MESSAGES_MAX = 1_000
"""How many messages are leased at once, unless one consumer wants more."""
_LEASE_ID_BYTES = 8
# How much those get who are served together.
_BYTES_MAX = 8 * 1024 * 1024


class Source(NamedTuple):
    """Where messages come from: a group, and which topics; `ordering` is that of a group that has to be made."""

    group: str
    topics: tuple[str, ...]
    ordering: Ordering = Ordering.NONE


class ReceiveTerms(NamedTuple):
    """What a consumer asks for; without a visibility timeout it is the group's."""

    source: Source
    consumer: str
    limit: int = 1
    wait_ms: int = 0
    visibility_ms: int | None = None


class LeasedRecords(NamedTuple):
    """Messages of one partition that a consumer has got together, with the receipt of each."""

    delivery: Delivery
    receipts: Sequence[str]
    records: Sequence[Record]


class Receiving(NamedTuple):
    """What a consumer got, until when, and why it is not more, if there is a reason."""

    received: Sequence[LeasedRecords]
    deadline_ms: int
    shortfall: str


class Mark(NamedTuple):
    """What can be seen of a partition in which there may be something, and of how far a group has come with it."""

    partition: Partition
    cursor: int
    ready: int
    in_flight: int
    stable_end: int
    log_start: int


class Sight(NamedTuple):
    """What can be seen of a group from outside: for whom nothing was there, nothing is as long as it stays the same.

    Another group of the same name is not the same. `shortfall` is why a consumer can get nothing, whatever there is.
    """

    group: QueueGroup
    shortfall: str
    marks: Sequence[Mark]

    def is_beyond(self, before: Sight) -> bool:
        """Tell whether there may be something where nobody has looked before: the group was moved, or has moved on."""
        return bool(self.marks) and (self.group, _places(self.marks)) != (before.group, _places(before.marks))


def _places(marks: Iterable[Mark]) -> list[tuple[Partition, int, int]]:
    return [(each.partition, each.cursor, each.ready) for each in marks]


class View(NamedTuple):
    """A group and the partitions that it is to get messages of, all of them begun."""

    group: QueueGroup
    partitions: Sequence[Partition]


class Looked(NamedTuple):
    """What came of a look, what was seen before, and where that was, if there was no pause since.

    `fault` is why partitions could not be read, if nothing else was there.
    """

    receiving: Receiving
    sight: Sight
    view: View | None = None
    fault: GoQueueError | None = None


async def receive_together(queues: QueueService, source: Source, take: Take[ReceiveTerms]) -> list[Looked]:
    """Lease messages to consumers, as far as there are any now; return what each of them gets."""
    message_memory = queues.message_memory
    group, partitions = await prepare(queues, *source)
    while not message_memory.room_bytes:
        await message_memory.room()
        group, partitions = await prepare(queues, *source)
    # From here on there is no pause: nobody who is served can have left.
    wishes = take()
    promising = _promising(group, partitions)
    told = [Looked(Receiving((), 0, each.shortfall), each) for each in _sights(group, promising, wishes)]
    served = [number for number, each in enumerate(told) if not each.sight.shortfall]
    takers = [_taker(queues, group, wishes[number]) for number in served]
    limit = sum([taker.limit for taker in takers])
    while True:
        bytes_max = min(_BYTES_MAX, message_memory.room_bytes)
        looks, fault = _look_around(queues.stretches, group, promising, takers, limit, bytes_max)
        if not looks:
            return [each if each.sight.shortfall else each._replace(fault=fault) for each in told]
        try:
            with message_memory.hold(sum(each.size_bytes for each in looks)):
                receive = Receive(group.name, takers, [each.offer for each in looks])
                leased = await queues.submit(group.name, receive)
            break
        except TooLarge:
            # Messages that failed for long reasons may lie in very many chunks. It was refused without a pause.
            if limit <= 1:
                raise
            limit //= 4
    for each in looks:
        report_skipped(queues, group.name, each.offer)
    records = {each.offer.partition: each.records for each in looks}
    for number, taker, each in zip(served, takers, leased, strict=True):
        received = _received(queues.receipts, group.name, taker, each, records)
        told[number] = Looked(Receiving(received, each.deadline_ms, each.shortfall), told[number].sight)
    return told


def _taker(queues: QueueService, group: QueueGroup, wish: ReceiveTerms) -> Taker:
    visibility_ms = group.settings.visibility_ms if wish.visibility_ms is None else wish.visibility_ms
    lease_id = int.from_bytes(queues.core.entropy.token(_LEASE_ID_BYTES))
    return Taker(wish.consumer, wish.limit, visibility_ms, lease_id)


def sight_of(view: View, wish: ReceiveTerms) -> Sight:
    """Return what a consumer sees of a group now."""
    (sight,) = _sights(view.group, _promising(*view), [wish])
    return sight


def _promising(group: QueueGroup, partitions: Sequence[Partition]) -> list[tuple[Partition, QueueWindow]]:
    """Return the partitions in which there may be something."""
    found = []
    for partition in partitions:
        window = group.windows.get(partition.place)
        if window is not None and is_worth_a_look(partition, window):
            found.append((partition, window))
    return found


def _sights(
    group: QueueGroup, promising: Sequence[tuple[Partition, QueueWindow]], wishes: Sequence[ReceiveTerms]
) -> Iterable[Sight]:
    marks = [
        Mark(each, window.cursor, len(window.ready), window.in_flight, each.last_stable_offset, each.log.start_offset)
        for each, window in promising
    ]
    return [Sight(group, shortfall_of(group, wish), marks) for wish in wishes]


def shortfall_of(group: QueueGroup, wish: ReceiveTerms) -> str:
    """Return why a consumer can get nothing now, whatever there is; empty if it can."""
    if group.paused:
        return f"the group is paused: {group.paused}"
    if not group.room(wish.consumer):
        return f"consumer {wish.consumer!r} has {group.settings.in_flight_max} messages in flight, and may have no more"
    return ""


def held_up(sight: Sight) -> str:
    """Return where so many messages wait for their key that nobody looks at those behind them; empty if nowhere."""
    for mark in sight.marks:
        topic, index = where = mark.partition.place
        window = sight.group.windows.get(where)
        if window is not None and window.held >= HELD_MAX:
            waiting = f"{window.held} messages of {topic}-{index} wait for others of their key"
            return f"{waiting}, and nothing behind them is delivered until some are done"
    return ""


def _look_around(
    stretches: MessageRanges,
    group: QueueGroup,
    promising: Sequence[tuple[Partition, QueueWindow]],
    takers: Sequence[Taker],
    limit: int,
    bytes_max: int,
) -> tuple[list[Candidates], GoQueueError | None]:
    """Look for messages in partitions in turn, until there are so many.

    A partition that cannot be read does not keep the others back; if nothing else is there, the reason is returned.
    """
    if not takers or not promising:
        return [], None
    # Whoever comes next begins elsewhere.
    first = takers[0].lease_id % len(promising)
    is_ordered = group.settings.ordering is Ordering.KEY
    looks = []
    fault: GoQueueError | None = None
    for partition, window in [*promising[first:], *promising[:first]]:
        if limit <= 0 or bytes_max <= 0:
            break
        try:
            found = find_candidates(partition, window, stretches, limit, bytes_max, is_ordered=is_ordered)
        except GoQueueError as error:
            fault = error.without_frames()
            continue
        if not found.is_empty:
            looks.append(found)
            limit -= len(found.offer.fresh) + len(found.offer.again)
            bytes_max -= found.size_bytes
    return looks, fault


def _received(
    receipts: ReceiptCodec,
    group: str,
    taker: Taker,
    leased: Leased,
    records: Mapping[TopicPartition, Mapping[int, Record]],
) -> list[LeasedRecords]:
    return [
        LeasedRecords(
            delivery,
            receipts.write(group, taker.lease_id, delivery),
            list(map(records[delivery.partition].__getitem__, delivery.offsets)),
        )
        for delivery in leased.deliveries
    ]
