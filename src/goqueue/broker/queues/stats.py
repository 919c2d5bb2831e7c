"""Queue groups in numbers, by topic: what is in them, and what has happened since the broker was started."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from goqueue.broker.admission import Caller, operation
from goqueue.broker.queues.admin import PartitionView, partition_view
from goqueue.broker.queues.counters import QueueTally
from goqueue.machines.queues.group import QueueGroup
from goqueue.machines.queues.values import FlightState
from goqueue.runtime.waiters import give_way

if TYPE_CHECKING:
    from goqueue.broker.queues.service import QueueService


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTopicStats:
    """A queue group in a topic; `oldest_ms` is the time of the oldest message that is not done, None if nobody knows.

    `depth` is how many places of the log are not done; not all of them need be messages. `expired` is how many leases
    have ended by themselves, `stalled` how many dead messages cannot become letters now.
    """

    group: str
    topic: str
    paused: str
    depth: int
    in_flight: int
    oldest_ms: int | None
    expired: int
    stalled: int
    tally: QueueTally


@operation("queues.stats", on="cluster")
async def queue_stats(queues: QueueService, caller: Caller) -> Sequence[QueueTopicStats]:
    """Return all queue groups, in the order of their names and topics."""
    return await look_at_queues(queues)


async def look_at_queues(queues: QueueService, most: int | None = None) -> list[QueueTopicStats]:
    """Return some queue groups in the order of their names; others have a turn in between."""
    groups = [group for machine in queues.machines for group in machine.groups.values()]
    found: list[QueueTopicStats] = []
    for group in sorted(groups, key=lambda each: each.name):
        if most is not None and len(found) >= most:
            break
        # To find the age of a message its batch is opened.
        await give_way()
        found += _of_group(queues, group)
    return found if most is None else found[:most]


def _of_group(queues: QueueService, group: QueueGroup) -> list[QueueTopicStats]:
    by_topic: dict[str, list[PartitionView]] = {}
    for where, window in sorted(group.windows.items()):
        by_topic.setdefault(where.topic, []).append(partition_view(queues, group.name, where, window))
    return [
        QueueTopicStats(
            group=group.name,
            topic=topic,
            paused=group.paused,
            depth=sum(view.backlog + sum(view.in_flight.values()) for view in views),
            in_flight=sum(view.in_flight[FlightState.LEASED] for view in views),
            oldest_ms=min((view.oldest_ms for view in views if view.oldest_ms is not None), default=None),
            expired=group.expired[topic],
            stalled=sum(view.in_flight[FlightState.DEAD] for view in views if view.letter_trouble),
            tally=queues.tallies.find(group.name, topic),
        )
        for topic, views in by_topic.items()
    ]
