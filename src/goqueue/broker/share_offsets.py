"""Where share groups go on, changed by administrators of Kafka: a share group is the queue group of its name.

Only a group without members can be changed, as in Kafka: its members would go on with what they hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from goqueue.broker.pipeline import operation
from goqueue.broker.queue_admin import QueueSeek, move_queue, require_queue
from goqueue.broker.queue_beginnings import require_topic
from goqueue.errors import GoQueueError
from goqueue.machines.delivery_commands import DropTopic
from goqueue.machines.group_values import TopicPartition

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker


@operation("shares.alter_offsets")
async def alter_share_offsets(
    broker: Broker, name: str, offsets: Mapping[TopicPartition, int]
) -> Mapping[TopicPartition, GoQueueError | None]:
    """Let a group go on at other offsets; return an error or None for each partition.

    Offsets outside of the log are moved to its nearest end. GroupNotEmpty while the group has members, UnknownQueue if
    there is no such group.
    """
    require_queue(broker, name)
    broker.shares.check_empty(name)
    outcomes: dict[TopicPartition, GoQueueError | None] = {}
    for place, offset in offsets.items():
        outcomes[place] = None
        try:
            await move_queue(broker, name, QueueSeek(place.topic, offset, is_offset=True, partitions=[place.partition]))
        except GoQueueError as error:
            outcomes[place] = error
    return outcomes


@operation("shares.delete_offsets")
async def delete_share_offsets(broker: Broker, name: str, topics: Sequence[str]) -> Mapping[str, GoQueueError | None]:
    """Forget how far a group is with topics; it begins with them as its settings say when it asks for them again."""
    require_queue(broker, name)
    broker.shares.check_empty(name)
    outcomes: dict[str, GoQueueError | None] = {}
    for topic in topics:
        outcomes[topic] = None
        try:
            require_topic(broker, topic)
            await broker.queues.submit(name, DropTopic(topic, name))
        except GoQueueError as error:
            outcomes[topic] = error
    return outcomes
