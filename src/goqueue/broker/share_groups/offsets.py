"""Where share groups go on, changed by administrators of Kafka: a share group is the queue group of its name.

Only a group without members can be changed, as in Kafka: its members would go on with what they hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from goqueue.broker.admission import Caller, operation
from goqueue.broker.queues.admin import QueueSeek, move_partition, require_queue
from goqueue.broker.queues.start_positions import ensure_partitions, require_topic
from goqueue.errors import Draining, GoQueueError
from goqueue.machines.queues.commands import DropQueueTopic
from goqueue.model.topic import TopicPartition
from goqueue.runtime.waiters import turns

if TYPE_CHECKING:
    from goqueue.broker.share_groups.service import ShareGroupService


@operation("shares.alter_offsets", on="queue")
async def alter_share_offsets(
    share_groups: ShareGroupService, caller: Caller, name: str, offsets: Mapping[TopicPartition, int]
) -> Mapping[TopicPartition, GoQueueError | None]:
    """Let a group go on at other offsets; return an error or None for each partition.

    Offsets outside of the log are moved to its nearest end. GroupNotEmpty while the group has members, UnknownQueue if
    there is no such group.
    """
    group = require_queue(share_groups.queues, name)
    share_groups.check_empty(name)
    outcomes: dict[TopicPartition, GoQueueError | None] = {}
    begun: set[str] = set()
    for place, offset in offsets.items():
        # A request may name very many partitions: others have a turn in between.
        await turns(1)
        outcomes[place] = None
        try:
            if share_groups.admission.is_draining:
                raise Draining("the broker is about to stop", hint="try again; another one may take its place")
            share_groups.check_empty(name)
            opened = require_topic(share_groups.queues, place.topic)
            partition = opened.partition(place.partition)
            if place.topic not in begun:
                await ensure_partitions(share_groups.queues, group, [opened])
                begun.add(place.topic)
            await move_partition(
                share_groups.queues, caller, name, partition, QueueSeek(place.topic, offset, is_offset=True)
            )
        except GoQueueError as error:
            outcomes[place] = error.without_frames()
    return outcomes


@operation("shares.delete_offsets", on="queue")
async def delete_share_offsets(
    share_groups: ShareGroupService, caller: Caller, name: str, topics: Sequence[str]
) -> Mapping[str, GoQueueError | None]:
    """Forget how far a group is with topics; it begins with them as its settings say when it asks for them again."""
    require_queue(share_groups.queues, name)
    share_groups.check_empty(name)
    outcomes: dict[str, GoQueueError | None] = {}
    for topic in topics:
        await turns(1)
        outcomes[topic] = None
        try:
            share_groups.check_empty(name)
            require_topic(share_groups.queues, topic)
            await share_groups.queues.submit(name, DropQueueTopic(topic, name))
        except GoQueueError as error:
            outcomes[topic] = error.without_frames()
    return outcomes
