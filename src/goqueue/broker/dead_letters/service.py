"""Dead letters: they are written, counted, browsed and purged here."""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from typing_extensions import override

from goqueue.broker.core import Core, Service
from goqueue.broker.dead_letters.stats import DeadLetterStats
from goqueue.broker.dead_letters.writer import DeadLetterWriter
from goqueue.broker.messages.service import MessageService
from goqueue.broker.queues.service import QueueService
from goqueue.broker.topics.service import TopicService
from goqueue.machines.redrives.redriven import Redriven
from goqueue.machines.redrives.values import Redrive


class RedriveLookup(Protocol):
    """Answers questions of dead letters about redrives, which are above them."""

    @property
    def redriven(self) -> Redriven:
        """Which dead letters were published again."""
        ...

    def of_topic(self, topic_id: UUID) -> Redrive | None:
        """Return the redrive of a topic that is under way."""
        ...


class DeadLetterService(Service):
    """The dead letters of a broker; redrives, which are above, set `redrives`."""

    redrives: RedriveLookup

    def __init__(self, core: Core, topics: TopicService, messages: MessageService, queues: QueueService) -> None:
        super().__init__(core)
        self.topics = topics
        self.messages = messages
        self.queues = queues
        self.counts = DeadLetterStats()
        self.writer = DeadLetterWriter(self)
        queues.when_changed.append(self.writer.look)

    @override
    async def resume(self) -> None:
        self.look_around()

    @override
    def look_around(self) -> None:
        self.writer.look_at_all()
