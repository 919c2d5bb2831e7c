"""Peeking: what the next receive of a queue group would bring, if it is not paused, without leasing any of it.

It is a receive whose drafts nobody adopts. As for a receive, what waits for its key, or was aborted, is passed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from goqueue.broker.pipeline import operation
from goqueue.broker.queue_admin import require_queue
from goqueue.broker.queue_beginnings import require_topic, start_of, start_offset
from goqueue.broker.queue_offers import look
from goqueue.machines.decision import Now
from goqueue.machines.delivery_commands import Taker
from goqueue.machines.delivery_group import QueueGroup
from goqueue.machines.delivery_steps import begun, lease
from goqueue.machines.delivery_window import Window
from goqueue.machines.group_values import TopicPartition
from goqueue.model.queue_settings import Ordering
from goqueue.records.reader import Record
from goqueue.runtime.waiters import turns

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker, OpenTopic

_BYTES_MAX = 8 * 1024 * 1024
# Who peeks leases nothing.
_NOBODY = Taker("", 0, 0, 0)
_NO_TIME = Now(0, 0)


@operation("queues.peek")
async def peek_queue(broker: Broker, name: str, topic: str, limit: int) -> Sequence[tuple[TopicPartition, Record]]:
    """Return messages of a topic that the next receive would bring if the group is not paused, and lease none."""
    opened = require_topic(broker, topic)
    group = require_queue(broker, name)
    found: list[tuple[TopicPartition, Record]] = []
    for index in range(len(opened.partitions)):
        if len(found) < limit:
            where = TopicPartition(topic, index)
            found += [(where, record) for record in await _peek(broker, group, opened, index, limit - len(found))]
    return found


async def _peek(broker: Broker, group: QueueGroup, opened: OpenTopic, index: int, limit: int) -> list[Record]:
    """Return messages of one partition."""
    partition = opened.partition(index)
    window = group.windows.get(partition.place)
    if window is None or window.topic_id != opened.topic.id:
        start = await start_offset(broker, partition, start_of(group, opened))
        window = Window(opened.topic.id, start, start)
    is_ordered = group.settings.ordering is Ordering.KEY
    look_from = partial(look, partition, stretches=broker.queues.stretches, limit=limit, bytes_max=_BYTES_MAX)
    seen = look_from(window, is_ordered=is_ordered)
    # A draft that nobody adopts changes nothing.
    draft = begun(window, seen.offer)
    while True:
        leased = lease(draft, seen.offer, _NOBODY, _NO_TIME, limit)
        if leased or draft.cursor <= seen.offer.looked_from:
            return [seen.records[offset] for delivery in leased for offset in delivery.offsets]
        # Nobody gets what was looked at: what comes next lies behind it.
        await turns(1)
        seen = look_from(Window(window.topic_id, draft.cursor, draft.cursor), is_ordered=is_ordered)
