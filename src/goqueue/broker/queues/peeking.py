"""Peeking: what the next receive of a queue group would bring, if it is not paused, without leasing any of it.

It is a receive from a copy of what the group knows. What waits for its key, was aborted or is gone is passed, and what
cannot be read keeps nothing else back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from goqueue.broker.admission import Caller, operation
from goqueue.broker.queues.admin import require_queue
from goqueue.broker.queues.candidates import find_candidates
from goqueue.broker.queues.start_positions import require_topic, start_of, start_offset, usable_partitions
from goqueue.errors import GoQueueError
from goqueue.machines.decision import Now
from goqueue.machines.queues.commands import Taker
from goqueue.machines.queues.group import QueueGroup
from goqueue.machines.queues.steps import begun, lease
from goqueue.machines.queues.window import QueueWindow
from goqueue.model.queue_settings import Ordering
from goqueue.model.topic import TopicPartition
from goqueue.records.reader import Record
from goqueue.runtime.partition import Partition
from goqueue.runtime.waiters import turns

if TYPE_CHECKING:
    from goqueue.broker.queues.service import QueueService
    from goqueue.broker.topics.open_topic import OpenTopic

_BYTES_MAX = 8 * 1024 * 1024
# Who peeks leases nothing.
_NOBODY = Taker("", 0, 0, 0)
_NO_TIME = Now(0, 0)


@operation("queues.peek", on="queue")
async def peek_queue(
    queues: QueueService, caller: Caller, name: str, topic: str, limit: int
) -> Sequence[tuple[TopicPartition, Record]]:
    """Return messages of a topic that the next receive would bring if the group is not paused, and lease none."""
    opened = require_topic(queues, topic)
    group = require_queue(queues, name)
    found: list[tuple[TopicPartition, Record]] = []
    fault: GoQueueError | None = None
    for partition in usable_partitions(opened):
        if len(found) < limit:
            window = await _window(queues, group, opened, partition)
            try:
                records = await _peek(queues, group, partition, window, limit - len(found))
            except GoQueueError as error:
                fault = error.without_frames()
                continue
            found += [(partition.place, record) for record in records]
    if fault is not None and not found:
        raise fault
    return found


async def _window(queues: QueueService, group: QueueGroup, opened: OpenTopic, partition: Partition) -> QueueWindow:
    """Return a partition as a group sees it, or would if it had begun with it; it is nobody's, and may be changed."""
    known = group.windows.get(partition.place)
    if known is not None and known.topic_id == opened.topic.id:
        return known.copy()
    start = await start_offset(queues, partition, start_of(group, opened))
    return QueueWindow(opened.topic.id, start, start)


async def _peek(
    queues: QueueService, group: QueueGroup, partition: Partition, window: QueueWindow, limit: int
) -> Sequence[Record]:
    is_ordered = group.settings.ordering is Ordering.KEY
    while True:
        seen = find_candidates(partition, window, queues.stretches, limit, _BYTES_MAX, is_ordered=is_ordered)
        draft = begun(window, seen.offer)
        leased = lease(draft, seen.offer, _NOBODY, _NO_TIME, limit)
        if leased or seen.is_empty:
            return [seen.records[offset] for delivery in leased for offset in delivery.offsets]
        # Nobody gets what was looked at: it is passed, as by a receive.
        draft.close()
        draft.adopt()
        await turns(1)
