"""GroupMachine: the coordinator of consumer groups and their offsets."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Mapping

from typing_extensions import override

from goqueue.broker.coordinator import Coordinator
from goqueue.broker.core import Core
from goqueue.broker.groups.readers import readers_before
from goqueue.broker.internal_topics import GROUPS_TOPIC
from goqueue.broker.messages.service import MessageService
from goqueue.broker.queues.service import QueueService
from goqueue.broker.share_groups.service import ShareGroupService
from goqueue.broker.slices import Slices
from goqueue.broker.topics.retention_watch import Reader
from goqueue.broker.topics.service import TopicService
from goqueue.machines.groups.commands import DropTopicOffsets
from goqueue.machines.groups.consumer.heartbeat_pace import HeartbeatPace
from goqueue.machines.groups.machine import Command, GroupMachine
from goqueue.model.topic import Topic, TopicPartition


class GroupService(Coordinator[GroupMachine, Command]):
    """All groups of a broker but queue groups, whose names are not used twice; it sees queue groups as groups, too."""

    def __init__(
        self,
        core: Core,
        topics: TopicService,
        messages: MessageService,
        queues: QueueService,
        share_groups: ShareGroupService,
    ) -> None:
        super().__init__(core, topics, GROUPS_TOPIC, lambda: GroupMachine(topics.known, self.heartbeat_pace))
        self.heartbeat_pace = HeartbeatPace()
        self.messages = messages
        self.queues = queues
        self.share_groups = share_groups
        queues.is_group = self._is_group
        topics.readers = self

    def _is_group(self, name: str) -> bool:
        machine = self.peek(name)
        return machine is not None and (machine.find(name) is not None or machine.offsets.has(name))

    def readers_before(self, ends: Mapping[TopicPartition, int], slices: Slices) -> AsyncGenerator[Reader, None]:
        """Yield the groups that have committed an offset before the given one, for each of the given partitions."""
        return readers_before(self, ends, slices)

    @override
    def topics_changed(self, names: Collection[str]) -> None:
        for machine in self.machines:
            machine.topics_changed(names)
        self.pass_time()

    @override
    async def topic_dropped(self, topic: Topic) -> None:
        await self.submit_to_all(DropTopicOffsets(topic.name))
