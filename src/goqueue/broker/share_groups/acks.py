"""What members of share groups say about messages: ranges of offsets, and what became of each.

A partition is settled as a whole or not at all: if one of its messages is not leased under the session, nothing that
was said about the partition holds. (A lease that ends just between the look and the decision is told as an error, too;
then the rest has been taken.) Messages that are gone from the log are done, whatever is said about them, and spoil
nothing. Whatever is taken is durable at return.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from goqueue.broker.share_groups.service import SharePartition, ShareSession
from goqueue.errors import GoQueueError, Invalid, StaleReceipt, UnknownQueue
from goqueue.machines.queues.commands import Receipt, Settle, claims_of
from goqueue.machines.queues.group import QueueGroup
from goqueue.machines.queues.steps import Result, stale
from goqueue.machines.queues.values import AckType, FlightState
from goqueue.machines.queues.window import SHIFT, QueueWindow
from goqueue.model.topic import TopicPartition

if TYPE_CHECKING:
    from goqueue.broker.share_groups.service import ShareGroupService

REJECTED = "rejected by a share consumer"


class Acked(NamedTuple):
    """A range of offsets, and one verdict for all of them, or one for each."""

    first: int
    last: int
    verdicts: Sequence[AckType]


Acks = Mapping[SharePartition, Sequence[Acked] | GoQueueError]
"""What is said about messages of partitions, or why it cannot be understood."""
AckResults = dict[SharePartition, GoQueueError | None]


async def settle_shares(share_groups: ShareGroupService, session: ShareSession, acks: Acks) -> AckResults:
    """Do what a member says about messages; return what has failed, for each partition."""
    group = share_groups.queues.find(session.key.group)
    results: AckResults = {}
    said: dict[AckType, list[tuple[SharePartition, Receipt]]] = {}
    for place, ranges in acks.items():
        try:
            receipts = _understood(share_groups, session, group, place, ranges)
        except GoQueueError as error:
            results[place] = error
            continue
        results[place] = None
        for verdict, receipt in receipts:
            said.setdefault(verdict, []).append((place, receipt))
    # They wait for the disk together.
    told = await asyncio.gather(*(_settle(share_groups, session, verdict, each) for verdict, each in said.items()))
    for each, outcomes in zip(said.values(), told, strict=True):
        for (place, receipt), outcome in zip(each, outcomes, strict=True):
            if isinstance(outcome, GoQueueError) and receipt.offset >= _log_start(share_groups, receipt.partition):
                results[place] = outcome
    return results


async def _settle(
    share_groups: ShareGroupService,
    session: ShareSession,
    verdict: AckType,
    said: Sequence[tuple[SharePartition, Receipt]],
) -> Sequence[Result]:
    receipts = [receipt for _, receipt in said]
    reason = REJECTED if verdict is AckType.REJECT else ""
    try:
        results: Sequence[Result] = await share_groups.queues.submit(
            session.key.group, Settle(session.key.group, verdict, claims_of(receipts), reason=reason)
        )
    except UnknownQueue:
        return [stale(receipt.partition, receipt.offset) for receipt in receipts]
    return results


def _understood(
    share_groups: ShareGroupService,
    session: ShareSession,
    group: QueueGroup | None,
    place: SharePartition,
    ranges: Sequence[Acked] | GoQueueError,
) -> list[tuple[AckType, Receipt]]:
    """Return what is said about each message of a partition; raises why none of it holds."""
    if isinstance(ranges, GoQueueError):
        raise ranges
    opened = share_groups.topics.topic_by_id(place.topic_id)
    where = TopicPartition(opened.topic.name, place.partition)
    _check_ranges(ranges)
    window = None if group is None else group.windows.get(where)
    held = 0 if group is None else group.leases.get(session.key.member_id, 0)
    start = _log_start(share_groups, where)
    # Nobody holds more than that, so no list is made of whatever somebody claims.
    if window is None or sum(max(each.last - max(each.first, start) + 1, 0) for each in ranges) > held:
        raise StaleReceipt(f"not all of these messages of {where.topic}-{where.partition} are leased by the session")
    now_ms = int(share_groups.core.clock.monotonic() * 1000)
    said = [(AckType.ACK, receipt) for receipt in _gone(window, where, session.lease_id, start)]
    for verdict, offset in _each(ranges, start):
        receipt = Receipt(where, offset, session.lease_id)
        if not _is_held(window, receipt, now_ms):
            raise stale(where, offset)
        said.append((verdict, receipt))
    return said


def _log_start(share_groups: ShareGroupService, where: TopicPartition) -> int:
    """Return where a log begins; if it cannot be used, nobody says that anything of it is gone."""
    try:
        return share_groups.topics.topic(where.topic).partition(where.partition).log.start_offset
    except GoQueueError:
        return 0


def _gone(window: QueueWindow, where: TopicPartition, lease_id: int, start: int) -> Iterator[Receipt]:
    """Yield what is leased still, and is in the log no more."""
    for index, chunk in window.chunks.items() if start > window.floor else ():
        if index << SHIFT < start:
            for offset, flight in chunk.flights.items():
                if offset < start and flight.lease is not None and flight.lease.id == lease_id:
                    yield Receipt(where, offset, lease_id)


def _check_ranges(ranges: Sequence[Acked]) -> None:
    end = 0
    for first, last, verdicts in ranges:
        if not end <= first <= last:
            raise Invalid(f"offsets {first} to {last} are no range behind the one before")
        if len(verdicts) not in (1, last - first + 1):
            raise Invalid(f"{len(verdicts)} verdicts do not fit to offsets {first} to {last}")
        end = last + 1


def _each(ranges: Sequence[Acked], start: int) -> Iterator[tuple[AckType, int]]:
    for first, last, verdicts in ranges:
        for offset in range(max(first, start), last + 1):
            yield verdicts[0 if len(verdicts) == 1 else offset - first], offset


def _is_held(window: QueueWindow, receipt: Receipt, now_ms: int) -> bool:
    flight = window.find(receipt.offset)
    return (
        flight is not None
        and flight.state is FlightState.LEASED
        and flight.lease is not None
        and flight.lease.id == receipt.lease_id
        and flight.until.monotonic_ms > now_ms
    )
