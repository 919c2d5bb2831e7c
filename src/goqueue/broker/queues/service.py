"""Queue groups: their coordinator, and what goes with it: receipts, rounds, waits, and counts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

from typing_extensions import override

from goqueue.broker.coordinator import Coordinator
from goqueue.broker.core import Core
from goqueue.broker.events import QueuePaused
from goqueue.broker.internal_topics import DELIVERIES_TOPIC
from goqueue.broker.messages.service import MessageService
from goqueue.broker.queues.counters import Partitions, QueueTallies, causes_of_death
from goqueue.broker.queues.reading import MessageRanges
from goqueue.broker.queues.receipts import ReceiptCodec
from goqueue.broker.queues.receiving import ROUND_MESSAGES_MAX, receive_together
from goqueue.broker.queues.settling import settle_together
from goqueue.broker.queues.start_positions import retreat_all
from goqueue.broker.queues.timestamps import Timestamps
from goqueue.broker.queues.waits import Waits
from goqueue.broker.topics.service import TopicService
from goqueue.errors import GoQueueError
from goqueue.machines.groups.share.members import ShareMembers
from goqueue.machines.groups.share.values import ShareMember
from goqueue.machines.queues.commands import Command, DeleteQueue, DropQueueTopic, MarkDeadLettered, Receive, Settle
from goqueue.machines.queues.group import QueueGroup
from goqueue.machines.queues.machine import QueueMachine
from goqueue.model.topic import Topic, TopicPartition
from goqueue.runtime.message_memory import MessageMemory
from goqueue.runtime.partition import Partition
from goqueue.runtime.request_batcher import RequestBatcher


class QueueService(Coordinator[QueueMachine, Command]):
    """All queue groups of a broker.

    The services above take part: groups tell what is a group of theirs (`is_group`), dead letters hear of every change
    (`when_changed`) and tell why messages cannot be moved to them (`dead_letter_troubles`).
    """

    is_group: Callable[[str], bool]

    receipts: ReceiptCodec  # once it is loaded, with the key of the catalogue

    def __init__(self, core: Core, topics: TopicService, messages: MessageService) -> None:
        super().__init__(
            core, topics, DELIVERIES_TOPIC, lambda: QueueMachine(topics.wall_jump_ms), changed=self._has_changed
        )
        self.messages = messages
        self.share_members = ShareMembers(topics.known)
        self.when_changed: list[Callable[[QueueMachine], None]] = []
        # By group and partition.
        self.dead_letter_troubles: dict[tuple[str, TopicPartition], str] = {}
        self.waits = Waits()
        self.stretches = MessageRanges()
        self.message_memory = MessageMemory()
        self.tallies = QueueTallies()
        self.timestamps = Timestamps()
        self.receives = RequestBatcher(core.tasks, partial(receive_together, self), size_max=ROUND_MESSAGES_MAX)
        # A settlement is carried out even if its caller has left since.
        self.settlements = RequestBatcher(
            core.tasks, partial(settle_together, self), size_max=ROUND_MESSAGES_MAX, holds_on=True
        )

    @override
    async def load(self) -> None:
        assert self.topics.catalog.receipt_key is not None
        self.receipts = ReceiptCodec(self.topics.catalog.receipt_key)
        await super().load()
        await retreat_all(self)

    @override
    async def submit(self, name: str, command: Command) -> Any:
        """Have a command carried out, as any coordinator does, and count what has become of messages."""
        if isinstance(command, MarkDeadLettered):
            return await self._bury(command)
        if not isinstance(command, (Receive, Settle)):
            return await self._administer(name, command)
        reply = await super().submit(name, command)
        if isinstance(command, Receive):
            deliveries = [delivery for leased in reply for delivery in leased.deliveries]
            self.tallies.leased(name, deliveries, self._partitions_of(name))
        else:
            self.tallies.settled(command, reply, self._partitions_of(name))
        return reply

    async def _administer(self, name: str, command: Command) -> Any:
        known = self._known(name)
        try:
            return await super().submit(name, command)
        finally:
            # Settings, a pause, another offset, an end: waiting receives look again, also if the caller has left.
            self.waits.wake(name)
            if isinstance(command, DeleteQueue) and self._known(name) is not known:
                self.tallies.forget(name)

    @override
    async def submit_to_all(self, command: Command) -> None:
        """Have a command carried out by every machine, and count no more what is gone."""
        await super().submit_to_all(command)
        if isinstance(command, DropQueueTopic):
            self.tallies.forget_topic(command.topic)

    def find(self, name: str) -> QueueGroup | None:
        """Return a group as it is now, or None; CoordinatorUnavailable if its log takes no writes any more."""
        machine = self.peek(name)
        return None if machine is None else machine.find(name)

    def pass_on(self, name: str) -> None:
        """Wake another receive for the messages that one has left."""
        if self.waits.has_line(name):
            try:
                group = self.find(name)
            except GoQueueError:
                # Each of them gets the error itself.
                self.waits.wake(name)
                return
            if group is not None:
                self.waits.pass_on(group)

    async def _bury(self, command: MarkDeadLettered) -> Any:
        # The causes are gone once the messages are done.
        causes = causes_of_death(self.find(command.group), command)
        reply = await super().submit(command.group, command)
        self.tallies.buried(command, causes, self._partitions_of(command.group))
        return reply

    def _partitions_of(self, name: str) -> Partitions:
        """Return the partitions of a group; until it was answered, the group or a topic of it may have gone."""
        group = self._known(name)
        return () if group is None else group.windows

    def _known(self, name: str) -> QueueGroup | None:
        """Return a group as it is in memory, whatever has become of its log."""
        machine = self._machines[self._index(name)] if self._machines else None
        return machine.find(name) if isinstance(machine, QueueMachine) else None

    def _has_changed(self, machine: QueueMachine) -> None:
        for group, reason in machine.take_tripped():
            self.core.sink.emit(QueuePaused(group, reason))
        self.waits.changed(machine)
        for look in self.when_changed:
            look(machine)

    def share_members_of(self, name: str) -> Sequence[ShareMember]:
        """Return the share consumers that are members of a group now, in order of their ids."""
        group = self.share_members.groups.get(name)
        return () if group is None else sorted(group.members.values(), key=lambda member: member.id)

    # -- the life of the broker

    @override
    def topics_changed(self, names: Collection[str]) -> None:
        self.waits.topics_changed()

    @override
    def partition_closing(self, partition: Partition) -> None:
        self.stretches.forget(partition)
        self.timestamps.forget(partition)

    @override
    async def topic_dropped(self, topic: Topic) -> None:
        await self.submit_to_all(DropQueueTopic(topic.name))

    @override
    def close(self) -> None:
        self.waits.close()
        super().close()
